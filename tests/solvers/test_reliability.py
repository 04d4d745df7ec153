"""Estimates hold on rows that no build has seen, as often as their 95 % intervals claim."""

from collections import defaultdict
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, norm

from solvers.statistics import Z_95
from tests.support.replays import QUERIES, REPLAYS, Replayed, World, built

FRESH = {"cascade": 100_000}
"""Rows that say what is true; a cascade has more, for it is replayed at once."""
PARAMS: dict[str, dict[str, Any]] = {
    "portfolio": {"samples": {"count": 8, "size": 50}, "curve_points": 9, "regularization": 0.0},
    "policy": {"points": 4, "trees": 16},
}
LEARNED: dict[str, Any] = {"curve_points": 5}
ROWS = {"cascade": 400, "index": 300, "pipeline": 600, "policy": 300, "portfolio": 600}
QUANTITIES = {
    "cascade": {"accuracy", "time", "cost"},
    "index": {"accuracy"},
    "pipeline": {"accuracy", "coverage", "cost"},
    "policy": {"accuracy", "cost"},
    "portfolio": {"accuracy", "cost"},
}
SEEDS = {"cascade": 16, "index": 16, "pipeline": 16, "policy": 6, "portfolio": 6}
ALARM = 0.001
"""How often one of the questions may be answered wrongly by chance."""


@cache
def fresh(rows: int) -> World:
    """Draw the rows that say what is true, once."""
    return World.of(10_000, rows)


@pytest.mark.parametrize(
    ("kind", "params", "seeds"),
    [
        *((kind, PARAMS.get(kind, {}), SEEDS[kind]) for kind in REPLAYS),
        ("portfolio", LEARNED, 3),
    ],
)
@pytest.mark.slow
def test_what_is_said_is_as_far_off_as_its_intervals_say(kind: str, params: dict[str, Any], seeds: int) -> None:
    """Neither to one side nor too far; in standard errors, so that a few builds tell. Decisions of one build are off
    together, so each build counts once. The truth is known to within an error, too, which all builds share."""
    offs: dict[str, list[float]] = defaultdict(list)
    rows = FRESH.get(kind, 5000)
    for seed in range(seeds):
        loaded = built(kind, World.of(seed, ROWS[kind]).dataset(kind, measured=True), seed, **params)
        replayed = chain.from_iterable(REPLAYS[kind](loaded, fresh(rows), query) for query in QUERIES[kind])
        of_quantity = defaultdict(list)
        for one in replayed:
            of_quantity[one.quantity].append(_off(one))
        for quantity, values in of_quantity.items():
            offs[quantity].append(float(np.mean(values)))
    assert offs.keys() == QUANTITIES[kind]
    unsure = ROWS[kind] / rows
    for quantity, each in offs.items():
        off = np.array(each)
        assert abs(off.mean()) <= norm.ppf(1 - ALARM / 2) * (1 / seeds + unsure) ** 0.5, (quantity, each)
        assert np.square(off).mean() <= chi2.ppf(1 - ALARM, seeds) / seeds * (1 + unsure), (quantity, each)


def _off(replayed: Replayed) -> float:
    """Say how far what was said is from what came true, in the standard errors that the interval stands for."""
    low, high = replayed.interval
    return 2 * Z_95 * (replayed.said - replayed.true) / (high - low)
