"""Cost specs, cost functions and fitted curves."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from models.cost import Cost, CostFunction, Polynomial, Terms, Timings, cost_function
from models.errors import InvalidRequest

COSTS: TypeAdapter[Cost] = TypeAdapter(Cost)


def timings(rows: list[list[float]], degree: int = 1, quantile: float = 0.95) -> Timings:
    return Timings.model_validate({"timings": rows, "degree": degree, "quantile": quantile})


@pytest.mark.parametrize(
    ("spec", "kind", "dimensions"),
    [
        (3.0, float, 0),
        ({"polynomial": [1, 2]}, Polynomial, 1),
        ({"terms": [{"coefficient": 2, "powers": [1, 1]}, {"coefficient": 1, "powers": [0, 0]}]}, Terms, 2),
        ({"timings": [[1, 1], [2, 2], [3, 3]]}, Timings, 1),
        ({"timings": [[1, 1, 1], [2, 1, 2], [1, 2, 3]], "degree": 1}, Timings, 2),
    ],
)
def test_every_spec_gives_a_cost_function_of_its_dimensions(spec: object, kind: type, dimensions: int) -> None:
    read = COSTS.validate_python(spec)
    assert isinstance(read, kind)
    function, residuals = cost_function(read)
    assert function.dimensions == dimensions
    assert (residuals is not None) == (kind is Timings)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"terms": []}, "at least 1 item"),
        ({"terms": [{"coefficient": -1, "powers": [1]}]}, "greater than or equal to 0"),
        ({"terms": [{"coefficient": 1, "powers": [16]}]}, "less than or equal to 15"),
        ({"terms": [{"coefficient": 1, "powers": [1]}, {"coefficient": 1, "powers": [1, 1]}]}, "got 1 and 2 powers"),
        ({"timings": [[1, 1], [2, 2, 2]], "degree": 0}, "rows must have equal lengths, got 2 and 3 numbers"),
        ({"timings": [[0, 1], [2, 2]], "degree": 1}, "sizes must be at least 1, got 0"),
        ({"timings": [[1, 1, 5], [2, 1, 5]], "degree": 1}, "degree 1 requires timings at 3 or more sizes, got 2"),
    ],
)
def test_specs_that_make_no_sense_are_refused_with_the_numbers(spec: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        COSTS.validate_python(spec)


def test_the_cost_of_a_set_is_the_sum_of_its_features_equation_1() -> None:
    one, two = CostFunction.from_polynomial([1.0, 0.0, 0.5]), CostFunction.from_polynomial([0.0, 2.0])
    both = one + two + CostFunction.from_constant(3.0)
    assert both.coefficients.tolist() == [4.0, 2.0, 0.5]
    assert both([[2.0], [4.0]]).tolist() == [10.0, 20.0]
    assert both.depends_on_size
    assert not CostFunction.from_constant(3.0, 1).depends_on_size
    assert CostFunction.sum_of([]).coefficients.tolist() == [0.0]


def test_sizes_of_two_dimensions() -> None:
    area = cost_function(COSTS.validate_python({"terms": [{"coefficient": 0.5, "powers": [1, 1]}]}))[0]
    both = area + CostFunction.from_constant(1.0)
    assert both.powers.tolist() == [[0, 0], [1, 1]]
    assert both([[2.0, 3.0], [4.0, 5.0]]).tolist() == [4.0, 11.0]
    assert both.cost_at((2.0, 3.0)).coefficients.tolist() == [4.0]
    with pytest.raises(InvalidRequest, match="costs must depend on equally many sizes, got 1 and 2"):
        _ = both + CostFunction.from_polynomial([0.0, 1.0])
    with pytest.raises(InvalidRequest, match=r"sizes of shape \(1,\) must end in 2 dimensions"):
        both([1.0])


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=1, max_size=4), min_size=1, max_size=6), st.randoms())
def test_neither_order_nor_grouping_changes_a_sum(rows: list[list[float]], random: object) -> None:
    functions = [CostFunction.from_polynomial(row) for row in rows]
    shuffled = list(functions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert CostFunction.sum_of(functions).coefficients.tolist() == CostFunction.sum_of(shuffled).coefficients.tolist()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=4), st.floats(0.5, 1e6), st.floats(0.5, 1e6))
def test_cost_never_falls_with_size_in_floating_point_either(row: list[float], one: float, two: float) -> None:
    low, high = CostFunction.from_polynomial(row)([[min(one, two)], [max(one, two)]]).tolist()
    assert low <= high


def test_a_fit_finds_the_polynomial_that_made_the_timings() -> None:
    sizes = [1.0, 2.0, 5.0, 9.0, 20.0]
    function, residuals = CostFunction.fit(timings([[s, 3 + 0.5 * s * s] for s in sizes], 2))
    assert function.coefficients == pytest.approx([3, 0, 0.5], abs=1e-9)
    assert residuals.rms < 1e-9
    rows = [[a, b, 1 + 0.25 * a * b] for a in (1.0, 2.0, 8.0) for b in (1.0, 3.0, 9.0)]
    function, residuals = CostFunction.fit(timings(rows, 2))
    assert function([5.0, 7.0]) == pytest.approx(9.75)
    assert residuals.largest_over < 1e-9
    falling, residuals = CostFunction.fit(timings([[1, 4.0], [2, 3.0], [3, 2.0]]))
    assert falling.coefficients.tolist() == pytest.approx([4.0, 0.0])
    assert residuals.largest_over == pytest.approx(2.0)
    assert CostFunction.fit(timings([[1, 0.0], [2, 0.0]]))[0].coefficients.tolist() == [0.0, 0.0]


def test_a_fit_provisions_for_the_quantile_at_every_measured_size() -> None:
    rng = np.random.default_rng(0)
    rows = [[s, float(s * rng.uniform(0.5, 1.5))] for s in (1.0, 4.0, 16.0, 64.0) for _ in range(50)]
    for quantile in (0.5, 0.95, 1.0):
        function, residuals = CostFunction.fit(timings(rows, 1, quantile))
        over = []
        for size in (1.0, 4.0, 16.0, 64.0):
            wanted = np.quantile([cost for s, cost in rows if s == size], quantile)
            over.append(float(function([size])) - wanted)
        assert min(over) >= 0
        assert min(over) < 1e-6  # by no more than needed
        assert residuals.largest_under == 0
        assert residuals.largest_over == pytest.approx(max(over))
        assert residuals.rms == pytest.approx(np.sqrt(np.mean(np.square(over))))
        assert np.all(function.coefficients >= 0)


def test_sizes_beyond_what_can_be_computed_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"size 1e\+100 to the power 4"):
        CostFunction.fit(timings([[1, 1.0], [2, 2.0], [3, 2.0], [4, 2.0], [1e100, 3.0]], 4))
    with pytest.raises(ValidationError, match="sizes must be at least 1"):
        Timings.model_validate({"timings": [[1e-200, 0.001], [1, 1], [2, 8], [3, 40]], "degree": 2})
    with pytest.raises(InvalidRequest, match=r"got \(2, 1\) and \(3,\)"):
        CostFunction(np.array([[0], [1]]), np.ones(3))
    with pytest.raises(InvalidRequest, match="got -1"):
        CostFunction(np.array([[0]]), np.array([-1.0]))


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ({"polynomial": [1, -1]}, "greater than or equal to 0"),
        ({"timings": [[1, 1]], "degree": 2}, "degree 2 requires timings at 3"),
        ({"column": "c1"}, "polynomial, terms or timings"),
        ("x", "polynomial, terms or timings"),
        (-1, "greater than or equal to 0"),
    ],
)
def test_a_bad_cost_is_told_in_one_fault(cost: object, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Cost).validate_json(json.dumps(cost))
    assert len(caught.value.errors()) == 1
    assert said in str(caught.value)
