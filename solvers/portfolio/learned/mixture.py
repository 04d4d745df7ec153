"""How much regressions are believed: a mean of several, pulled to each classifier's mean as far as they mislead."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The mean of some kinds of regressions. means: (m,) how often each classifier is right. shrinks: (2,) what is
    kept of how far an item is above these for all classifiers together, and for each beside the others: 0 to 1."""

    kinds: tuple[str, ...]
    means: Floats
    shrinks: Floats

    @classmethod
    def of(cls, kinds: tuple[str, ...], estimates: Mapping[str, Floats], right: Floats) -> "Mixture":
        """Learn from estimates for rows that the regressions had not seen, (n, m) of each kind, and the truth.

        What is kept is the least-squares factor; one that is not a standard error above 0 is 0.
        """
        means = right.mean(axis=0)
        parts = _parts(_mean(kinds, estimates) - means)
        truths = _parts(right - means)
        return cls(kinds, means, np.array([_factor(*each) for each in zip(parts, truths, strict=True)]))

    def apply(self, estimates: Mapping[str, Floats]) -> Floats:
        """Mix: (n, m), from 0 to 1."""
        common, own = _parts(_mean(self.kinds, estimates) - self.means)
        return np.asarray(np.clip(self.means + self.shrinks[0] * common + self.shrinks[1] * own, 0.0, 1.0))


def _mean(kinds: tuple[str, ...], estimates: Mapping[str, Floats]) -> Floats:
    return np.asarray(sum(estimates[kind] for kind in kinds) / len(kinds))


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
