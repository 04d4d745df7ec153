"""What is said of decisions comes true on rows that no build has seen: intervals of 95 % hold it."""

from collections import Counter, defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tests.support.replays import REPLAYS, Replayed, World, built

FRESH = 4000
"""Rows that say what is true; a cascade has more, for it is replayed at once."""
PARAMS: dict[str, dict[str, Any]] = {
    "portfolio": {"samples": {"count": 8, "size": 50}, "curve_points": 9, "regularization": 0.0},
    "policy": {"points": 4, "trees": 16, "learner": "regression"},
}
ROWS = {"cascade": 400, "index": 300, "pipeline": 600, "policy": 300, "portfolio": 600}
QUANTITIES = {
    "cascade": {"accuracy", "time"},
    "index": {"accuracy"},
    "pipeline": {"accuracy", "coverage", "cost"},
    "policy": {"accuracy", "cost"},
    "portfolio": {"accuracy", "cost"},
}
SEEDS = {"cascade": 150, "index": 12, "pipeline": 12, "policy": 4, "portfolio": 6}


@cache
def fresh(rows: int) -> World:
    """Draw the rows that say what is true, once."""
    return World.of(10_000, rows)


@pytest.mark.parametrize(
    ("solver", "params"),
    [*((solver, PARAMS.get(solver, {})) for solver in REPLAYS), ("portfolio", {"estimator": "boosting"})],
)
def test_intervals_hold_what_comes_true(solver: str, params: dict[str, Any]) -> None:
    """As many miss as chance allows: of decisions of one build all may miss together, so each build counts once."""
    misses: Counter[str] = Counter()
    replayed_on = fresh(200_000 if solver == "cascade" else FRESH)
    for seed in range(SEEDS[solver]):
        dataset = World.of(seed, ROWS[solver]).dataset(solver, measured=True)
        live = built(solver, dataset, seed, **params)
        of_quantity = defaultdict(list)
        for replayed in REPLAYS[solver](live, replayed_on):
            of_quantity[replayed.quantity].append(_holds(replayed, len(replayed_on.correct)))
        misses.update({quantity: int(np.mean(held) < 0.5) for quantity, held in of_quantity.items()})
    assert set(misses) >= QUANTITIES[solver]
    assert max(misses.values()) <= binom.ppf(0.999, SEEDS[solver], 0.05), misses


def _holds(replayed: Replayed, rows: int) -> bool:
    """Tell whether an interval holds what came true, which is itself known to within two standard errors only."""
    (low, high), true = replayed.interval, replayed.true
    slack = (1 if replayed.quantity in ("accuracy", "coverage") else true) / rows**0.5
    return bool(low - slack <= true <= high + slack)
