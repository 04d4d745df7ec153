"""From a table of features to a plan: which sets to train, which to keep, the index over sizes, the models.

0. Categories and missing cells become numbers (``cells``).
1. Of a table of more than 20 features the 20 that tell most are chosen (``preselection``).
2. The lattice is searched (``lattice``), under a budget from coarse to fine (Property 3.9), and after the first search
   the sequence of most accuracy is grown (``greedy``), so that no budget is used up before there is one; all are where
   features were chosen.
3. The other greedy sequences are grown, as far as the budget goes; candidates are chosen (``candidates``) and indexed
   over all sizes (``crossings``).
4. Models are trained on all rows (``training``): of candidates and sequences, and of the sets that can be the best one
   once some features are computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from math import inf
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Floats, Int64s
from models.index import IndexOptions
from solvers.base import Fitted, Run
from solvers.cell_encoding import CellEncoding
from solvers.index.assemble import (
    Models,
    Names,
    Searched,
    assemble,
    index_regions,
    index_sets,
    kept_sets,
    known_masks,
    lambdas_of,
)
from solvers.index.candidates import never_replaced
from solvers.index.cells import encoded, only, owners_of
from solvers.index.costs import Costs, median_size, read_costs
from solvers.index.greedy import greedy_sequences
from solvers.index.lattice import Exhausted, Expanded, expand
from solvers.index.plan import IndexPlan
from solvers.index.preselection import narrowed
from solvers.index.savings import index_savings
from solvers.index.selection_bias import reached, unpacked
from solvers.index.size_curves import MAX_JUDGED_SETS, SizeRegions, find_regions, fit_size_curves, region_levels
from solvers.index.summary import summarize
from solvers.index.training import Trainer
from solvers.item_splits import effective_rows
from solvers.learners.estimators import ALLOWED_MODULES
from solvers.learners.linear import kind_of

COARSEST = 2.0
"""The alpha that a search under a budget begins with; the paper suggests it."""
REFINEMENT = 0.5
"""Each further search multiplies alpha by this, at most ``REFINEMENTS`` times, and then goes to the one wanted."""
REFINEMENTS = 10
USUAL_MODELS = 600
"""Feature sets of a table of which features are left out, where no budget is given."""
BISECTIONS = 20
"""Halvings of what lies between the last alpha that could be afforded and the first that could not."""


def fit(
    dataset: FeatureTable,
    options: IndexOptions,
    rng: np.random.Generator,
    run: Run,
) -> Fitted[IndexPlan]:
    """Build the index of feature sets from a table.

    With ``max_models``, or where the whole lattice is estimated to take more than ``max_seconds``, the lattice is
    searched for alpha = 2, 1, 0.5, … down to the one wanted. The
    last search that could be finished counts, then the smallest alpha above the first that could not. After the first
    the sequence of most accuracy is grown; in the end that by cost alone, for which room is kept, and those of the
    other weights that what is left lets grow as long. What these and unfinished searches trained may become a candidate
    too, and no set is left out that is known to be more accurate, by more than the alpha wanted, than all that cost no
    more. ``max_models`` bounds the feature sets whose accuracy is learned, whether trained or remembered; the final
    models of sets that the plan keeps are trained beside it. ``max_seconds`` bounds searches and sequences, not final
    models; with it, the plan depends on how fast the machine was.

    Of more than 20 features the 20 that tell most by a third of the rows are looked at, within 600 feature sets unless
    another budget is given; the other rows learn accuracies, and final models are trained on all.

    Raises InvalidRequest for a class with fewer rows than folds, a learner that is not allowed or no classifier, costs
    whose sizes have different dimensions, and a max_models that even the first search exceeds.
    """
    as_it_was, dataset = dataset, encoded(dataset)
    spec = dataset.spec
    costs, residuals = read_costs(dataset, options)
    median = median_size(dataset, options, costs.dimensions)
    table = narrowed(dataset, costs.at(costs.coefficients, median), rng)
    left_out_costs = None
    if table.left_out:
        left_out_costs = _costs_of(costs, dataset, table.left_out)
        options = _with_a_budget(options)
        dataset, spec = table.others, table.whole.spec
        costs, residuals = read_costs(dataset, options)
    features = tuple(feature.name for feature in spec.features)
    trainer = Trainer.of(dataset, options, run, int(rng.integers(2**32)), (*ALLOWED_MODULES, *run.learner_modules))
    trainer.report(0, "searching the lattice")
    searched = _search(trainer, costs, features, median, is_narrowed=bool(table.left_out))
    trainer.report(trainer.total - 2, "choosing candidates")
    factors = {"alpha": searched.alpha, "own_alpha": options.alpha}
    indexed = index_sets(searched.expanded, costs, features, **factors, budget=options.fixed_budget)
    regions = _size_regions(trainer, searched.expanded, indexed[0], costs)
    if len(regions.edges):
        levels = region_levels(regions, _bits_of(trainer, searched.expanded.masks), dataset.sizes)
        indexed = index_regions(searched.expanded, costs, features, indexed[0], regions, levels, **factors)
    kept = _kept(searched, indexed[0], options)
    last = trainer.on_all_rows(table.whole) if table.left_out else trainer
    models = Models(kind_of(trainer.classifier), dict(zip(kept, last.models(kept), strict=True)))
    names = _names(only(as_it_was, features), dataset, table.left_out, left_out_costs)
    reaching = _measure_what_is_reached(trainer, known_masks(searched), costs, median, regions, rng)
    plan = assemble(names, options, costs, searched, indexed, models, reaching)
    held = index_savings(plan, trainer, rng)
    trainer.report(trainer.total, last.account())
    return Fitted(plan, summarize(plan, searched.expanded, indexed[1], residuals, trainer), held)


def _bits_of(trainer: Trainer, masks: Int64s) -> list[bytes]:
    return [trainer.bits[mask] for mask in masks.tolist()]


def _size_regions(trainer: Trainer, expanded: Expanded, candidates: Int64s, costs: Costs) -> SizeRegions:
    """Find where accuracies depend on the size, by the candidates for all sizes; an index for one budget is not cut."""
    sizes = trainer.dataset.sizes
    if not sizes.shape[1]:
        return SizeRegions()
    judged = candidates[np.unique(np.linspace(0, len(candidates) - 1, MAX_JUDGED_SETS).round().astype(int))]
    right = np.stack([unpacked(bits, len(sizes)) for bits in _bits_of(trainer, expanded.masks[judged])])
    is_cut = costs.dimensions == sizes.shape[1] and trainer.options.fixed_budget is None
    return find_regions(right, sizes, trainer.dataset.item_codes, has_regions=is_cut)


def _measure_what_is_reached(
    trainer: Trainer,
    masks: Int64s,
    costs: Costs,
    median: tuple[float, ...],
    regions: SizeRegions,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Measure what sets reach that are chosen because they look best: at the median size, and in each region of sizes.

    Returns:
        The fields of the plan.
    """
    bits, curves, sizes = _bits_of(trainer, masks), costs.of_sets(masks), trainer.dataset.sizes
    items = trainer.dataset.item_codes
    halves, share = reached(bits, items, costs.at(curves, median), rng)
    rows = effective_rows(items)
    measured: dict[str, Any] = {"reached": halves, "choosing": min(max(round(share * rows), 1), rows - 1)}
    if not len(regions.knots):
        return measured
    fitted = fit_size_curves(regions, bits, sizes, items, lambda size: costs.at(curves, size.tolist()), rng)
    return measured | {
        f"size_{each.name}": getattr(part, each.name) for part in (regions, fitted) for each in fields(part)
    }


