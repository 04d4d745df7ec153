"""Datasets of recorded rows: propensities are those of the calls, so estimates hold the truth."""

from base64 import b64encode
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from app.importing.frozen_recordings import validate_frozen_trace
from app.importing.recorded_trace import FrozenTrace, KnownTruth, build_recorded_trace, join_truths
from models import InvalidRequest, Trace
from solvers.partial_traces import require_propensity_overlap

NAMES = ("cheap", "strong")
COSTS = {"cheap": 1.0, "strong": 10.0}
SEEDS = 30


class RecordedWorld:
    """Items whose difficulty the embedding shows badly; a cascade calls the strong classifier for uncertain answers.

    The answers of the cheap one tell more about an item than its embedding does, so propensities that are estimated
    from embeddings are wrong.
    """

    def __init__(self, seed: int, rows: int = 800, explore: float = 0.15) -> None:
        rng = np.random.default_rng(seed)
        self.hard = rng.random(rows)
        self.vectors = (self.hard[:, None] + rng.normal(scale=0.5, size=(rows, 2))).astype(np.float32)
        self.truth = rng.integers(0, 3, rows)
        chances = np.column_stack((0.95 - 0.7 * self.hard, 0.95 - 0.2 * self.hard))
        self.right = rng.random((rows, 2)) < chances
        self.confidence = np.clip(chances[:, 0] + rng.normal(scale=0.1, size=rows), 0, 1)
        self.labels = np.where(self.right, self.truth[:, None], (self.truth[:, None] + 1) % 3)
        self.escalated = self.confidence < 0.6
        self.explore = explore
        self.is_open = np.arange(rows) < 0.8 * rows  # then the budget of exploration is spent
        self.explored = self.is_open & (rng.random(rows) < explore)

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(at) for at in range(len(self.hard))]

    def _row(self, at: int) -> dict[str, Any]:
        calls = [self._call(at, 0, 1.0, is_explored=False)]
        if self.escalated[at]:
            calls.append(self._call(at, 1, 1.0, is_explored=False))
        elif self.explored[at]:
            calls.append(self._call(at, 1, self.explore, is_explored=True))
        return {
            "id": f"item-{at}",
            "time": float(at),
            "embedding": b64encode(self.vectors[at].tobytes()).decode(),
            "size": [],
            "item": None,
            "explore": self.explore if self.is_open[at] else 0.0,
            "candidates": list(NAMES),
            "calls": calls,
        }

    def _call(self, at: int, j: int, propensity: float, *, is_explored: bool) -> dict[str, Any]:
        known = {"confidence": float(self.confidence[at])} if j == 0 else {"confidence": None}
        about = {"classifier": NAMES[j], "label": str(self.labels[at, j]), "cost": COSTS[NAMES[j]], "error": None}
        return {**about, **known, "seconds": 0.1, "propensity": propensity, "is_explored": is_explored}

    def truths(self) -> dict[str, KnownTruth]:
        return {f"item-{at}": KnownTruth(str(label), {}) for at, label in enumerate(self.truth)}

    def freeze(self, reference: str | None = None, **changes: Any) -> FrozenTrace:
        truths = {} if reference else self.truths()
        return build_recorded_trace([{**row, **changes} for row in self.rows()], truths, reference, "USD")


def to_trace(frozen: FrozenTrace) -> Trace:
    dataset = validate_frozen_trace(frozen, 10**8)
    assert isinstance(dataset, Trace)
    return dataset


def interval_of(values: Any) -> tuple[float, float, float]:
    mean, half = float(values.mean()), 1.96 * float(values.std()) / len(values) ** 0.5
    return mean, mean - half, mean + half


@pytest.mark.slow
def test_doubly_robust_values_of_the_strong_classifier_hold_the_truth() -> None:
    """Over sixty worlds, 95 % intervals hold the accuracy of all items, although the regression is a constant.

    Means of the calls are wrong by points.
    """
    inside, errors, naive = 0, [], []
    for seed in range(2 * SEEDS):
        world = RecordedWorld(seed)
        trace = to_trace(world.freeze())
        strong = [one.name for one in trace.spec.classifiers].index("strong")
        called, quality = trace.called[:, strong], np.nan_to_num(trace.quality[:, strong])
        values = 0.7 + np.where(called, (quality - 0.7) / trace.propensities[:, strong], 0.0)
        mean, low, high = interval_of(values)
        truth = float(world.right[world.is_open, 1].mean())
        inside += low <= truth <= high
        errors.append(mean - truth)
        naive.append(float(quality[called].mean()) - truth)
    assert inside >= 2 * SEEDS * 0.9
    assert abs(np.mean(errors)) < 3 * np.std(errors) / (2 * SEEDS) ** 0.5 < 0.03
    assert np.mean(naive) < -0.02


def test_nothing_is_estimated_of_a_recording_that_never_explored() -> None:
    """The strong classifier was called where the cheap one was uncertain, which embeddings do not show."""
    for explore, is_refused in ((0.0, True), (0.15, False)):
        trace = to_trace(RecordedWorld(0, explore=explore).freeze())
        propensities = np.where(np.isnan(trace.propensities), 0.3, trace.propensities)
        with pytest.raises(InvalidRequest) if is_refused else nullcontext():
            require_propensity_overlap(trace, propensities)


