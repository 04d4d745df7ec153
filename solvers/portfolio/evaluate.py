"""Evaluation of a portfolio on complete items, and its operating points."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.feedback import Expectations
from models.portfolio import RouteLimits, RouteQuery
from parsimony.runs.steps import REJECT
from solvers.evaluation import CompleteItems, EvaluationOutcomes, copy_shared_fields, label_from_cell
from solvers.kind import OperatingPoint
from solvers.portfolio.plan import PortfolioPlan

METHODS = {"batch": "whole batches", "single_best": "the best classifier within the budget", "random": "at random"}
METHODS |= {"frugal_mct": "FrugalMCT", "oracle": "an oracle"}
"""Display names of the other measured methods."""


def evaluate(plan: PortfolioPlan, limits: RouteLimits, items: CompleteItems) -> EvaluationOutcomes:
    """Route each item separately, by its embedding.

    The cost of an item is its declared cost, else the planned cost of the decision.
    """
    if items.embeddings is None:
        raise items.make_fault(0, "embedding", message="is required for routing")
    estimates = plan.estimate(items.embeddings)
    shared_limits = copy_shared_fields(limits, RouteLimits)
    labels, costs, chosen, confidences = list[str | None](), list[float](), list[str](), list[float]()
    for at, (item, values) in enumerate(zip(items.ids, items.values, strict=True)):
        vector, size = tuple(items.embeddings[at].tolist()), items.sizes[at]
        query = RouteQuery.model_construct(**shared_limits, query=vector, item=item, size=size, text=None, costs=None)
        decision = plan.route(
            estimates[at],
            plan.resolve_query_budget(query),
            tie_break=plan.draw_tie_break(query),
            costs=plan.query_costs(query),
            allowed=plan.allowed_mask(query),
        )
        cost = items.read_cell_number(at, f"{decision.classifier}.cost", 0.0)
        labels.append(label_from_cell(values.get(f"{decision.classifier}.label")))
        groups = items.read_setup_costs(at, plan.setup_names, plan.setup_costs)
        setup = plan.sum_setup([decision.classifier], plan.embedders, groups)
        costs.append(decision.cost if cost is None else plan.embedding_cost + cost + setup)
        chosen.append(decision.classifier)
        confidences.append(decision.estimated_accuracy)
    return EvaluationOutcomes(
        labels=tuple(labels),
        costs=np.array(costs),
        paths=tuple((name,) for name in chosen),
        confidences=np.array(confidences),
        accepted=np.array([name != REJECT for name in chosen]) if REJECT in plan.classifiers else None,
        classifiers=tuple(chosen),
    )


def list_operating_points(plan: PortfolioPlan) -> Sequence[OperatingPoint]:
    """Return the operating points of routing single queries on holdout rows, with shadow prices."""
    row = plan.methods.index("route")
    points = []
    for at, budget in enumerate(plan.curve_budgets.tolist()):
        cost = float(plan.curve_costs[row, at])
        usage = dict(zip(plan.classifiers, plan.curve_usage[row, at].tolist(), strict=True))
        expectations = Expectations.from_figures(
            accuracy=float(plan.curve_accuracies[row, at]),
            coverage=1 - usage[REJECT] / sum(usage.values()) if REJECT in usage else None,
            cost=cost,
            cost_error=float(plan.curve_cost_errors[row, at]),
        )
        decision: Mapping[str, Any] = {"usage": usage, "price": plan.shadow_price_at(budget)}
        points.append(OperatingPoint({"budget": budget}, expectations, decision))
    return points


def list_baseline_curves(plan: PortfolioPlan) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Return (accuracy, cost) points of other methods on the same rows.

    The points range over budgets.
    """
    return {
        METHODS.get(method, method): list(
            zip(plan.curve_accuracies[row].tolist(), plan.curve_costs[row].tolist(), strict=True)
        )
        for row, method in enumerate(plan.methods)
        if method != "route"
    }
