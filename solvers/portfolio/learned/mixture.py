"""Mixture of regressions: their mean, shrunk to each classifier's mean as far as errors demand."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class RegressionMixture:
    """Shrunken mean of regressions.

    Attributes:
        means: (m,), accuracy of each classifier.
        shrinks: (2,), factors from 0 to 1 of an item's deviation from them: in common to all classifiers, and of each
            classifier relative to that.
    """

    means: Floats
    shrinks: Floats

    @classmethod
    def fit(cls, estimates: Mapping[str, Floats], right: Floats) -> "RegressionMixture":
        """Fit to cross-fitted estimates, (n, m) of each kind, and outcomes.

        Factors are least-squares ones, reduced by their relative standard error. O(n m).
        """
        means = right.mean(axis=0)
        each = zip(_split_deviations(_average(estimates) - means), _split_deviations(right - means), strict=True)
        return cls(means, np.array([_fit_factor(*pair) for pair in each]))

    def apply(self, estimates: Mapping[str, Floats]) -> Floats:
        """Return the mixed estimates, (n, m), from 0 to 1."""
        common, own = _split_deviations(_average(estimates) - self.means)
        return np.asarray(np.clip(self.means + self.shrinks[0] * common + self.shrinks[1] * own, 0.0, 1.0))


def _average(estimates: Mapping[str, Floats]) -> Floats:
    return np.asarray(np.mean(list(estimates.values()), axis=0))


def _split_deviations(off: Floats) -> tuple[Floats, Floats]:
    """Return the common part of deviations, (n, 1), and the remainders, (n, m)."""
    common = off.mean(axis=1, keepdims=True)
    return common, off - common


def _fit_factor(estimates: Floats, outcomes: Floats) -> float:
    """Return the least-squares factor of outcomes on estimates, shrunk by its standard error: from 0 to 1.

    A hard threshold would drop weak but true effects: where two classifiers differ by little, the order matters, not
    the size.
    """
    square = float((estimates * estimates).sum())
    if square <= 1e-12:
        return 0.0
    factor = float((estimates * outcomes).sum()) / square
    variance = float((((outcomes - factor * estimates) * estimates).sum(axis=1) ** 2).sum()) / square**2
    return min(factor**3 / (factor**2 + variance), 1.0) if factor > 0 else 0.0
