"""Mixture of regressions: the mean of the best regressions, shrunk toward each classifier's mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from models.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class RegressionMixture:
    """Shrunken mean of regressions.

    Attributes:
        means: (m,), accuracy of each classifier.
        shrinks: (2,), factors from 0 to 1 for an item's deviations from ``means``. The first multiplies the deviation
            common to all classifiers, the second each classifier's remaining deviation.
        kinds: the regressions that are averaged.
    """

    means: Floats
    shrinks: Floats
    kinds: tuple[str, ...]

    @classmethod
    def fit(cls, estimates: Mapping[str, Floats], right: Floats) -> "RegressionMixture":
        """Fit to cross-fitted estimates, (n, m) of each kind, and outcomes.

        All kinds are averaged, unless a subset is better by more than one standard error (one-standard-error rule). The
        criterion is the squared error of the differences between classifiers, because these differences determine
        routes. The factors are least-squares estimates, reduced by their relative standard error.

        Complexity: O(2^k n m) for k kinds.
        """
        every = [cls._fit_kinds(kinds, estimates, right) for kinds in _list_subsets(tuple(estimates))]
        outcomes = _split_deviations(right)[1]
        errors = [((_split_deviations(one.apply(estimates))[1] - outcomes) ** 2).sum(axis=1) for one in every]
        gains = [errors[0] - each for each in errors]
        safe = [float(gain.mean() - gain.std() / len(gain) ** 0.5) for gain in gains]
        return every[int(np.argmax(safe))]

    @classmethod
    def _fit_kinds(cls, kinds: tuple[str, ...], estimates: Mapping[str, Floats], right: Floats) -> "RegressionMixture":
        means = right.mean(axis=0)
        off = _average(estimates, kinds) - means
        each = zip(_split_deviations(off), _split_deviations(right - means), strict=True)
        return cls(means, np.array([_fit_factor(*pair) for pair in each]), kinds)

    def apply(self, estimates: Mapping[str, Floats]) -> Floats:
        """Return the mixed estimates, (n, m), from 0 to 1."""
        common, own = _split_deviations(_average(estimates, self.kinds) - self.means)
        return np.asarray(np.clip(self.means + self.shrinks[0] * common + self.shrinks[1] * own, 0.0, 1.0))


def _list_subsets(kinds: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield all sets of kinds, the largest first, so that ties go to larger sets.

    >>> list(_list_subsets(("a", "b")))
    [('a', 'b'), ('a',), ('b',)]
    """
    for size in range(len(kinds), 0, -1):
        yield from combinations(kinds, size)


def _average(estimates: Mapping[str, Floats], kinds: Sequence[str]) -> Floats:
    return np.asarray(np.mean([estimates[kind] for kind in kinds], axis=0))


def _split_deviations(off: Floats) -> tuple[Floats, Floats]:
    """Return the common part of deviations, (n, 1), and the remaining parts, (n, m)."""
    common = off.mean(axis=1, keepdims=True)
    return common, off - common


def _fit_factor(estimates: Floats, outcomes: Floats) -> float:
    """Return the least-squares factor of outcomes on estimates, in [0, 1].

    The factor is shrunk by its standard error. A hard threshold would drop weak but true effects. If two classifiers
    differ little, the order matters, not the size.
    """
    square = float((estimates * estimates).sum())
    if square <= 1e-12:
        return 0.0
    factor = float((estimates * outcomes).sum()) / square
    variance = float((((outcomes - factor * estimates) * estimates).sum(axis=1) ** 2).sum()) / square**2
    return min(factor**3 / (factor**2 + variance), 1.0) if factor > 0 else 0.0
