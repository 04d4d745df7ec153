"""Evaluation of an index on complete items, and its operating points."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from models import InvalidRequest
from models.arrays import Floats
from models.feedback import Expectations
from models.index import IndexCurveQuery, IndexEvaluateLimits, IndexLimits, IndexQuery
from solvers.base import ModelRunner, round_up
from solvers.evaluation import CompleteItems, EvaluationOutcomes, copy_shared_fields
from solvers.index.plan import IndexPlan
from solvers.kind import OperatingPoint, make_query


def evaluate(
    plan: IndexPlan,
    limits: IndexEvaluateLimits,
    items: CompleteItems,
    models: ModelRunner,
    resolve_percent_budget: Callable[[IndexQuery], IndexQuery],
) -> EvaluationOutcomes:
    """Classify every item with the model chosen for its size.

    Columns of features that are not chosen may be missing. The decision for each distinct size is made once. Items with
    the same feature set are classified in one batch.
    """
    shared_limits = copy_shared_fields(limits, IndexLimits)
    sizes = [limits.size if size is None else size for size in items.sizes]
    by_size = {
        size: plan.decide(resolve_percent_budget(make_query(IndexQuery, **shared_limits, size=size)))
        for size in {*sizes}
    }
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, size in enumerate(sizes):
        groups[by_size[size].features].append(at)
    n = len(items)
    labels, paths = list[str | None]([None] * n), [by_size[size].features for size in sizes]
    probabilities = np.full((n, len(plan.classes)), np.nan)
    for features, rows in groups.items():
        try:
            found = plan.predict(features, [items.values[at] for at in rows], models.modules, models.run)
        except InvalidRequest as error:
            raise items.locate_faults(error, rows) from error
        for place, at in enumerate(rows):
            labels[at] = found.labels[place]
            if found.probabilities is not None:
                probabilities[at] = [found.probabilities[place][name] for name in plan.classes]
    has_probabilities = not np.isnan(probabilities).any()
    return EvaluationOutcomes(
        labels=tuple(labels),
        costs=np.array([by_size[size].cost for size in sizes]),
        paths=tuple(paths),
        confidences=_confidences(labels, plan.classes, probabilities) if has_probabilities else np.full(n, np.nan),
        accepted=None if plan.losses is None else np.array([label is not None for label in labels]),
        classes=tuple(plan.classes),
        probabilities=probabilities if has_probabilities else None,
    )


def _confidences(labels: Sequence[str | None], classes: Sequence[str], probabilities: Floats) -> Floats:
    """Return the probability of each answer, (n,); NaN for rejected items."""
    places = {name: place for place, name in enumerate(classes)}
    return np.array(
        [np.nan if label is None else row[places[label]] for label, row in zip(labels, probabilities, strict=True)]
    )


def list_operating_points(plan: IndexPlan, query: IndexCurveQuery) -> Sequence[OperatingPoint]:
    """Return the operating points on the skyline at a size."""
    points, size = [], plan.default_size if query.size is None else query.size
    sized: dict[str, Any] = {} if size is None else {"size": size}
    budgets = (
        [round_up(item.cost) for item in plan.list_skyline(size)] if plan.fixed_budget is None else [plan.fixed_budget]
    )
    for budget in budgets:
        point_query = IndexQuery(budget=budget, **sized)
        decision = plan.decide(point_query)
        accuracy, rows = plan.estimate_accuracy(point_query, decision)
        expectations = Expectations.from_figures(accuracy=accuracy, cost=decision.cost, rows=rows or None)
        points.append(OperatingPoint({"budget": budget, **sized}, expectations, {"features": decision.features}))
    return points
