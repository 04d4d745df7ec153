"""Fit an index to a feature table: search the lattice, choose candidates, index them over sizes, train models.

1. Categories and missing cells are encoded numerically (``cells``).
2. Tables of more than 20 features are narrowed to 20 (``preselection``).
3. The lattice is searched (``lattice``); with a search budget, from coarse to fine (Property 3.9). After the first
search, the greedy sequence by accuracy is built (``greedy``), so that the budget always suffices for one sequence. If
features were preselected, all sequences are built at this point.
4. The other greedy sequences are built within the remaining search budget. Candidates are chosen (``candidates``) and
   indexed over all sizes (``crossings``).
5. Models are trained on all rows (``training``): of candidates, of sequences, and of sets that can become the best once
   some features are computed.
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
from solvers.base import BuildContext, FitResult
from solvers.cell_encoding import CellEncoding
from solvers.index.assemble import (
    PlanSchema,
    SearchResult,
    TrainedModels,
    assemble_plan,
    build_region_index,
    build_set_index,
    choose_cost_weights,
    list_known_masks,
    list_modeled_sets,
)
from solvers.index.candidates import choose_any_time_sets
from solvers.index.cells import encode_table, list_column_owners, select_features
from solvers.index.costs import SetCosts, choose_median_size, read_costs
from solvers.index.greedy import build_sequences, order_by_cost
from solvers.index.lattice import BudgetExhausted, ExpandedSets, expand_lattice
from solvers.index.plan import IndexPlan
from solvers.index.preselection import preselect_features
from solvers.index.savings import measure_index_savings
from solvers.index.selection_bias import measure_reached_accuracies, unpack_outcomes
from solvers.index.size_curves import (
    MAX_JUDGED_SETS,
    SizeRegions,
    compute_region_accuracies,
    find_regions,
    fit_size_curves,
)
from solvers.index.summary import summarize
from solvers.index.training import Trainer
from solvers.item_splits import effective_rows
from solvers.learners.estimators import ALLOWED_MODULES
from solvers.learners.linear import get_model_kind
from solvers.setup_groups import NO_GROUPS, SetupGroups

FIRST_ALPHA = 2.0
"""First alpha of a search under a budget, as the paper suggests."""
ALPHA_FACTOR = 0.5
"""Ratio of successive alphas, at most ``MAX_REFINEMENTS`` times; the last search uses the requested alpha."""
MAX_REFINEMENTS = 10
DEFAULT_MAX_MODELS = 600
"""Default budget of feature sets after preselection."""
BISECTIONS = 20
"""Bisection steps between the last affordable alpha and the first unaffordable one."""


def fit(
    dataset: FeatureTable,
    options: IndexOptions,
    rng: np.random.Generator,
    run: BuildContext,
) -> FitResult[IndexPlan]:
    """Fit an index to a feature table.

    Search budgets: with ``max_models``, or if the search of all sets is estimated to exceed ``max_seconds``, the
    lattice is searched for alpha = 2, 1, 0.5, … down to the requested alpha. The last completed search is used, and
    bisection then lowers its alpha until the budget is exhausted. This alpha is a guarantee. For every excluded set, a
    kept set costs no more, and the excluded set is more accurate by at most a factor 1 + alpha.

    - ``max_models`` bounds the number of feature sets whose accuracy is estimated, including cached ones.
    - ``max_seconds`` bounds the time of searches and greedy sequences; the plan then depends on the machine's speed.
    - Neither bounds the training of final models.

    With more than 20 features, 20 of them are selected on a third of the rows. Accuracies are estimated on the other
    rows, and the default budget is 600 feature sets. Final models are trained on all rows.

    Raises:
        InvalidRequest: a class has fewer rows than folds, the learner is not allowed or not a classifier, the sizes of
            costs differ in their dimensions, or the first search exceeds ``max_models``.
    """
    original, dataset = dataset, encode_table(dataset)
    spec = dataset.spec
    costs, residuals = read_costs(dataset, options)
    median = choose_median_size(dataset, options, costs.dimensions)
    table = preselect_features(dataset, costs.evaluate(costs.coefficients, median), rng, costs.groups)
    left_out_costs = None
    if table.left_out:
        left_out_costs = _select_costs(costs, dataset, table.left_out)
        options = _set_default_budget(options)
        dataset, spec = table.other_rows, table.all_rows.spec
        costs, residuals = read_costs(dataset, options)
    features = tuple(feature.name for feature in spec.features)
    trainer = Trainer.from_dataset(
        dataset, options, run, int(rng.integers(2**32)), (*ALLOWED_MODULES, *run.learner_modules)
    )
    trainer.report_progress(0, "searching the lattice")
    searched = _search(trainer, costs, features, median, is_narrowed=bool(table.left_out))
    trainer.report_progress(trainer.total_steps - 2, "choosing candidates")
    factors = {"alpha": searched.alpha, "requested_alpha": options.alpha}
    indexed = build_set_index(searched.expanded, costs, features, **factors, budget=options.fixed_budget)
    regions = _find_size_regions(trainer, searched.expanded, indexed[0], costs)
    if len(regions.edges):
        levels = compute_region_accuracies(regions, _list_bits(trainer, searched.expanded.masks), dataset.sizes)
        indexed = build_region_index(searched.expanded, costs, features, indexed[0], regions, levels, **factors)
    kept = _list_kept_masks(searched, indexed[0], options)
    last = trainer.with_dataset(table.all_rows) if table.left_out else trainer
    models = TrainedModels(get_model_kind(trainer.classifier), dict(zip(kept, last.train_models(kept), strict=True)))
    names = _make_schema(original, features, dataset, table.left_out, left_out_costs)
    reaching = _measure_reached_fields(trainer, list_known_masks(searched), costs, median, regions, rng)
    plan = assemble_plan(names, options, costs, searched, indexed, models, reaching)
    savings = measure_index_savings(plan, trainer, rng)
    trainer.report_progress(trainer.total_steps, last.format_counts())
    return FitResult(plan, summarize(plan, searched.expanded, indexed[1], residuals, trainer), savings)


def _list_bits(trainer: Trainer, masks: Int64s) -> list[bytes]:
    return [trainer.bits[mask] for mask in masks.tolist()]


def _find_size_regions(trainer: Trainer, expanded: ExpandedSets, candidates: Int64s, costs: SetCosts) -> SizeRegions:
    """Find regions of sizes by the candidates for all sizes; one region for a fixed budget."""
    sizes = trainer.dataset.sizes
    if not sizes.shape[1]:
        return SizeRegions()
    judged = candidates[np.unique(np.linspace(0, len(candidates) - 1, MAX_JUDGED_SETS).round().astype(int))]
    right = np.stack([unpack_outcomes(bits, len(sizes)) for bits in _list_bits(trainer, expanded.masks[judged])])
    is_cut = costs.dimensions == sizes.shape[1] and trainer.options.fixed_budget is None
    return find_regions(right, sizes, trainer.dataset.item_codes, has_regions=is_cut)


def _measure_reached_fields(
    trainer: Trainer,
    masks: Int64s,
    costs: SetCosts,
    median: tuple[float, ...],
    regions: SizeRegions,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the plan's fields of bias-corrected accuracies.

    They hold at the median size and in each region of sizes.
    """
    bits, curves, sizes = _list_bits(trainer, masks), costs.sum_features(masks), trainer.dataset.sizes
    items = trainer.dataset.item_codes
    halves, share = measure_reached_accuracies(bits, items, costs.evaluate(curves, median), rng)
    rows = effective_rows(items)
    measured: dict[str, Any] = {"reached": halves, "choosing": min(max(round(share * rows), 1), rows - 1)}
    if not len(regions.knots):
        return measured
    fitted = fit_size_curves(regions, bits, sizes, items, lambda size: costs.evaluate(curves, size.tolist()), rng)
    return measured | {
        f"size_{each.name}": getattr(part, each.name) for part in (regions, fitted) for each in fields(part)
    }


