"""Which mixture is taken, told by rows that its regressions had not seen; and what that is worth on others still.

Every row is estimated by regressions that were fitted without it (ten folds). The mixture for a fold's rows, and the
prices that route them, are learned from the estimates of the other folds: so all rows can report, and none has chosen
what it reports on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.item_splits import ItemRows, fold_rows
from solvers.portfolio.baselines import by_values
from solvers.portfolio.learned.embedding import Embedding
from solvers.portfolio.learned.mixture import Mixture
from solvers.portfolio.learned.regressions import KINDS as REGRESSIONS
from solvers.portfolio.learned.regressions import estimate, fit
from solvers.portfolio.learned.sampled import OCCAM, fit_sampled
from solvers.portfolio.routing_outcome import Known
from solvers.portfolio.tuning import BUDGETS, GAP

FOLDS = 10
"""With fewer, regressions that have seen all rows would differ so much from those of the folds, whose prices are used,
that budgets were exceeded by some percent."""
FEWEST, MOST_COPIES = 100, 5
"""Different embeddings, and rows for each of them on average, between which equal ones count as copies."""
STACKED = "stacked"
KINDS = (*REGRESSIONS, OCCAM)
"""What a mixture is made of: regressions, and the paper's estimator."""
BASELINE = "forest"
"""What a portfolio is compared with on its curve, whatever estimates (FrugalMCT)."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What a mixture did with rows that it had not seen: the share answered rightly over budgets, and the mean squared
    error of its estimates."""

    estimator: str
    accuracy: float
    squared_error: float


@dataclass(frozen=True, slots=True, eq=False)
class CrossFitted:
    """mixture: the one to use; compared: all that were; fold: (n,); of_folds: for each fold the mixture that the others
    have chosen; estimates: (n, m) of each kind of regression, for every row by those that had not seen it."""

    mixture: Mixture
    chosen: str
    compared: tuple[Compared, ...]
    fold: Int64s
    of_folds: tuple[Mixture, ...]
    estimates: dict[str, Floats]

    @property
    def values(self) -> Floats:
        """Estimate every row, (n, m), by the mixture that the other folds have chosen."""
        values = np.empty(next(iter(self.estimates.values())).shape)
        for part, mixture in enumerate(self.of_folds):
            values[self.fold == part] = mixture.apply(self.estimates)[self.fold == part]
        return values


def cross_fit(
    known: Known,
    estimator: str,
    rng: np.random.Generator,
    report: Callable[[int, str], None],
) -> CrossFitted:
    """Estimate every row without it, and choose a mixture: by name, or for ``auto`` all kinds, unless one alone
    routes better beyond chance. ``report`` hears how many folds are done.
    """
    vectors, right, costs = known.vectors, known.right, known.means
    fold = fold_items(known.items, vectors, rng)
    drawing = rng.spawn(1)[0]
    used = KINDS if estimator in ("auto", STACKED) else (estimator, BASELINE)
    estimates = {kind: np.empty(right.shape) for kind in KINDS if kind in used}
    for part in range(FOLDS):
        report(part, f"fitting regressions, part {part + 1} of {FOLDS}")
        learned, fresh = fold != part, fold == part
        embedding = Embedding.of(vectors[learned])
        inputs, asked = embedding.apply(vectors[learned]), embedding.apply(vectors[fresh])
        for kind, its in estimates.items():
            if kind == OCCAM:
                its[fresh] = fit_sampled(vectors[learned], right[learned], drawing).estimate(vectors[fresh])
            else:
                its[fresh] = estimate(kind, fit(kind, inputs, right[learned], rng), asked)
    report(FOLDS, "choosing the estimator")
    of_folds = []
    for part in range(FOLDS):
        others = {kind: each[fold != part] for kind, each in estimates.items()}
        of_folds.append(_choose(estimator, others, right[fold != part], costs, fold[fold != part])[0])
    mixture, chosen, compared = _choose(estimator, estimates, right, costs, fold)
    return CrossFitted(mixture, chosen, compared, fold, tuple(of_folds), estimates)


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


def _choose(
    estimator: str, estimates: dict[str, Floats], right: Floats, costs: Floats, fold: Int64s
) -> tuple[Mixture, str, tuple[Compared, ...]]:
    """Choose among the kinds and all of them, weighed: these, unless a kind alone routes better beyond chance, for of
    few rows choosing is chance, and what is weighed errs less."""
    every = {kind: (kind,) for kind in KINDS} | {STACKED: tuple(KINDS)}
    names = list(every) if estimator == "auto" else [estimator]
    mixtures = {name: Mixture.of(every[name], estimates, right, fold) for name in names}
    if len(names) == 1:
        return mixtures[estimator], estimator, ()
    said = {name: mixtures[name].apply(estimates) for name in names}
    routed = {name: routed_right(said[name], right, costs) for name in names}
    missed = {name: float(((said[name] - right) ** 2).mean()) for name in names}
    chosen = taken(routed, missed)
    compared = tuple(Compared(name, float(routed[name].mean()), missed[name]) for name in names)
    return mixtures[chosen], chosen, compared


def taken(routed: dict[str, Floats], missed: dict[str, float]) -> str:
    """Name what is taken by how right rows were answered with each, (n,), and of those alike by the squared error."""
    best = max(routed, key=lambda name: (routed[name].mean(), -missed[name]))
    return STACKED if _is_as_good(routed[STACKED], routed[best]) else best


def _is_as_good(one: Floats, best: Floats) -> bool:
    """Tell whether a mean is within two standard errors of the best of several, by pairs of rows."""
    off = best - one
    return bool(off.mean() <= 2 * off.std() / np.sqrt(len(off)))


def routed_right(values: Floats, right: Floats, costs: Floats) -> Floats:
    """Route rows by their values, (n, m), at some budgets, and average over these how right each was answered: (n,)."""
    choose, rows = by_values(values, costs, GAP), np.arange(len(values))
    budgets = np.linspace(float(costs.min()), float(costs.max()), BUDGETS + 2)[1:-1].tolist()
    return np.asarray(np.mean([right[rows, choose(budget * len(values))] for budget in budgets], axis=0))