def test_recorded_propensities_are_those_of_the_calls() -> None:
    """The shares of calls with a propensity are the propensity: over worlds, among all rows that are used."""
    calls = expected = rows = 0.0
    for seed in range(SEEDS):
        world = RecordedWorld(seed, 300)
        frozen = world.freeze()
        table = frozen.table.to_pydict()
        assert frozen.unused["rows that could not be explored: the budget was spent, or calls waited"] == 60
        known = np.array([np.nan if p is None else p for p in table["strong.propensity"]])
        escalated = world.escalated[world.is_open]
        assert np.array_equal(known == 1.0, escalated)
        assert np.array_equal(known == world.explore, ~escalated)
        called = np.array([cost is not None for cost in table["strong.cost"]])
        rows += (~escalated).sum()
        calls += (called & ~escalated).sum()
        expected += world.explore * (~escalated).sum()
    assert abs(calls - expected) < 4 * (rows * 0.15 * 0.85) ** 0.5


def test_a_reference_weighs_the_rows_that_it_was_explored_for() -> None:
    """Agreement with the strong classifier over all items, although it was mostly called for difficult ones."""
    errors, naive = [], []
    for seed in range(SEEDS):
        world = RecordedWorld(seed)
        frozen = world.freeze(reference="strong")
        assert frozen.spec["label_source"] == "strong"
        table = {name: np.array(column) for name, column in frozen.table.to_pydict().items()}
        assert set(np.round(table["weight"], 6)) == {1.0, round(1 / 0.15, 6)}
        assert set(table["cheap.propensity"]) == set(table["strong.propensity"]) == {1.0}
        agrees = table["cheap.prediction"] == table["truth"]
        truth = (world.labels[world.is_open, 0] == world.labels[world.is_open, 1]).mean()
        errors.append((agrees * table["weight"]).sum() / table["weight"].sum() - truth)
        naive.append(agrees.mean() - truth)
    assert abs(np.mean(errors)) < 0.02
    assert np.mean(naive) < -0.05


def test_without_exploration_all_rows_are_used() -> None:
    frozen = RecordedWorld(0, 50).freeze(explore=0.0)
    assert (frozen.table.num_rows, dict(frozen.unused)) == (50, {})


def test_what_cannot_be_used_is_counted() -> None:
    call = {"confidence": None, "cost": 1.0, "seconds": 0.0, "propensity": 1.0, "is_explored": False, "error": None}
    good: dict[str, Any] = {**call, "classifier": "cheap", "label": "a"}
    row: dict[str, Any] = {
        "time": 1.0,
        "embedding": None,
        "size": [2.0],
        "item": None,
        "explore": None,
        "calls": [good],
    }
    failed = {**call, "classifier": "strong", "label": "b", "error": "x"}
    rows: list[dict[str, Any]] = [
        {**row, "id": "a", "candidates": []},
        {**row, "id": "a", "candidates": ["cheap"]},
        {
            **row,
            "id": "b",
            "candidates": ["cheap", "strong"],
            "calls": [good, failed],
        },
        {**row, "id": "c", "candidates": ["cheap", "strong"], "calls": [{**good, "label": None}]},
        {**row, "id": "d", "candidates": ["cheap", "strong"]},
    ]
    truths = join_truths(
        [
            {"id": "a", "truth": "a", "grades": []},
            {"id": "b", "truth": "b", "grades": []},
            {"id": "c", "truth": "a", "grades": []},
        ]
    )
    frozen = build_recorded_trace(rows, truths, None, "ms")
    assert sum(frozen.unused.values()) == 5
    assert dict(frozen.unused) == {
        "rows of versions without one of the newest version's classifiers": 1,
        "rows without truth": 1,
        "calls that failed": 1,
        "calls without an outcome": 1,
        "rows without a call that can be used": 1,
    }
    assert frozen.table.to_pydict() == {
        "truth": ["a", "b"],
        "size_1": [2.0, 2.0],
        "cheap.prediction": ["a", "a"],
        "cheap.cost": [1.0, 1.0],
        "cheap.propensity": [1.0, 1.0],
    }


def test_the_latest_truth_of_an_item_counts() -> None:
    grade = {"classifier": "cheap", "value": 0.5}
    lines: list[dict[str, Any]] = [
        {"id": "a", "truth": None, "grades": [grade]},
        {"id": "a", "truth": None, "grades": [{"classifier": "strong", "value": 1.0}]},
        {"id": "b", "truth": None, "grades": [grade]},
        {"id": "b", "truth": "x", "grades": []},
        {"id": "c", "truth": "x", "grades": []},
        {"id": "c", "truth": None, "grades": [grade]},
    ]
    assert join_truths(lines) == {
        "a": KnownTruth(None, {"cheap": 0.5, "strong": 1.0}),
        "b": KnownTruth("x", {}),
        "c": KnownTruth(None, {"cheap": 0.5}),
    }


def test_items_that_repeat_are_named_and_texts_replace_embeddings() -> None:
    rows = [{**row, "id": "same", "embedding": None, "item": '"a text"'} for row in RecordedWorld(0, 40).rows()]
    frozen = build_recorded_trace(rows, {"same": KnownTruth(None, {"cheap": 0.5, "strong": 1.0})}, None, "USD")
    assert (frozen.spec["item"], frozen.spec["text"], "label" in frozen.spec) == ("item", "prompt", False)
    assert {one["name"]: one["quality"] for one in frozen.spec["classifiers"]} == {
        "cheap": "cheap.quality",
        "strong": "strong.quality",
    }
    assert set(frozen.table["cheap.quality"].to_pylist()) == {0.5}