def _names(own: FeatureTable, dataset: FeatureTable, left_out: tuple[str, ...], left_out_costs: Costs | None) -> Names:
    """Say what the numbers mean: own, the table of the features that are looked at, before cells became numbers;
    dataset, the rows that accuracies are of."""
    columns = tuple(feature.columns for feature in own.spec.features)
    shares = np.bincount(dataset.labels, minlength=len(dataset.classes)) / dataset.rows
    encoding = CellEncoding.of(own, owners_of(columns))
    features, unit = tuple(feature.name for feature in own.spec.features), own.spec.unit
    return Names(
        features,
        columns,
        dataset.classes,
        shares,
        unit,
        effective_rows(dataset.item_codes),
        left_out,
        left_out_costs,
        encoding=encoding,
    )


def _costs_of(costs: Costs, dataset: FeatureTable, names: Sequence[str]) -> Costs:
    """Take the costs of some of a table's features."""
    places = [at for at, feature in enumerate(dataset.spec.features) if feature.name in names]
    return replace(costs, coefficients=costs.coefficients[places])


def _with_a_budget(options: IndexOptions) -> IndexOptions:
    if options.max_models is not None or "max_seconds" in options.model_fields_set:
        return options
    return options.model_copy(update={"max_models": USUAL_MODELS})