def _make_schema(
    original: FeatureTable,
    features: tuple[str, ...],
    dataset: FeatureTable,
    left_out: tuple[str, ...],
    left_out_costs: SetCosts | None,
) -> PlanSchema:
    """Return the schema of the plan.

    Args:
        original: the table before numerical encoding.
        features: the indexed features.
        dataset: the rows of the accuracies.
    """
    own, setup = select_features(original, features), original.spec.setup
    columns = tuple(feature.columns for feature in own.spec.features)
    shares = np.bincount(dataset.labels, minlength=len(dataset.classes)) / dataset.rows
    encoding = CellEncoding.from_table(own, list_column_owners(columns))
    return PlanSchema(
        features,
        columns,
        dataset.classes,
        shares,
        own.spec.unit,
        effective_rows(dataset.item_codes),
        left_out,
        left_out_costs,
        encoding=encoding,
        loss_matrix=dataset.loss_matrix,
        setup=tuple(group.name for group in setup),
        setup_members=np.array([np.isin((*features, *left_out), group.features) for group in setup]).reshape(
            (len(setup), len((*features, *left_out))) if setup else (0, 0)
        ),
    )


def _select_costs(costs: SetCosts, dataset: FeatureTable, names: Sequence[str]) -> SetCosts:
    places = [at for at, feature in enumerate(dataset.spec.features) if feature.name in names]
    return replace(costs, coefficients=costs.coefficients[places], groups=NO_GROUPS)


