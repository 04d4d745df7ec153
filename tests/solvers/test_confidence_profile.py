"""Confidences of an endpoint are compared with those of the build: other scales are seen, chance is not."""

from typing import Any

import numpy as np
import pytest

from models import Trace, TraceSpec
from solvers.confidence_profile import WINDOW, compare_confidences, profile_confidences

RNG = np.random.default_rng(0)


def profile(values: Any, items: Any = None) -> dict[str, Any]:
    """Profile confidences of a classifier."""
    classifiers = [
        {"name": "a", "correct": "ok", "confidence": "sure", "cost": 1.0},
        {"name": "b", "correct": "ok", "cost": 2.0},
    ]
    columns = {"ok": np.ones(len(values)), "sure": np.asarray(values)}
    columns |= {} if items is None else {"item": items.astype(float)}
    item = {} if items is None else {"item": "item"}
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "ms", "classifiers": classifiers, **item})
    made = profile_confidences(Trace.from_columns(spec, columns))
    assert made.keys() == {"a"}
    return made["a"]


def test_of_partial_traces_only_the_rows_with_calls_count() -> None:
    called = np.arange(400) % 4 == 0
    values, items = np.where(called, np.linspace(0.2, 0.9, 400), np.nan), np.arange(400) // 8
    classifiers = [
        {"name": "a", "correct": "a_ok", "confidence": "sure", "cost": 1.0},
        {"name": "b", "correct": "b_ok", "cost": 2.0},
    ]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "ms", "item": "item", "classifiers": classifiers})
    columns = {"a_ok": np.where(called, 1.0, np.nan), "b_ok": np.ones(400), "sure": values, "item": items}
    made = profile_confidences(Trace.from_columns(spec, columns))["a"]
    assert made["rows"] == 50
    assert np.isfinite(made["quantiles"]).all()
    assert made["quantiles"][0] == values[0]


@pytest.mark.parametrize("rows", [40, 400, 4000])
@pytest.mark.parametrize("levels", [0, 2, 5])
def test_windows_of_an_unchanged_endpoint_do_not_differ(rows: int, levels: int) -> None:
    rng = np.random.default_rng(rows + levels)

    def drawn(count: int) -> Any:
        values = rng.beta(5, 2, count)
        return np.round(values * levels) / levels if levels else values

    alarms = 0
    for _ in range(40):
        build = profile(drawn(rows))
        alarms += sum(compare_confidences(build, drawn(WINDOW), share=1.0) is not None for _ in range(10))
    assert alarms <= 1


def test_rounded_confidences_and_last_digits_do_not_differ() -> None:
    """Most of them are equal: to 1, or to a constant."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(40):
        build = profile(np.round(1 - rng.beta(0.3, 3, 2000), 2))
        alarms += compare_confidences(build, (1 - rng.beta(0.3, 3, WINDOW)).round(2).tolist(), share=1.0) is not None
    assert alarms == 0
    assert compare_confidences(profile(np.full(2000, 0.9)), [0.9 + 1e-12] * WINDOW, share=1.0) is None


def test_rows_of_one_item_count_as_one() -> None:
    """Forty items of 25 rows each show less of a distribution than a thousand rows of as many items."""
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        build = profile(np.repeat(rng.beta(5, 2, 40), 25), items=np.repeat(np.arange(40), 25))
        alarms += compare_confidences(build, rng.beta(5, 2, WINDOW).tolist(), share=1.0) is not None
    assert alarms <= 1


@pytest.mark.parametrize(
    "changed",
    [
        lambda p: np.log(p),
        lambda p: 100 * p,
        lambda p: p**6,
        lambda p: np.full(len(p), 0.99),
        lambda p: np.clip(p + 0.25, 0, 1),
    ],
    ids=["logprob", "percent", "product of tokens", "always sure", "surer"],
)
def test_another_scale_or_distribution_is_seen_in_one_window(changed: Any) -> None:
    build, values = profile(RNG.beta(5, 2, 1000)), RNG.beta(5, 2, WINDOW)
    assert compare_confidences(build, changed(values), share=1.0) is not None


def test_of_selected_items_only_what_no_selection_explains_differs() -> None:
    values = RNG.beta(5, 2, 1000)
    build, hard = profile(values), np.sort(values)[:WINDOW]
    assert compare_confidences(build, hard.tolist(), share=1.0) is not None
    assert compare_confidences(build, hard.tolist(), share=WINDOW / 1000) is None
    assert compare_confidences(build, (100 * hard).tolist(), share=WINDOW / 1000) is not None


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("levels", [0, 5])
def test_no_selection_of_an_unchanged_endpoints_items_differs(share: float, levels: int) -> None:
    """Selected are the least confident, the most confident, and those in the middle."""
    rng, alarms = np.random.default_rng(levels), 0
    for _ in range(40):
        drawn = [rng.beta(5, 2, count) for count in (1000, round(WINDOW / share))]
        rows, values = (np.round(each * levels) / levels if levels else each for each in drawn)
        build, ordered, middle = profile(rows), np.sort(values), (len(values) - WINDOW) // 2
        for selected in (ordered[:WINDOW], ordered[-WINDOW:], ordered[middle : middle + WINDOW]):
            alarms += compare_confidences(build, selected.tolist(), share=share) is not None
    assert alarms == 0


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("changed", [lambda p: p**6, lambda p: np.full(len(p), 0.95)], ids=["product", "always sure"])
def test_another_scale_is_seen_in_confidences_of_selected_items(share: float, changed: Any) -> None:
    build, values = profile(RNG.beta(5, 2, 1000)), np.sort(RNG.beta(5, 2, round(WINDOW / share)))[:WINDOW]
    assert compare_confidences(build, changed(values).tolist(), share=share) is not None
