"""Loss matrices: read by class name, refused with the name and the number, and applied to probabilities."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models import FeaturesSpec, InvalidRequest, TraceSpec, dataset_from_columns
from models.dataset_rows import grade_row_answers
from models.feedback import Outcome, grade_outcome
from models.losses import Losses, LossPrices
from tests.support.cases import first_quick

TRIAGE = {"sick": {"well": 2000}, "well": {"sick": 100}}
LABELS = np.array(["sick", "well", "well"], dtype=object)


def table(**more: Any) -> Any:
    features = [{"name": "age", "columns": ["age"], "cost": 1}]
    spec = {"kind": "features", "label": "label", "unit": "EUR", "features": features, **more}
    return dataset_from_columns(FeaturesSpec.model_validate(spec), {"label": LABELS, "age": np.arange(3.0)})


def trace(columns: dict[str, Any], classifiers: list[dict[str, Any]], **more: Any) -> Any:
    spec = {"kind": "trace", "unit": "EUR", "classifiers": [{"cost": 1, **each} for each in classifiers], **more}
    return dataset_from_columns(TraceSpec.model_validate(spec), columns)


def test_missing_cells_are_0_for_the_truth_and_1_for_errors() -> None:
    assert table(losses={"sick": {"well": 9}, "well": {}}).loss_matrix.tolist() == [[0, 9], [1, 0]]


def test_losses_are_in_the_unit_of_costs() -> None:
    read = table(losses=TRIAGE, reject_cost={"sick": 30, "well": 5}, loss_unit="USD", loss_weight=0.5)
    assert read.loss_matrix.tolist() == [[0, 1000, 15], [50, 0, 2.5]]
    assert read.losses.rejects
    assert read.loss_scale == 1000


@pytest.mark.parametrize(
    "more", [{}, {"losses": {"sick": {"well": 1}, "well": {"sick": 1}}}, {"losses": {"sick": {}, "well": {}}}]
)
def test_equal_errors_need_no_matrix(more: dict[str, Any]) -> None:
    assert table(**more).losses is None


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"losses": {"sick": {"well": 9}}}, ("spec", "losses")),
        ({"losses": TRIAGE | {"ill": {"well": 9}}}, ("spec", "losses", "ill")),
        ({"losses": TRIAGE | {"sick": {"dead": 9}}}, ("spec", "losses", "sick", "dead")),
        ({"losses": {"sick": {"well": 0}, "well": {"sick": 0}}}, ("spec", "losses")),
        ({"reject_cost": {"sick": 1}}, ("spec", "reject_cost")),
        ({"reject_cost": {"sick": 1, "well": 1, "ill": 2}}, ("spec", "reject_cost", "ill")),
    ],
)
def test_unknown_and_missing_classes_are_named(more: dict[str, Any], where: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        table(**more)
    assert [fault.loc for fault in refused.value.faults] == [where]


@pytest.mark.parametrize(
    "more",
    [
        {"losses": {"sick": {"well": -1}, "well": {}}},
        {"losses": {"sick": {"well": float("nan")}, "well": {}}},
        {"reject_cost": -0.5},
        {"losses": TRIAGE, "loss_unit": "USD"},
        {"losses": TRIAGE, "loss_weight": 0},
        {"loss_weight": 2},
        {"losses": TRIAGE, "loss_weight": 2},
    ],
)
def test_negative_losses_and_units_without_a_rate_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        table(**more)


def test_the_quality_of_a_prediction_is_1_less_its_share_of_the_largest_loss() -> None:
    answers = np.array(["well", "sick", "well"], dtype=object)
    read = trace({"label": LABELS, "a": answers}, [{"name": "a", "prediction": "a"}], label="label", losses=TRIAGE)
    assert read.quality[:, 0].tolist() == [0.0, 0.95, 1.0]


def test_an_answer_that_is_never_true_has_a_price_but_is_never_chosen() -> None:
    answers = np.array(["unsure", "sick", "well"], dtype=object)
    losses = {"sick": {"well": 2000, "unsure": 50}, "well": {"sick": 100, "unsure": 10}}
    read = trace({"label": LABELS, "a": answers}, [{"name": "a", "prediction": "a"}], label="label", losses=losses)
    assert read.quality[:, 0].tolist() == [1 - 50 / 2000, 0.95, 1.0]
    assert read.losses.among_true_classes().matrix.tolist() == [[0, 2000], [100, 0]]


def test_measured_losses_are_shares_of_the_largest() -> None:
    columns = {"a": np.array([0.0, 4.0, 1.0]), "b": np.array([0.0, 0.0, 8.0])}
    read = trace(columns, [{"name": name, "loss": name} for name in "ab"], loss_unit="USD", loss_weight=2)
    assert read.quality.tolist() == [[1, 1], [0.5, 1], [0.875, 0]]
    assert read.loss_scale == 16
    assert read.losses is None


@pytest.mark.parametrize(
    ("classifiers", "more"),
    [
        ([{"name": "a", "loss": "a"}, {"name": "b", "correct": "b"}], {}),
        ([{"name": "a", "correct": "a"}], {"losses": TRIAGE}),
        ([{"name": "a", "loss": "a"}], {"losses": TRIAGE}),
    ],
)
def test_losses_come_from_one_source(classifiers: list[dict[str, Any]], more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="loss"):
        trace({}, classifiers, **more)


@pytest.mark.parametrize("seed", first_quick(range(200), 50))
def test_the_chosen_answer_has_the_least_expected_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, rejects = int(rng.integers(2, 5)), bool(rng.integers(2))
    matrix = rng.integers(0, 50, (classes, classes + rejects)).astype(float)
    np.fill_diagonal(matrix, 0)
    losses = Losses(matrix, float(matrix.max()) or 1.0, rejects)
    probabilities = rng.dirichlet(np.ones(classes), 20)
    answers, expected = losses.choose(probabilities)
    for row, answer, loss in zip(probabilities, answers, expected, strict=True):
        each = [sum(p * matrix[t, a] for t, p in enumerate(row)) for a in range(matrix.shape[1])]
        assert each[answer] == pytest.approx(min(each))
        assert loss * losses.scale == pytest.approx(each[answer])


@given(st.integers(0, 10_000), st.floats(0, 40), st.floats(0, 1))
def test_a_cheaper_reject_never_lowers_the_share_of_rejects(seed: int, price: float, discount: float) -> None:
    rng = np.random.default_rng(seed)
    matrix, probabilities = rng.integers(0, 50, (3, 3)) * (1 - np.eye(3)) + 1, rng.dirichlet(np.ones(3), 50)
    dear, cheap = (
        (Losses(np.column_stack((matrix, np.full(3, cost))), 60.0, True).choose(probabilities)[0] == 3)
        for cost in (price, price * discount)
    )
    assert not np.any(dear & ~cheap)


def test_losses_are_named_by_class() -> None:
    read = table(losses=TRIAGE, reject_cost=30)
    prices = LossPrices.from_losses(read.losses, read.loss_scale, read.classes, None)
    assert prices is not None
    found = {(t, a): prices.find_loss(t, a) for t, a in product(("sick", "well", "ill"), ("sick", "well", None))}
    assert found == {
        ("sick", "sick"): 0,
        ("sick", "well"): 2000,
        ("sick", None): 30,
        ("well", "sick"): 100,
        ("well", "well"): 0,
        ("well", None): 30,
        ("ill", "sick"): None,
        ("ill", "well"): None,
        ("ill", None): None,
    }
    assert LossPrices.from_losses(None, 0.0, ("a", "b"), None) is None


PRICES = LossPrices(
    largest=2000,
    matrix={"sick": {"sick": 0, "well": 2000}, "well": {"sick": 100, "well": 0}},
    reject={"sick": 30, "well": 30},
)
MEASURED = LossPrices(largest=8)
REJECTING = LossPrices(largest=8, reject_loss=2)


def outcome(**fields: Any) -> Outcome:
    return Outcome.model_validate({"decision": "policy/x/1@0123456789ab?accuracy=0.9", **fields})


@pytest.mark.parametrize(
    ("prices", "fields", "quality"),
    [
        (PRICES, {"truth": "sick", "answer": "well"}, 0.0),
        (PRICES, {"truth": "well", "answer": "sick"}, 0.95),
        (PRICES, {"truth": "well", "answered": False}, 0.985),
        (PRICES, {"loss": 500}, 0.75),
        (MEASURED, {"loss": 2}, 0.75),
        (MEASURED, {"truth": "a", "answer": "b"}, 0.0),
        (MEASURED, {"answered": False}, None),
        (REJECTING, {"answered": False}, 0.75),
        (REJECTING, {"answered": True, "cost": 3}, None),
        (REJECTING, {"correct": True}, 1.0),
        (None, {"truth": "a", "answer": "a"}, 1.0),
        (None, {"truth": "a", "answered": False}, None),
        (PRICES, {"cost": 3}, None),
    ],
)
def test_outcomes_are_graded_by_their_loss(
    prices: LossPrices | None, fields: dict[str, Any], quality: float | None
) -> None:
    assert grade_outcome(outcome(**fields), prices).right == quality


@pytest.mark.parametrize(
    ("prices", "fields", "field"),
    [
        (None, {"loss": 1}, "loss"),
        (PRICES, {"loss": 2001}, "loss"),
        (PRICES, {"truth": "ill", "answer": "sick"}, "truth"),
        (PRICES, {"truth": "sick", "answer": "ill"}, "answer"),
        (PRICES.model_copy(update={"reject": {}}), {"truth": "sick", "answered": False}, "answered"),
    ],
)
def test_outcomes_that_cannot_be_graded_are_refused(
    prices: LossPrices | None, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        grade_outcome(outcome(**fields), prices)
    assert [fault.loc for fault in refused.value.faults] == [(field,)]


@pytest.mark.parametrize(
    "fields",
    [
        {"loss": 1, "correct": True},
        {"truth": "a"},
        {"truth": "a", "answer": "a", "answered": False},
        {"answer": "a"},
        {"loss": -1},
        {"loss": float("nan")},
        {},
    ],
)
def test_outcomes_say_one_thing(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        outcome(**fields)


def test_rows_of_feedback_are_graded_by_their_losses() -> None:
    spec = trace({"label": LABELS, "a": LABELS}, [{"name": "a", "prediction": "a"}], label="label", losses=TRIAGE).spec
    assert grade_row_answers(spec, {"label": "well", "a": "sick"}, PRICES) == {"a": 0.95}
    measured = trace({"a": np.array([0.0, 4.0])}, [{"name": "a", "loss": "a"}], loss_unit="USD", loss_weight=2).spec
    assert grade_row_answers(measured, {"a": 1.0}, MEASURED) == {"a": 0.75}
