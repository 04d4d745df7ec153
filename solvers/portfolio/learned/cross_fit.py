"""The mixture, learned from rows that its regressions had not seen; and what it is worth on others still.

Every row is estimated by regressions that were fitted without it (ten folds). The mixture for a fold's rows, and the
prices that route them, are learned from the estimates of the other folds: so all rows can report, and none has chosen
what it reports on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.item_splits import ItemRows, fold_rows
from solvers.portfolio.learned.embedding import Embedding
from solvers.portfolio.learned.mixture import Mixture
from solvers.portfolio.learned.regressions import KINDS, estimate, fit
from solvers.portfolio.routing_outcome import Known

FOLDS = 10
"""With fewer, regressions that have seen all rows would differ so much from those of the folds, whose prices are used,
that budgets were exceeded by some percent."""
FEWEST, MOST_COPIES = 100, 5
"""Different embeddings, and rows for each of them on average, between which equal ones count as copies."""
BASELINE = "forest"
"""What a portfolio is compared with on its curve, whatever estimates (FrugalMCT)."""


@dataclass(frozen=True, slots=True, eq=False)
class CrossFitted:
    """mixture: the one to use; fold: (n,); of_folds: for each fold the mixture that the others have learned; estimates:
    (n, m) of each kind of regression, for every row by those that had not seen it."""

    mixture: Mixture
    fold: Int64s
    of_folds: tuple[Mixture, ...]
    estimates: dict[str, Floats]

    @property
    def values(self) -> Floats:
        """Estimate every row, (n, m), by the mixture that the other folds have learned."""
        values = np.empty(next(iter(self.estimates.values())).shape)
        for part, mixture in enumerate(self.of_folds):
            values[self.fold == part] = mixture.apply(self.estimates)[self.fold == part]
        return values


def cross_fit(known: Known, rng: np.random.Generator, report: Callable[[int, str], None]) -> CrossFitted:
    """Estimate every row without it, and mix. ``report`` hears how many folds are done."""
    vectors, right = known.vectors, known.right
    fold = fold_items(known.items, vectors, rng)
    estimates = {kind: np.empty(right.shape) for kind in KINDS}
    for part in range(FOLDS):
        report(part, f"fitting regressions, part {part + 1} of {FOLDS}")
        learned, fresh = fold != part, fold == part
        embedding = Embedding.of(vectors[learned])
        inputs, asked = embedding.apply(vectors[learned]), embedding.apply(vectors[fresh])
        for kind, its in estimates.items():
            its[fresh] = estimate(fit(kind, inputs, right[learned], rng), asked)
    report(FOLDS, "mixing the regressions")
    of_folds = []
    for part in range(FOLDS):
        rows = fold != part
        others = {kind: each[rows] for kind, each in estimates.items()}
        of_folds.append(Mixture.of(others, right[rows]))
    return CrossFitted(Mixture.of(estimates, right), fold, tuple(of_folds), estimates)


def fold_items(items: Int64s, vectors: Singles, rng: np.random.Generator) -> Int64s:
    """Assign rows to folds, (n,), by item or, where no item repeats, by embedding.

    Rows with equal embeddings are copies where few are equal; where many are, as those of kinds of tasks, they are not.
    """
    if ItemRows.from_codes(items).repeats:
        return fold_rows(items, FOLDS, rng)
    n = len(vectors)
    _, place = np.unique(vectors, axis=0, return_inverse=True)
    distinct = int(place.max()) + 1
    if distinct < FEWEST or n > MOST_COPIES * distinct:
        return np.asarray(rng.permutation(n) % FOLDS, dtype=np.int64)
    return np.asarray((rng.permutation(distinct) % FOLDS)[place.ravel()], dtype=np.int64)
