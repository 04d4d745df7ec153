"""Which parameters suit a data set: the sweep of Section 4.1 of EMSCO, over a grid such as its Table 2.

Each combination is run several times and given the mean score of the fittest configuration of its last generation:
the l2 norm of coverage, accuracy and 1 / log cost. Scores that differ by less than delta count as equal; then the
smaller population wins, then whoever comes first in the grid.

The paper's score needs costs that are large numbers: 1 / log cost grows beyond all bounds as the mean cost falls to 1,
and means nothing below. Here it is at most 1, which it is for any cost up to e; so no cheap unit drowns the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import e, log, sqrt

import numpy as np

from models.arrays import Floats
from models.errors import Fault, InvalidRequest
from solvers.base import Progress, silent
from solvers.pipeline.emsco import Evaluate, Ranked, Settings, evolve

RUNS = 10
DELTA = 0.025
"""Runs of each combination, and scores that are equal, in the paper."""
BASE = Settings(generations=100, patience=20)
"""What the paper's sweep leaves fixed."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The values to combine; by default those of Table 2."""

    mutation: Sequence[float] = (0.025, 0.05, 0.075, 0.1)
    recombination: Sequence[float] = (0.7, 0.75, 0.8, 0.85, 0.9)
    beta: Sequence[float] = (2.0, 2.5, 3.0)
    elite: Sequence[float] = (0.1, 0.2, 0.3)
    population: Sequence[int] = (200, 300, 400)

    def combined(self, base: Settings) -> list[Settings]:
        """List all combinations, the last parameter changing fastest; the rest is taken from ``base``.

        >>> len(Grid().combined(BASE))
        540
        """
        names = ("mutation", "recombination", "beta", "elite", "population")
        combinations = product(*(getattr(self, name) for name in names))
        return [replace(base, **dict(zip(names, values, strict=True))) for values in combinations]


@dataclass(frozen=True, slots=True, eq=False)
class GridSearch:
    """What a sweep found: settings in the order of the grid, (g,), their mean scores, (g,) float64, and the best."""

    settings: list[Settings]
    scores: Floats
    best: Settings


def search_grid(
    evaluate: Evaluate,
    features: int,
    max_stages: int,
    rng: np.random.Generator,
    *,
    grid: Grid | None = None,
    base: Settings = BASE,
    runs: int = RUNS,
    delta: float = DELTA,
    most: int | None = None,
    progress: Progress = silent,
) -> GridSearch:
    """Run every combination of the grid, or ``most`` of them, drawn at random.

    The paper takes half the features, rounded up, as max_stages.

    evaluate should know what it has trained, for all runs share it. progress is told each run, of all, and may raise.
    Raises InvalidRequest for runs below 1, delta below 0, an empty grid, and settings out of range.
    """
    if runs < 1 or not delta >= 0:
        raise InvalidRequest.at(Fault(("runs",), f"are {runs} with delta {delta}, must be at least 1 and 0"))
    settings = (grid or Grid()).combined(base)
    if not settings:
        raise InvalidRequest.at(Fault(("grid",), "is empty"))
    if most is not None and most < len(settings):
        settings = [settings[i] for i in np.sort(rng.choice(len(settings), most, replace=False)).tolist()]
    scores = np.zeros(len(settings))
    for i, (using, own) in enumerate(zip(settings, rng.spawn(len(settings)), strict=True)):
        for run in range(runs):
            progress(i * runs + run, len(settings) * runs, "runs of EMSCO")
            scores[i] += score(evolve(evaluate, features, max_stages, using, own).front) / runs
    return GridSearch(settings, scores, settings[best_of(scores, [each.population for each in settings], delta)])


def score(front: Ranked) -> float:
    """Score the fittest configuration of a front, between 0 and the square root of 3."""
    first = front.scores.take(np.array([0]))
    inverse = 1 / log(max(float(first.cost[0]), e))
    return sqrt(float(first.coverage[0]) ** 2 + float(first.accuracy[0]) ** 2 + inverse**2)


def best_of(scores: Floats, populations: Sequence[int], delta: float) -> int:
    """Find, among those less than delta below the highest score, the smallest population, and the first with it.

    >>> best_of(np.array([1.0, 0.99, 0.985, 0.5]), [300, 200, 200, 100], 0.025)
    1
    """
    close = np.flatnonzero((scores.max() - scores < delta) | (scores == scores.max()))
    return int(min(close.tolist(), key=lambda i: populations[i]))
