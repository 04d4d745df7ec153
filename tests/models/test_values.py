"""Values take types literally, are frozen, and know no field that they do not declare."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from models import Build, BuildProgress, BuildRequest, FeatureSpec, Name, Polynomial, Timings
from models.cascade import CascadeOptions, CascadeQuery, Classifier, SolveRequest

NAMES: TypeAdapter[str] = TypeAdapter(Name)


@pytest.mark.parametrize("number", [True, "1", None, float("nan"), float("inf"), -float("inf"), [1.0], 1e999])
def test_only_a_finite_number_is_a_number(number: object) -> None:
    classifier = {"name": "K", "execution_time": number, "success_probability": 0.5}
    with pytest.raises(ValidationError):
        Classifier.model_validate(classifier)
    with pytest.raises(ValidationError):
        Classifier.model_validate_json(json.dumps(classifier))


def test_an_integer_is_taken_for_a_float() -> None:
    classifier = Classifier.model_validate_json('{"name": "K", "execution_time": 2, "success_probability": 1}')
    assert (classifier.execution_time, classifier.worst_case, classifier.deterministic) == (2.0, 2.0, True)
    assert isinstance(classifier.execution_time, float)
    times = {"name": "K", "success_probability": 0.5, "execution_time": 2.0}
    assert Classifier.model_validate({**times, "worst_case_time": 3.0}).worst_case == 3.0
    for change in ({"worst_case_time": 1.0}, *({"success_probability": p} for p in (0.0, -0.1, 1.1))):
        with pytest.raises(ValidationError, match=r"at least|greater than|less than"):
            Classifier.model_validate(times | change)
    assert len(SolveRequest(classifiers=(classifier,) * 200).classifiers) == 200
    for count in (0, 201):
        with pytest.raises(ValidationError):
            SolveRequest(classifiers=(classifier,) * count)


@pytest.mark.parametrize("seed", [1.0, 1.5, True, "1", -1, 2**63])
def test_a_seed_is_an_integer_that_fits_64_bits(seed: object) -> None:
    with pytest.raises(ValidationError) as caught:
        BuildRequest.model_validate({"kind": "cascade", "name": "a", "dataset": "b", "seed": seed})
    assert caught.value.errors()[0]["loc"] == ("seed",)


@pytest.mark.parametrize("members", [["1"], [True], [0.0], [float("nan")]])
def test_the_members_of_a_list_stay_strict_and_a_list_is_a_tuple(members: list[object]) -> None:
    assert CascadeOptions.model_validate_json('{"deadlines": [1, 2.5]}').deadlines == (1.0, 2.5)
    assert CascadeOptions.model_validate({"deadlines": [1, 2.5]}).deadlines == (1.0, 2.5)
    with pytest.raises(ValidationError) as caught:
        CascadeOptions.model_validate({"deadlines": members})
    assert caught.value.errors()[0]["loc"] == ("deadlines", 0)


@pytest.mark.parametrize("name", ["", "A", "-a", ".a", "a/b", "a:b", "a b", "é", "a\n", "a" * 64, "..", None, 1])
def test_what_could_not_stand_in_a_path_or_key_is_no_name(name: object) -> None:
    for good in ("a", "0", "digits-joint", "v1.2_x", "a" * 63):
        assert NAMES.validate_python(good) == good
    with pytest.raises(ValidationError):
        NAMES.validate_python(name)


@given(st.text(max_size=70))
def test_no_name_holds_a_character_that_keys_or_paths_use(text: str) -> None:
    try:
        NAMES.validate_python(text)
    except ValidationError:
        return
    assert 1 <= len(text) <= 63
    assert not set(text) & set(":/?#%\n ")


@pytest.mark.parametrize(
    ("cost", "kind"),
    [
        (3, float),
        (0.0, float),
        ({"polynomial": [0.2, 0.01, 1e-6]}, Polynomial),
        ({"timings": [[64, 1.1], [128, 4.2], [256, 9]]}, Timings),
    ],
)
def test_a_cost_is_a_number_a_polynomial_or_timings(cost: object, kind: type) -> None:
    assert isinstance(FeatureSpec.model_validate({"name": "f", "columns": ["f"], "cost": cost}).cost, kind)


@pytest.mark.parametrize(
    "cost",
    [
        -1,
        "3",
        True,
        float("nan"),
        {"polynomial": []},
        {"polynomial": [1.0, -0.1]},
        {"polynomial": [1.0] * 17},
        {"polynomial": ["1"]},
        {"timings": []},
        {"timings": [[64, 1.1], [64, 1.1, 2.0]], "degree": 0},
        {"timings": [[64]], "degree": 0},
        {"timings": [[64, -1.0]], "degree": 0},
        {"timings": [[64, 1.0]], "degree": 0, "quantile": 0},
        {"timings": [[64, 1.0]], "degree": 0, "quantile": 1.5},
        {"timings": [[64, 1.0]], "degree": 16},
        {"polynomial": [1.0], "timings": [[64, 1.0]]},
        {},
        None,
    ],
)
def test_a_cost_that_could_fall_below_zero_or_says_nothing_is_refused(cost: object) -> None:
    with pytest.raises(ValidationError):
        FeatureSpec.model_validate({"name": "f", "columns": ["f"], "cost": cost})


def test_timings_need_more_sizes_than_their_degree() -> None:
    with pytest.raises(ValidationError, match=r"degree 2 requires timings at 3 or more sizes, got 2"):
        Timings.model_validate({"timings": [[64, 1.1], [128, 4.2], [128, 4.4]]})
    assert Timings.model_validate({"timings": [[64, 1.1], [128, 4.2]], "degree": 1}).degree == 1


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("inf"), float("nan")])
def test_a_deadline_is_above_zero_and_finite_known_by_its_name_and_cannot_be_changed(deadline: float) -> None:
    query = CascadeQuery(deadline=3.0)
    with pytest.raises(ValidationError):
        CascadeQuery(deadline=deadline)
    with pytest.raises(ValidationError):
        query.deadline = 4.0  # type: ignore[misc]
    with pytest.raises(ValidationError) as caught:
        CascadeQuery.model_validate({"dedline": 3.0})
    assert caught.value.errors()[0]["loc"] == ("dedline",)


@pytest.mark.parametrize(
    ("status", "ended"),
    [("queued", False), ("running", False), ("succeeded", True), ("failed", True), ("cancelled", True)],
)
def test_a_build_has_ended_unless_it_is_queued_or_running(status: Any, ended: bool) -> None:
    facts: dict[str, Any] = {"kind": "cascade", "name": "a", "dataset": "b", "params": {}, "seed": 0}
    build = Build(id="1", status=status, progress=BuildProgress(), created_at="2026-01-01T00:00:00.000Z", **facts)
    assert build.ended is ended
    assert Build.model_validate_json(build.model_dump_json()) == build
