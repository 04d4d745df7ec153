"""Explanation of a routing decision: all classifiers with their estimates and costs."""

from collections.abc import Collection
from typing import Any

import numpy as np

from models.portfolio import RouteDecision, RouteQuery
from solvers.portfolio.plan import PortfolioPlan


def list_candidates(
    plan: PortfolioPlan, query: RouteQuery, decision: RouteDecision, unavailable: Collection[str]
) -> list[dict[str, Any]]:
    """Return the classifiers by estimate minus cost times shadow price, highest first."""
    estimates, own = plan.estimate_one(query.query), plan.query_costs(query)
    costs = plan.costs if own is None else own
    savings = plan.penalize_estimates(estimates) - decision.price * costs
    return [
        {
            "classifier": plan.classifiers[k],
            "estimated_accuracy": float(estimates[k]),
            "cost": float(costs[k]) + plan.embedding_cost,
            "savings": float(savings[k]),
            "taken": plan.classifiers[k] == decision.classifier,
            "because": "circuit breaker open"
            if plan.classifiers[k] in unavailable
            else _reason(plan.classifiers[k] == decision.classifier, float(savings[k]), float(savings.max())),
        }
        for k in np.argsort(-savings, kind="stable").tolist()
    ]


def _reason(is_chosen: bool, savings: float, best: float) -> str:
    if is_chosen:
        return f"highest estimate minus priced cost: {savings:.4g}"
    if savings >= best:
        return "equal to the chosen one; decided by random tie-break or budget"
    return f"estimate minus priced cost is {best - savings:.4g} lower"
