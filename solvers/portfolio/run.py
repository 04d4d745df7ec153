"""Run a query of a portfolio: call the classifier that it is routed to and, if that fails, the best other one."""

from collections.abc import Callable

import numpy as np

from models.arrays import Floats
from models.portfolio import RouteDecision
from solvers.portfolio.plan import PortfolioPlan
from solvers.running import Call, CallResult, ResultsSoFar, Runner, accept_result

Next = Callable[[frozenset[str], float], RouteDecision | None]
"""Chooses among the classifiers that are not in a set, given what failed calls may have cost; None: nothing is left
that is affordable."""


def run(first: RouteDecision, other: Next, *, left: float, excluded: frozenset[str] = frozenset()) -> Runner:
    """Run a query as it was routed.

    other: chooses again, by the price and within what is left, once classifiers have failed. left: seconds that it may
    take. without: what must not be called. Raises EndpointFailed, or RunTimeout, if nobody answers.
    """
    so_far, choice = ResultsSoFar(), first
    tried, lost = set[str](), 0.0
    while left > 0:
        tried.add(choice.classifier)
        heard = CallResult(choice.classifier, attempts=0, error="its circuit is open")
        if choice.classifier not in excluded:
            back = yield Call((choice.classifier,), left, is_last=True)
            (heard,), left = back.results, back.remaining_seconds
        so_far.results.append(heard)
        if heard.label is not None:
            return accept_result(heard, so_far.failures)
        lost += choice.cost if heard.is_paid else 0.0
        following = other(frozenset(tried), lost)
        if following is None:
            return so_far.most_confident(left, "no other classifier is affordable")
        choice = following
    return so_far.most_confident(left, "the time was over")


def next_best(
    plan: PortfolioPlan,
    estimates: Floats,
    budget: float,
    *,
    most: float = np.inf,
    costs: Floats | None = None,
    barred: frozenset[str] = frozenset(),
) -> Next:
    """Choose by the price at a budget among those not tried yet that cost at most ``most``, in the plan's unit, less
    what failed calls may have cost; none that is barred."""
    own = plan.costs if costs is None else costs

    def choose(failed: frozenset[str], lost: float) -> RouteDecision | None:
        tried = failed | barred
        able = np.array([name not in tried for name in plan.classifiers]) & (own + plan.embedding_cost <= most - lost)
        if not able.any():
            return None
        return plan.route(estimates, budget, costs=own, among=able)

    return choose
