"""Fallbacks of a portfolio's run, if the call of its classifier fails."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.arrays import Floats
from parsimony.runs.steps import Ask, Predict, Refusal
from solvers.portfolio.plan import PortfolioPlan
from solvers.running import Decide


def make_fallback(
    plan: PortfolioPlan,
    estimates: Floats,
    budget: float,
    *,
    max_cost: float = np.inf,
    costs: Floats | None = None,
    barred: frozenset[str] = frozenset(),
) -> Decide:
    """Return a function that routes among the classifiers that have not failed, at the shadow price of a budget.

    Args:
        max_cost: maximum cost, in the plan's unit, including failed calls.
        costs: (m,), costs of the query; None: the means.
        barred: classifiers that are not used.
    """
    own = plan.costs if costs is None else costs

    def choose(step: Ask | Predict) -> Mapping[str, Any] | Refusal:
        assert isinstance(step, Ask)
        tried = step.excluded | barred
        able = np.array([name not in tried for name in plan.classifiers]) & (
            own + plan.embedding_cost <= max_cost - step.lost
        )
        if not able.any():
            return Refusal("no other classifier is affordable")
        return dict(plan.route(estimates, budget, costs=own, allowed=able))

    return choose
