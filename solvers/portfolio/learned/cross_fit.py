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
from solvers.portfolio.learned.embedding import ReducedEmbedding
from solvers.portfolio.learned.mixture import RegressionMixture
from solvers.portfolio.learned.regressions import REGRESSION_KINDS, fit_regression, predict_success
from solvers.portfolio.routing_outcome import KnownItems

FOLDS = 10
"""With fewer, regressions that have seen all rows would differ so much from those of the folds, whose prices are used,
that budgets were exceeded by some percent."""
MIN_DISTINCT, MAX_COPIES = 100, 5
"""Different embeddings, and rows for each of them on average, between which equal ones count as copies."""
BASELINE_KIND = "forest"
"""What a portfolio is compared with on its curve, whatever estimates (FrugalMCT)."""


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """mixture: the one to use; fold: (n,); of_folds: for each fold the mixture that the others have learned; estimates:
    (n, m) of each kind of regression, for every row by those that had not seen it."""

    mixture: RegressionMixture
    fold: Int64s
    fold_mixtures: tuple[RegressionMixture, ...]
    estimates: dict[str, Floats]

    @property
    def values(self) -> Floats:
        """Estimate every row, (n, m), by the mixture that the other folds have learned."""
        values = np.empty(next(iter(self.estimates.values())).shape)
        for part, mixture in enumerate(self.fold_mixtures):
            values[self.fold == part] = mixture.apply(self.estimates)[self.fold == part]
        return values


def cross_fit(known: KnownItems, rng: np.random.Generator, report: Callable[[int, str], None]) -> CrossFit:
    """Estimate every row without it, and mix. ``report`` hears how many folds are done."""
    vectors, right = known.vectors, known.right
    fold = assign_folds(known.items, vectors, rng)
    estimates = {kind: np.empty(right.shape) for kind in REGRESSION_KINDS}
    for part in range(FOLDS):
        report(part, f"fitting regressions, part {part + 1} of {FOLDS}")
        learned, fresh = fold != part, fold == part
        embedding = ReducedEmbedding.fit(vectors[learned])
        inputs, asked = embedding.apply(vectors[learned]), embedding.apply(vectors[fresh])
        for kind, its in estimates.items():
            its[fresh] = predict_success(fit_regression(kind, inputs, right[learned], rng), asked)
    report(FOLDS, "mixing the regressions")
    of_folds = []
    for part in range(FOLDS):
        rows = fold != part
        others = {kind: each[rows] for kind, each in estimates.items()}
        of_folds.append(RegressionMixture.fit(others, right[rows]))
    return CrossFit(RegressionMixture.fit(estimates, right), fold, tuple(of_folds), estimates)


def assign_folds(items: Int64s, vectors: Singles, rng: np.random.Generator) -> Int64s:
    """Assign rows to folds, (n,), by item or, where no item repeats, by embedding.

    Rows with equal embeddings are copies where few are equal; where many are, as those of kinds of tasks, they are not.
    """
    if ItemRows.from_codes(items).repeats:
        return fold_rows(items, FOLDS, rng)
    n = len(vectors)
    _, place = np.unique(vectors, axis=0, return_inverse=True)
    distinct = int(place.max()) + 1
    if distinct < MIN_DISTINCT or n > MAX_COPIES * distinct:
        return np.asarray(rng.permutation(n) % FOLDS, dtype=np.int64)
    return np.asarray((rng.permutation(distinct) % FOLDS)[place.ravel()], dtype=np.int64)
