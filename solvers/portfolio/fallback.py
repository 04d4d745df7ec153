"""Fallbacks for a failed call of the classifier in a portfolio's run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.arrays import Floats
from parsimony.runs.steps import DecisionRequest, Predict, Refusal
from solvers.portfolio.plan import PortfolioPlan
from solvers.running import Decide


def make_fallback_router(
    plan: PortfolioPlan,
    estimates: Floats,
    budget: float,
    *,
    max_cost: float = np.inf,
    costs: Floats | None = None,
    forbidden: frozenset[str] = frozenset(),
) -> Decide:
    """Return a function that routes among the classifiers that have not failed.

    Args:
        max_cost: maximum cost, in the plan's unit, including failed calls.
        costs: (m,), costs of the query; None for the means.
        forbidden: classifiers that are not used.
    """
    own = plan.costs if costs is None else costs

    def choose(step: DecisionRequest | Predict) -> Mapping[str, Any] | Refusal:
        assert isinstance(step, DecisionRequest)
        tried = step.excluded | forbidden
        able = np.array([name not in tried for name in plan.classifiers]) & (
            own + plan.embedding_cost <= max_cost - step.lost
        )
        if not able.any():
            return Refusal("no other classifier is affordable")
        return dict(plan.route(estimates, budget, costs=own, allowed=able))

    return choose
