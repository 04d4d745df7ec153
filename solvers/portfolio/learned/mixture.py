"""How much regressions are believed: several, weighed, and pulled to each classifier's mean as far as they mislead.

Weights are those of stacking: non-negative least squares on estimates for rows that the regressions had not seen
(Breiman, *Stacked regressions*, 1996), so that a kind which tells nothing new has none, and is not kept. Of some
hundred rows these would be chance: a prior holds them to the kernel alone until rows tell otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s

MOST_WEIGHT = 4.0
"""What weights of stacking add up to is about 1, a little more where regressions are timid."""
SMOOTH = "kernel"
"""The kind that is believed until rows tell otherwise: of few rows it errs least."""
PRIOR_VARIANCE = 0.1
"""Of how far each weight may be from that: a third, as a standard deviation."""


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
    def of(cls, kinds: Sequence[str], estimates: Mapping[str, Floats], right: Floats, fold: Int64s) -> "Mixture":
        """Learn from estimates for rows that the regressions had not seen, (n, m) of each kind, and the truth. fold:
        (n,) into which part each row was dealt.

        What is kept is the least-squares factor, by rows of parts that weights were learned without, and the less, the
        larger its standard error is beside it. O(n m k²) for each part.
        """
        means = right.mean(axis=0)
        said, true = np.stack([estimates[kind] - means for kind in kinds]), right - means
        weights = _weights(said, true, kinds)
        used = np.flatnonzero(weights > 0)
        cross_fitted = np.empty(right.shape)
        for part in np.unique(fold):
            others = fold != part
            cross_fitted[~others] = np.tensordot(_weights(said[:, others], true[others], kinds), said[:, ~others], 1)
        each = zip(_parts(cross_fitted), _parts(true), strict=True)
        factors = np.array([_factor(*pair) for pair in each])
        return cls(tuple(kinds[place] for place in used.tolist()), weights[used], means, factors)

    def apply(self, estimates: Mapping[str, Floats]) -> Floats:
        """Mix: (n, m), from 0 to 1."""
        common, own = _parts(self._off(estimates))
        return np.asarray(np.clip(self.means + self.shrinks[0] * common + self.shrinks[1] * own, 0.0, 1.0))

    def _off(self, estimates: Mapping[str, Floats]) -> Floats:
        """Tell how far items are above the means before anything is pulled there, (n, m)."""
        each = zip(self.kinds, self.weights.tolist(), strict=True)
        return np.asarray(sum(weight * (estimates[kind] - self.means) for kind, weight in each))


def _weights(said: Floats, true: Floats, kinds: Sequence[str]) -> Floats:
    """Weigh what k kinds said, (k, n, m), so that it comes nearest to the truth, (n, m), and to the prior: all to the
    kernel, or alike where there is none. What hardly differs from the means is not blown up: weights add up to at most
    ``MOST_WEIGHT``.

    >>> rows = np.tile([[0.5], [-0.5]], (5000, 1))
    >>> _weights(np.stack((rows, 0 * rows)), rows / 2, ("a", "b")).round(2).tolist()
    [0.5, 0.5]
    """
    from scipy.optimize import nnls

    if len(said) == 1:
        return np.ones(1)
    prior = np.array([kind == SMOOTH for kind in kinds]) if SMOOTH in kinds else np.full(len(kinds), 1 / len(kinds))
    flat, target = said.reshape(len(said), -1), true.ravel()
    noise = max(float(np.mean(target * target)), 1e-12) / PRIOR_VARIANCE
    root = np.linalg.cholesky(flat @ flat.T + noise * np.eye(len(kinds)))
    weights = np.asarray(nnls(root.T, np.linalg.solve(root, flat @ target + noise * prior))[0])
    if not weights.any():
        return np.full(len(said), 1 / len(said))
    return np.asarray(weights * min(1.0, MOST_WEIGHT / weights.sum()))


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
