"""Run a query of a portfolio: call its classifier and, if the call fails, the best other classifier."""

from collections.abc import Callable

import numpy as np

from models.arrays import Floats
from models.losses import REJECT
from models.portfolio import RouteDecision
from solvers.portfolio.plan import PortfolioPlan
from solvers.running import Call, CallResult, ResultsSoFar, RunAnswer, Runner, accept_result

Fallback = Callable[[frozenset[str], float], RouteDecision | None]
"""Returns the next classifier, given those that failed and the cost of failed calls; None: none is affordable."""


def run_item(
    first: RouteDecision, fallback: Fallback, *, remaining_seconds: float, excluded: frozenset[str] = frozenset()
) -> Runner:
    """Run a query with its routing decision.

    Args:
        first: the routing decision.
        fallback: chooses a fallback after failures.
        remaining_seconds: time until the deadline.
        excluded: classifiers that are unavailable.
    Raises:
        EndpointFailed, RunTimeout: no classifier answered.
    """
    so_far, choice = ResultsSoFar(), first
    tried, lost = set[str](), 0.0
    while remaining_seconds > 0:
        tried.add(choice.classifier)
        if choice.classifier == REJECT:
            return RunAnswer(None, degraded=so_far.failures)
        result = CallResult(choice.classifier, attempts=0, error="circuit breaker open")
        if choice.classifier not in excluded:
            batch = yield Call((choice.classifier,), remaining_seconds, is_last=True)
            (result,), remaining_seconds = batch.results, batch.remaining_seconds
        so_far.results.append(result)
        if result.label is not None:
            return accept_result(result, so_far.failures)
        lost += choice.cost if result.is_paid else 0.0
        following = fallback(frozenset(tried), lost)
        if following is None:
            return so_far.most_confident(remaining_seconds, "no other classifier is affordable")
        choice = following
    return so_far.most_confident(remaining_seconds, "deadline exceeded")


def make_fallback(
    plan: PortfolioPlan,
    estimates: Floats,
    budget: float,
    *,
    max_cost: float = np.inf,
    costs: Floats | None = None,
    barred: frozenset[str] = frozenset(),
) -> Fallback:
    """Return a fallback that routes among the other classifiers at the shadow price of a budget.

    Args:
        max_cost: maximum cost, in the plan's unit, including failed calls.
        costs: (m,), costs of the query; None: the means.
        barred: classifiers that are not used.
    """
    own = plan.costs if costs is None else costs

    def choose(failed: frozenset[str], lost: float) -> RouteDecision | None:
        tried = failed | barred
        able = np.array([name not in tried for name in plan.classifiers]) & (
            own + plan.embedding_cost <= max_cost - lost
        )
        if not able.any():
            return None
        return plan.route(estimates, budget, costs=own, allowed=able)

    return choose
