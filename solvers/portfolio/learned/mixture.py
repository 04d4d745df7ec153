"""How much regressions are believed: their mean, pulled to each classifier's mean as far as they mislead."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class RegressionMixture:
    """Some regressions together. means: (m,) how often each classifier is right. shrinks: (2,) what is kept of how far
    an item is above these for all classifiers together, and for each beside the others: 0 to 1."""

    means: Floats
    shrinks: Floats

    @classmethod
    def fit(cls, estimates: Mapping[str, Floats], right: Floats) -> "RegressionMixture":
        """Learn from estimates for rows that the regressions had not seen, (n, m) of each kind, and the truth.

        What is kept is the least-squares factor, and the less, the larger its standard error is beside it. O(n m).
        """
        means = right.mean(axis=0)
        each = zip(_parts(_mean(estimates) - means), _parts(right - means), strict=True)
        return cls(means, np.array([_factor(*pair) for pair in each]))

    def apply(self, estimates: Mapping[str, Floats]) -> Floats:
        """Mix: (n, m), from 0 to 1."""
        common, own = _parts(_mean(estimates) - self.means)
        return np.asarray(np.clip(self.means + self.shrinks[0] * common + self.shrinks[1] * own, 0.0, 1.0))


def _mean(estimates: Mapping[str, Floats]) -> Floats:
    return np.asarray(np.mean(list(estimates.values()), axis=0))


def _parts(off: Floats) -> tuple[Floats, Floats]:
    """Take apart what all classifiers have in common, (n, 1), and what each has beside the others, (n, m)."""
    common = off.mean(axis=1, keepdims=True)
    return common, off - common


def _factor(said: Floats, true: Floats) -> float:
    """Regress the truth on what was said, through 0, and believe that as far as its standard error allows: from 0 to 1.

    A hard threshold would drop what is weak but true: where two classifiers differ by little, who is sent where matters
    and not by how much.
    """
    square = float((said * said).sum())
    if square <= 1e-12:
        return 0.0
    factor = float((said * true).sum()) / square
    variance = float((((true - factor * said) * said).sum(axis=1) ** 2).sum()) / square**2
    return min(factor**3 / (factor**2 + variance), 1.0) if factor > 0 else 0.0