def _set_default_budget(options: IndexOptions) -> IndexOptions:
    if options.max_models is not None or "max_seconds" in options.model_fields_set:
        return options
    return options.model_copy(update={"max_models": DEFAULT_MAX_MODELS})


def _list_kept_masks(searched: SearchResult, candidates: Int64s, options: IndexOptions) -> list[int]:
    """Return the masks of the sets whose models are kept.

    ``candidates`` are indices of expanded sets.
    """
    expanded = searched.expanded
    if options.any_time:
        stay = choose_any_time_sets(expanded, alpha=searched.alpha, requested_alpha=options.alpha)
        candidates = np.union1d(candidates, stay)
    return [int(mask) for mask in list_modeled_sets(searched, expanded.masks[candidates])]


def _search(
    trainer: Trainer, costs: SetCosts, names: Sequence[str], median: tuple[float, ...], *, is_narrowed: bool
) -> SearchResult:
    """Search the lattice as finely as the budgets allow, and build the greedy sequences."""
    options = trainer.options
    limited = options.max_models is not None or _exceeds_time(trainer)
    alphas = list_alphas(options.alpha) if limited else [options.alpha]
    trainer.max_requested = options.max_models
    expanded, reached = _first_search(trainer, alphas[0], options.max_seconds if limited else None)
    feature_costs = costs.evaluate(costs.coefficients, median)
    sequences = _Sequences(trainer, feature_costs, names, costs.groups)
    if limited:
        trainer.max_requested = sequences.count_affordable()
        sequences.grow_sequences([0.0])  # as far as the budget goes
        if is_narrowed:  # no budget finishes that lattice, and the other sequences serve small budgets
            sequences.grow_affordable()
        expanded = _add_known_sets(trainer, expanded)  # the searches reuse what they have trained
    for alpha in alphas[1:]:
        try:
            expanded = _expand(trainer, alpha, expanded)
        except BudgetExhausted:
            expanded, reached = _bisect_alpha(trainer, expanded, alpha, reached)
            break
        reached = alpha
    trainer.max_requested = options.max_models
    grown = sequences.grow_affordable()
    trainer.max_seconds = None
    if limited:
        expanded = _add_known_sets(trainer, expanded)
    lambdas, orders = np.array(list(grown)), np.array(list(grown.values()), dtype=np.int32)
    return SearchResult(expanded, reached, trainer.known, lambdas, orders.reshape(len(lambdas), -1), median)


def _first_search(trainer: Trainer, alpha: float, seconds: float | None) -> tuple[ExpandedSets, float]:
    """Search with the coarsest alpha; on a timeout, double alpha until the known sets suffice.

    The empty set and the set of all features are always known.
    """
    trainer.estimate_accuracies([(1 << len(trainer.columns)) - 1])
    trainer.max_seconds = seconds
    while True:
        try:
            return _expand(trainer, alpha, None), alpha
        except BudgetExhausted as error:
            if not trainer.is_out_of_time:
                most = trainer.options.max_models
                fault = f"must be larger, got {most}: even alpha = {alpha:g} needs more feature sets"
                raise InvalidRequest.from_faults(Fault(("max_models",), fault)) from error
            alpha *= 2


