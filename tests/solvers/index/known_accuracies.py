"""Indexes from accuracies that are known, for tests that train nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.index import IndexOptions
from solvers.index.assemble import (
    PlanSchema,
    SearchResult,
    TrainedModels,
    assemble_plan,
    build_set_index,
    choose_cost_weights,
)
from solvers.index.costs import SetCosts
from solvers.index.crossings import SkylineIndex
from solvers.index.greedy import build_sequences
from solvers.index.lattice import AccuracyFunction, ExpandedSets, expand_lattice
from solvers.index.plan import IndexPlan


def expand_all(accuracy: AccuracyFunction, features: int) -> ExpandedSets:
    """Expand all 2^F feature sets (Naive-Expand-All), in one call.

    >>> expand_all(lambda masks: [mask / 3 for mask in masks], 2).masks.tolist()
    [0, 1, 2, 3]
    """
    masks = np.arange(1 << features, dtype=np.int64)
    accuracies = np.array(accuracy(masks.tolist()), dtype=np.float64)
    return ExpandedSets(features, masks, accuracies, accuracies.copy())


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A plan without models, and what it was made from."""

    plan: IndexPlan
    expanded: ExpandedSets
    index: SkylineIndex


def plan_without_models(
    accuracy: AccuracyFunction, costs: SetCosts, options: IndexOptions | None = None, size: tuple[float, ...] = ()
) -> Built:
    """Build a plan from accuracies that are known, and train nothing: it decides, and cannot predict.

    size: the one at which greedy sequences weigh cost; () stands for 1 in every dimension. Of the options, those of the
    learner, of budgets of training and the fixed size do not matter here.

    >>> costs = SetCosts(np.array([[0], [1]]), np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> built = plan_without_models(lambda masks: [(0.5, 0.7, 0.8, 0.9)[mask] for mask in masks], costs)
    >>> [item.features for item in built.plan.list_skyline(3.0)]
    [(), ('f0',), ('f1',), ('f0', 'f1')]
    """
    options = options or IndexOptions()
    n = costs.features
    features = tuple(f"f{i}" for i in range(n))
    size = size or (1.0,) * costs.dimensions
    known: dict[int, float] = {}

    def learn(masks: Sequence[int]) -> Sequence[float]:
        accuracies = [float(a) for a in accuracy(masks)]
        known.update(zip(masks, accuracies, strict=True))
        return accuracies

    expanded = expand_lattice(learn, n, alpha=options.alpha, tolerance=options.tolerance, covering=options.covering)
    feature_costs = costs.evaluate(costs.coefficients, size)
    lambdas = choose_cost_weights(options.lambdas, feature_costs)
    sequences = build_sequences(learn, feature_costs, lambdas.tolist(), features, costs.groups)
    orders = np.array(sequences, dtype=np.int32)
    searched = SearchResult(expanded, options.alpha, known, lambdas, orders, size)
    indexed = build_set_index(expanded, costs, features, alpha=options.alpha, budget=options.fixed_budget)
    setup = tuple(f"g{i}" for i in range(len(costs.groups)))
    members = {"setup": setup, "setup_members": costs.groups.members}
    columns, shares = tuple((name,) for name in features), np.array([0.5, 0.5])
    names = PlanSchema(features, columns, ("0", "1"), shares, "unit", **members)  # type: ignore[arg-type]
    return Built(
        assemble_plan(names, options, costs, searched, indexed, TrainedModels("none", {})), expanded, indexed[1]
    )
