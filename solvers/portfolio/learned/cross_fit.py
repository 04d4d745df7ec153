"""Cross-fitting of regressions, their mixture, and shadow prices.

Every row is estimated by regressions that were fitted without its fold; there are ten folds. The mixture and the shadow
prices for a fold's rows are fitted to the estimates of the other folds. So all rows are holdout rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.item_splits import GroupedRows, assign_group_folds
from solvers.portfolio.learned.embedding import ReducedEmbedding
from solvers.portfolio.learned.mixture import RegressionMixture
from solvers.portfolio.learned.regressions import REGRESSION_KINDS, fit_regression, predict_success
from solvers.portfolio.routing_outcome import LabeledItems

FOLDS = 10
"""Number of folds.

With fewer, regressions fitted to all rows would differ so much from those of the folds, whose prices are used, that
budgets would be exceeded by some percent.
"""
MIN_DISTINCT, MAX_COPIES = 100, 5
"""Equal embeddings count as copies from so many distinct ones on, with at most so many rows each on average."""
MAX_COMPARED = 2000
"""Maximum number of rows that the regressions of every fold estimate."""
BASELINE_KIND = "forest"
"""The regression of the baseline FrugalMCT."""


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """Cross-fitted regressions.

    Attributes:
        mixture: the mixture fitted to all rows.
        fold: (n,), fold of each row.
        fold_mixtures: for each fold the mixture fitted to the other folds.
        estimates: out-of-fold estimates, (n, m), by kind of regression.
        compared_rows: (r,), rows that are estimated by the regressions of every fold.
        compared_estimates: for each fold the estimates of these rows, (r, m), by kind.
    """

    mixture: RegressionMixture
    fold: Int64s
    fold_mixtures: tuple[RegressionMixture, ...]
    estimates: dict[str, Floats]
    compared_rows: Int64s
    compared_estimates: tuple[dict[str, Floats], ...]

    @property
    def out_of_fold_estimates(self) -> Floats:
        """Return estimates of every row, (n, m), by the mixture of the other folds."""
        values = np.empty(next(iter(self.estimates.values())).shape)
        for part, mixture in enumerate(self.fold_mixtures):
            values[self.fold == part] = mixture.apply(self.estimates)[self.fold == part]
        return values


def cross_fit(labeled: LabeledItems, rng: np.random.Generator, report: Callable[[int, str], None]) -> CrossFit:
    """Estimate every row by regressions fitted without its fold, and fit the mixtures.

    ``report`` receives the number of finished folds.
    """
    vectors, right = labeled.vectors, labeled.right
    fold = assign_folds(labeled.items, vectors, rng)
    estimates = {kind: np.empty(right.shape) for kind in REGRESSION_KINDS}
    compared = np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_COMPARED)).astype(np.int64)
    compared_estimates = []
    for part in range(FOLDS):
        report(part, f"fitting regressions, fold {part + 1} of {FOLDS}")
        learned, fresh = fold != part, fold == part
        embedding = ReducedEmbedding.fit(vectors[learned])
        inputs, queries = embedding.apply(vectors[learned]), embedding.apply(vectors[fresh])
        regressions = {kind: fit_regression(kind, inputs, labeled.targets[learned], rng) for kind in REGRESSION_KINDS}
        for kind, own in estimates.items():
            own[fresh] = predict_success(regressions[kind], queries)
        shared = embedding.apply(vectors[compared])
        compared_estimates.append({kind: predict_success(one, shared) for kind, one in regressions.items()})
    report(FOLDS, "mixing the regressions")
    of_folds = []
    for part in range(FOLDS):
        rows = fold != part
        others = {kind: each[rows] for kind, each in estimates.items()}
        of_folds.append(RegressionMixture.fit(others, right[rows]))
    return CrossFit(
        RegressionMixture.fit(estimates, right), fold, tuple(of_folds), estimates, compared, tuple(compared_estimates)
    )


def assign_folds(items: Int64s, vectors: Singles, rng: np.random.Generator) -> Int64s:
    """Assign rows to folds, (n,), by item; if no item repeats, by embedding.

    Rows with equal embeddings count as copies of one item only if few rows share the embedding. An embedding that many
    rows share denotes a kind of task.
    """
    if GroupedRows.from_codes(items).repeats:
        return assign_group_folds(items, FOLDS, rng)
    n = len(vectors)
    _, place = np.unique(vectors, axis=0, return_inverse=True)
    distinct = int(place.max()) + 1
    if distinct < MIN_DISTINCT or n > MAX_COPIES * distinct:
        return np.asarray(rng.permutation(n) % FOLDS, dtype=np.int64)
    return np.asarray((rng.permutation(distinct) % FOLDS)[place.ravel()], dtype=np.int64)
