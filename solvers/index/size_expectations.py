"""Expected accuracy of a feature set for an item of one size, and its effective number of rows."""

from bisect import bisect_right
from dataclasses import dataclass
from math import log

import numpy as np

from solvers.index.contents import IndexContents

Curve = tuple[list[float], list[float]]


@dataclass(frozen=True, slots=True, eq=False)
class SizeExpectations:
    """Accuracy splines of all sets that can be chosen, as Python numbers for fast look-ups.

    Attributes:
        knots: logarithms of extents.
        edges: extents where regions begin.
        covariance: covariance of the levels at the knots, for holdout rows and for all rows.
        rows: upper bounds of the effective number of rows. A bound is the rows of one region, because the spline may
            deviate from the true curve.
        levels: for each set the accuracies at the knots, on holdout rows and on all rows.
        biases: for each set its optimism and spread by region.
    """

    knots: list[float]
    edges: list[float]
    covariance: tuple[list[list[float]], list[list[float]]]
    rows: tuple[float, float]
    levels: dict[tuple[str, ...], Curve]
    biases: dict[tuple[str, ...], Curve]

    @classmethod
    def from_contents(cls, contents: IndexContents) -> "SizeExpectations":
        """Read the splines from a plan's arrays."""
        places = np.union1d(contents.candidates, contents.model_sets).tolist()
        named = {place: contents.list_names(int(contents.masks[place])) for place in places}
        _, others, every = contents.size_levels
        _, of_others, of_every = contents.size_covariance.tolist()
        parts = max(len(contents.size_knots), len(contents.size_centers))
        return cls(
            contents.size_knots.tolist(),
            contents.size_edges.tolist(),
            (of_others, of_every),
            ((contents.rows - contents.choosing) / parts, contents.rows / parts),
            {named[place]: (others[:, place].tolist(), every[:, place].tolist()) for place in places},
            {
                named[place]: (contents.size_optimism[:, place].tolist(), contents.size_spread[:, place].tolist())
                for place in places
            },
        )

    def estimate_accuracy(
        self, features: tuple[str, ...], extent: float, *, of_others: bool
    ) -> tuple[float, int] | None:
        """Return a set's accuracy at an extent and the effective number of rows; None for an unknown set."""
        levels = self.levels.get(features)
        if levels is None:
            return None
        which, region = int(not of_others), bisect_right(self.edges, extent)
        optimism, spread = (each[region] for each in self.biases[features])
        low, high, share = self._between(extent)
        level = (1 - share) * levels[which][low] + share * levels[which][high] - optimism
        accuracy = min(max(level, 0.0), 1.0)
        variance = max(accuracy * (1 - accuracy), 1e-9)
        error = variance / self.count_rows(extent, which) + (0.0 if of_others else spread**2)
        return accuracy, max(int(variance / error), 1)

    def count_rows(self, extent: float, which: int = 1) -> float:
        """Return the effective number of rows at an extent.

        which: 1 for all rows, 0 for holdout rows.
        """
        low, high, share = self._between(extent)
        table = self.covariance[which]
        leverage = (1 - share) ** 2 * table[low][low] + share**2 * table[high][high]
        leverage += 2 * share * (1 - share) * table[low][high]
        return max(min(1 / leverage, self.rows[which]), 1.0)

    def _between(self, extent: float) -> tuple[int, int, float]:
        """Return the two knots around an extent, and the weight of the second."""
        at, knots = log(extent), self.knots
        high = bisect_right(knots, at)
        if high in (0, len(knots)):
            place = min(high, len(knots) - 1)
            return place, place, 0.0
        return high - 1, high, (at - knots[high - 1]) / (knots[high] - knots[high - 1])
