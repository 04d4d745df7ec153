"""How much regressions are believed: several, weighed, and pulled to each classifier's mean as far as they mislead.

Weights are those of stacking: non-negative least squares on estimates for rows that the regressions had not seen
(Breiman, *Stacked regressions*, 1996), so that a kind which tells nothing new has none, and is not kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Floats

MOST_WEIGHT = 4.0
"""What weights of stacking add up to is about 1, a little more where regressions are timid."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Some kinds of regressions, weighed. weights: (k,) of how far each is above means: (m,) how often each classifier
    is right. shrinks: (2,) what is kept of how far an item is above these for all classifiers together, and for each
    beside the others: 0 to 1."""

    kinds: tuple[str, ...]
    weights: Floats
    means: Floats
    shrinks: Floats

    @classmethod
    def of(cls, kinds: Sequence[str], estimates: Mapping[str, Floats], right: Floats) -> "Mixture":
        """Learn from estimates for rows that the regressions had not seen, (n, m) of each kind, and the truth.

        What is kept is the least-squares factor; one that is not a standard error above 0 is 0. O(n m k²).
        """
        means = right.mean(axis=0)
        weights = _weights([estimates[kind] - means for kind in kinds], right - means)
        used = np.flatnonzero(weights > 0)
        mixture = cls(tuple(kinds[place] for place in used.tolist()), weights[used], means, np.ones(2))
        parts, truths = _parts(mixture._off(estimates)), _parts(right - means)
        factors = np.array([_factor(*each) for each in zip(parts, truths, strict=True)])
        return replace(mixture, shrinks=factors)

    def apply(self, estimates: Mapping[str, Floats]) -> Floats:
        """Mix: (n, m), from 0 to 1."""
        common, own = _parts(self._off(estimates))
        return np.asarray(np.clip(self.means + self.shrinks[0] * common + self.shrinks[1] * own, 0.0, 1.0))

    def _off(self, estimates: Mapping[str, Floats]) -> Floats:
        """Tell how far items are above the means before anything is pulled there, (n, m)."""
        each = zip(self.kinds, self.weights.tolist(), strict=True)
        return np.asarray(sum(weight * (estimates[kind] - self.means) for kind, weight in each))


def _weights(said: Sequence[Floats], true: Floats) -> Floats:
    """Weigh what was said, (n, m) each, so that it comes nearest to the truth; alike, where nothing of it helps. What
    hardly differs from the means is not blown up: weights add up to at most ``MOST_WEIGHT``.

    >>> _weights([np.array([[0.5], [-0.5]]), np.array([[0.0], [0.0]])], np.array([[0.25], [-0.25]])).round(9).tolist()
    [0.5, 0.0]
    """
    from scipy.optimize import nnls

    if len(said) == 1:
        return np.ones(1)
    weights = np.asarray(nnls(np.stack([each.ravel() for each in said], axis=1), true.ravel())[0])
    if not weights.any():
        return np.full(len(said), 1 / len(said))
    return np.asarray(weights * min(1.0, MOST_WEIGHT / weights.sum()))


def _parts(off: Floats) -> tuple[Floats, Floats]:
    """Take apart what all classifiers have in common and what each has beside the others."""
    common = off.mean(axis=1, keepdims=True)
    return common, off - common


def _factor(said: Floats, true: Floats) -> float:
    """Regress the truth on what was said, through 0."""
    square = float((said * said).sum())
    if square <= 1e-12:
        return 0.0
    factor = float((said * true).sum()) / square
    error = float(np.sqrt((((true - factor * said) * said).sum(axis=1) ** 2).sum())) / square
    return min(factor, 1.0) if factor > error else 0.0
