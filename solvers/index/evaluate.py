"""Complete items through an index, and its operating points."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from models.feedback import Expectations
from models.index import IndexCurveQuery, IndexLimits, IndexQuery
from solvers.base import ModelRunner
from solvers.evaluation import CompleteItems, Evaluated
from solvers.index.plan import IndexPlan
from solvers.kind import OperatingPoint


def evaluate(
    plan: IndexPlan,
    limits: IndexLimits,
    items: CompleteItems,
    models: ModelRunner,
    with_number: Callable[[IndexQuery], IndexQuery],
) -> Evaluated:
    """Classify every item with the model that is chosen for its size.

    Columns of features that are not chosen may be missing. One decision and one prediction for each different size.
    """
    asked = {name: getattr(limits, name) for name in IndexLimits.model_fields}
    groups: dict[Any, list[int]] = defaultdict(list)
    for at, size in enumerate(items.sizes):
        groups[size].append(at)
    n = len(items)
    labels, costs = [""] * n, np.zeros(n)
    paths: list[tuple[str, ...]] = [()] * n
    probabilities = np.full((n, len(plan.classes)), np.nan)
    for size, rows in groups.items():
        chosen = plan.decide(with_number(IndexQuery(**asked, size=size)))
        said = plan.predict(chosen, [items.values[at] for at in rows], models.modules, models.run)
        costs[rows] = chosen.cost
        for place, at in enumerate(rows):
            labels[at], paths[at] = said.labels[place], chosen.features
            if said.probabilities is not None:
                probabilities[at] = [said.probabilities[place][name] for name in plan.classes]
    has_probabilities = not np.isnan(probabilities).any()
    return Evaluated(
        labels=tuple(labels),
        costs=costs,
        paths=tuple(paths),
        confidences=probabilities.max(axis=1) if has_probabilities else np.full(n, np.nan),
        classes=tuple(plan.classes),
        probabilities=probabilities if has_probabilities else None,
    )


def curve(plan: IndexPlan, query: IndexCurveQuery) -> Sequence[OperatingPoint]:
    """Return the skyline at a size: the feature sets that no other one both undercuts and reaches in accuracy."""
    points, size = [], plan.usual_size if query.size is None else query.size
    sized: dict[str, Any] = {} if size is None else {"size": size}
    budgets = [item.cost for item in plan.skyline(size)] if plan.fixed_budget is None else [plan.fixed_budget]
    for budget in budgets:
        asked = IndexQuery(budget=budget, **sized)
        decision = plan.decide(asked)
        accuracy, rows = plan.expected(asked, decision)
        expectations = Expectations.of(accuracy=accuracy, cost=decision.cost, rows=rows or None)
        points.append(OperatingPoint({"budget": budget, **sized}, expectations, {"features": decision.features}))
    return points