def _kept(searched: Searched, candidates: Int64s, options: IndexOptions) -> list[int]:
    """List the sets whose models are kept; candidates: places among the expanded sets."""
    expanded = searched.expanded
    if options.any_time:
        stay = never_replaced(expanded, alpha=searched.alpha, own_alpha=options.alpha)
        candidates = np.union1d(candidates, stay)
    return [int(mask) for mask in kept_sets(searched, expanded.masks[candidates])]


def _search(
    trainer: Trainer, costs: Costs, names: Sequence[str], median: tuple[float, ...], *, is_narrowed: bool
) -> Searched:
    """Search the lattice, as finely as the budgets allow, and grow the greedy sequences."""
    options = trainer.options
    limited = options.max_models is not None or _takes_too_long(trainer)
    alphas = schedule(options.alpha) if limited else [options.alpha]
    trainer.asked_at_most = options.max_models
    expanded, reached = _first_search(trainer, alphas[0], options.max_seconds if limited else None)
    feature_costs = costs.at(costs.coefficients, median)
    sequences = _Sequences(trainer, feature_costs, names)
    if limited:
        trainer.asked_at_most = sequences.spared()
        sequences.of([0.0])  # as far as the budget goes
        if is_narrowed:  # no budget finishes that lattice, and the other sequences hold what little money buys
            sequences.within_the_budget()
        expanded = _with_what_is_known(trainer, expanded)  # what they have trained is known to the searches
    for alpha in alphas[1:]:
        try:
            expanded = _expanded(trainer, alpha, expanded)
        except Exhausted:
            expanded, reached = _between(trainer, expanded, alpha, reached)
            break
        reached = alpha
    trainer.asked_at_most = options.max_models
    grown = sequences.within_the_budget()
    trainer.seconds_at_most = None
    if limited:
        expanded = _with_what_is_known(trainer, expanded)
    lambdas, orders = np.array(list(grown)), np.array(list(grown.values()), dtype=np.int32)
    return Searched(expanded, reached, trainer.known, lambdas, orders.reshape(len(lambdas), -1), median)


def _first_search(trainer: Trainer, alpha: float, seconds: float | None) -> tuple[Expanded, float]:
    """Search coarsely; where the time is over before that ends, for the smallest alpha, doubled again and again, that
    needs no more: the empty set and that of all features are always known."""
    trainer.accuracies([(1 << len(trainer.columns)) - 1])
    trainer.seconds_at_most = seconds
    while True:
        try:
            return _expanded(trainer, alpha, None), alpha
        except Exhausted as error:
            if not trainer.is_out_of_time:
                most = trainer.options.max_models
                fault = f"is {most}, even alpha = {alpha:g} needs more feature sets"
                raise InvalidRequest.at(Fault(("max_models",), fault)) from error
            alpha *= 2