def _exceeds_time(trainer: Trainer) -> bool:
    """Estimate and report the time of the whole lattice; return whether it exceeds ``max_seconds``."""
    most = trainer.options.max_seconds
    if most is None:
        return False
    estimated = trainer.estimate_seconds()
    sets = 1 << len(trainer.columns)
    trainer.report_progress(
        trainer.done_steps, f"estimated: {estimated:.3g} s for all {sets} feature sets, max_seconds is {most:g}"
    )
    return estimated > most


@dataclass(frozen=True, slots=True, eq=False)
class _Sequences:
    """Greedy sequences of features.

    ``feature_costs``, (F + G,), are costs of features and of set-up groups at the median size.
    """

    trainer: Trainer
    feature_costs: Floats
    names: Sequence[str]
    groups: SetupGroups

    @property
    def lambdas(self) -> list[float]:
        needed = self.groups.append_groups(np.ones(len(self.names), dtype=np.bool_))
        costs = self.feature_costs[needed]
        return [float(each) for each in choose_cost_weights(self.trainer.options.lambdas, costs)]

    def grow_sequences(self, lambdas: Sequence[float]) -> dict[float, list[int]]:
        """Return the sequence for each weight of cost, all of the same length."""
        grown = build_sequences(self.trainer.estimate_accuracies, self.feature_costs, lambdas, self.names, self.groups)
        return dict(zip(lambdas, grown, strict=True))

    def count_affordable(self) -> int | None:
        """Return the number of feature sets that may be trained before the sequence by cost alone.

        The remaining budget then suffices for that sequence.
        """
        most = self.trainer.options.max_models
        order = order_by_cost(self.feature_costs, self.groups, self.names)
        missing = sum(mask not in self.trainer.known for mask in accumulate(1 << f for f in order))
        return None if most is None else max(self.trainer.requested, most - missing)

    def grow_affordable(self) -> dict[float, list[int]]:
        """Return the sequences by accuracy alone and by cost alone, and affordable others.

        The others are those that reach the same length within the budget.
        """
        grown = self.grow_sequences([0.0, inf])
        for weight in self.lambdas[-2:0:-1]:
            (order,) = self.grow_sequences([weight]).values()
            grown |= {weight: order[: len(grown[0.0])]} if len(order) >= len(grown[0.0]) else {}
        return dict(sorted(grown.items()))


def _bisect_alpha(trainer: Trainer, expanded: ExpandedSets, low: float, high: float) -> tuple[ExpandedSets, float]:
    """Find the smallest alpha that the remaining budget affords, by bisection.

    ``low`` is unaffordable; ``high`` is affordable.
    """
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        try:
            expanded, high = _expand(trainer, middle, expanded), middle
        except BudgetExhausted:
            low = middle
    return expanded, high


def list_alphas(alpha: float) -> list[float]:
    """Return the alphas of a search under a budget, the coarsest first.

    >>> list_alphas(0.3), len(list_alphas(0.0)), list_alphas(5.0)
    ([2.0, 1.0, 0.5, 0.3], 12, [5.0])
    """
    steps = [FIRST_ALPHA * ALPHA_FACTOR**k for k in range(MAX_REFINEMENTS + 1)]
    return [*(step for step in steps if step > alpha), alpha]


def _expand(trainer: Trainer, alpha: float, known: ExpandedSets | None) -> ExpandedSets:
    def report(expanded: int, pruned: int) -> None:
        done = min(expanded + pruned, trainer.total_steps - 3)
        trainer.report_progress(done, f"alpha {alpha:g}: {expanded} feature sets expanded, {pruned} pruned")

    return expand_lattice(
        trainer.estimate_accuracies,
        len(trainer.dataset.spec.features),
        alpha=alpha,
        tolerance=trainer.options.tolerance,
        covering=trainer.options.covering,
        known=known,
        report=report,
    )


def _add_known_sets(trainer: Trainer, expanded: ExpandedSets) -> ExpandedSets:
    """Add the sets that an unfinished search trained, as possible candidates."""
    more = sorted(set(trainer.known) - set(expanded.masks.tolist()))
    accuracies = np.array([trainer.known[mask] for mask in more])
    return ExpandedSets(
        expanded.features,
        np.concatenate((expanded.masks, np.array(more, dtype=np.int64))),
        np.concatenate((expanded.accuracies, accuracies)),
        np.concatenate((expanded.demands, accuracies)),
    )
