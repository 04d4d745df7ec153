"""What is said of a decision's accuracy comes true on rows that no build has seen: intervals of 95 % hold it."""

from functools import cache
from typing import Any

import pytest
from scipy.stats import binom

from tests.support.replays import REPLAYS, World, built

FRESH = 4000
"""Rows that say what is true; a cascade has more, for it is replayed at once."""
PARAMS: dict[str, dict[str, Any]] = {
    "portfolio": {"samples": {"count": 8, "size": 50}, "curve_points": 9, "regularization": 0.0},
    "policy": {"points": 4, "trees": 16, "learner": "regression"},
}
ROWS = {"cascade": 400, "index": 300, "pipeline": 600, "policy": 300, "portfolio": 600}
SEEDS = {"cascade": 150, "index": 12, "pipeline": 12, "policy": 4, "portfolio": 6}


@cache
def fresh(rows: int) -> World:
    """Draw the rows that say what is true, once."""
    return World.of(10_000, rows)


@pytest.mark.parametrize("solver", REPLAYS)
def test_intervals_of_accuracies_hold_what_comes_true(solver: str) -> None:
    """As many miss as chance allows: of decisions of one build all may miss together, so each build counts once."""
    misses, replayed_on = 0, fresh(200_000 if solver == "cascade" else FRESH)
    slack = 1 / replayed_on.correct.shape[0] ** 0.5  # two standard errors of what is true
    for seed in range(SEEDS[solver]):
        live = built(solver, World.of(seed, ROWS[solver]).dataset(solver), seed, **PARAMS.get(solver, {}))
        replayed = REPLAYS[solver](live, replayed_on)
        share = sum(not low - slack <= true <= high + slack for (low, high), true in replayed) / len(replayed)
        misses += share > 0.5
    assert misses <= binom.ppf(0.999, SEEDS[solver], 0.05)