def _takes_too_long(trainer: Trainer) -> bool:
    """Estimate the time of the whole lattice, report it, and return whether it exceeds ``max_seconds``."""
    most = trainer.options.max_seconds
    if most is None:
        return False
    estimated = trainer.estimate_seconds()
    sets = 1 << len(trainer.columns)
    trainer.report(trainer.done, f"estimated: {estimated:.3g} s for all {sets} feature sets, max_seconds is {most:g}")
    return estimated > most


@dataclass(frozen=True, slots=True, eq=False)
class _Sequences:
    """Greedy sequences of the features, which cost feature_costs (F,) at the median size."""

    trainer: Trainer
    feature_costs: Floats
    names: Sequence[str]

    @property
    def lambdas(self) -> list[float]:
        """The weights of cost."""
        return [float(each) for each in lambdas_of(self.trainer.options.lambdas, self.feature_costs)]

    def of(self, lambdas: Sequence[float]) -> dict[float, list[int]]:
        """Grow those of some weights, all to the same length."""
        grown = greedy_sequences(self.trainer.accuracies, self.feature_costs, lambdas, self.names)
        return dict(zip(lambdas, grown, strict=True))

    def spared(self) -> int | None:
        """Tell how many feature sets all but the sequence by cost alone may use of the budget."""
        most = self.trainer.options.max_models
        order = sorted(range(len(self.names)), key=lambda f: (self.feature_costs[f], self.names[f]))
        missing = sum(mask not in self.trainer.known for mask in accumulate(1 << f for f in order))
        return None if most is None else max(self.trainer.asked, most - missing)

    def within_the_budget(self) -> dict[float, list[int]]:
        """Give those by accuracy alone and by cost alone, and of the others, from what weighs cost most, those that the
        budget lets grow as long."""
        grown = self.of([0.0, inf])
        for weight in self.lambdas[-2:0:-1]:
            (order,) = self.of([weight]).values()
            grown |= {weight: order[: len(grown[0.0])]} if len(order) >= len(grown[0.0]) else {}
        return dict(sorted(grown.items()))


def _between(trainer: Trainer, expanded: Expanded, low: float, high: float) -> tuple[Expanded, float]:
    """Find the smallest alpha that the rest of the budget affords, between one that it does not and one that it did."""
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        try:
            expanded, high = _expanded(trainer, middle, expanded), middle
        except Exhausted:
            low = middle
    return expanded, high


def schedule(alpha: float) -> list[float]:
    """List the alphas of a search under a budget, the coarsest first.

    >>> schedule(0.3), len(schedule(0.0)), schedule(5.0)
    ([2.0, 1.0, 0.5, 0.3], 12, [5.0])
    """
    steps = [COARSEST * REFINEMENT**k for k in range(REFINEMENTS + 1)]
    return [*(step for step in steps if step > alpha), alpha]


def _expanded(trainer: Trainer, alpha: float, known: Expanded | None) -> Expanded:
    def report(expanded: int, pruned: int) -> None:
        done = min(expanded + pruned, trainer.total - 3)
        trainer.report(done, f"alpha {alpha:g}: {expanded} feature sets expanded, {pruned} skipped")

    return expand(
        trainer.accuracies,
        len(trainer.dataset.spec.features),
        alpha=alpha,
        tolerance=trainer.options.tolerance,
        covering=trainer.options.covering,
        known=known,
        report=report,
    )


def _with_what_is_known(trainer: Trainer, expanded: Expanded) -> Expanded:
    """Add the sets that an unfinished search has trained: they may be chosen, and nothing relies on them."""
    more = sorted(set(trainer.known) - set(expanded.masks.tolist()))
    accuracies = np.array([trainer.known[mask] for mask in more])
    return Expanded(
        expanded.features,
        np.concatenate((expanded.masks, np.array(more, dtype=np.int64))),
        np.concatenate((expanded.accuracies, accuracies)),
        np.concatenate((expanded.demands, accuracies)),
    )
