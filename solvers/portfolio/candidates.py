"""Why a query was routed to a classifier: all of them, with their estimates and costs."""

from collections.abc import Collection
from typing import Any

import numpy as np

from models.portfolio import RouteDecision, RouteQuery
from solvers.portfolio.plan import PortfolioPlan


def list_candidates(
    plan: PortfolioPlan, query: RouteQuery, decision: RouteDecision, unavailable: Collection[str]
) -> list[dict[str, Any]]:
    """List the classifiers of a portfolio by falling estimate less the price of their cost."""
    estimates, own = plan.estimate_one(query.query), plan.own_costs(query)
    costs = plan.costs if own is None else own
    savings = plan.values(estimates) - decision.price * costs
    return [
        {
            "classifier": plan.classifiers[k],
            "estimated_accuracy": float(estimates[k]),
            "cost": float(costs[k]) + plan.embedding_cost,
            "savings": float(savings[k]),
            "taken": plan.classifiers[k] == decision.classifier,
            "because": "its circuit breaker is open"
            if plan.classifiers[k] in unavailable
            else _reason(plan.classifiers[k] == decision.classifier, float(savings[k]), float(savings.max())),
        }
        for k in np.argsort(-savings, kind="stable").tolist()
    ]


def _reason(is_chosen: bool, savings: float, best: float) -> str:
    if is_chosen:
        return f"its estimate less the price of its cost, {savings:.4g}, is the highest"
    if savings >= best:
        return "equal to the one taken; a random tie-break, or the budget, decided"
    return f"its estimate less the price of its cost is {best - savings:.4g} lower"
