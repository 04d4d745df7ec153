"""Assign all items of a batch at once, to classifiers that are available."""

import time
from collections.abc import Collection
from contextlib import suppress

import numpy as np

from models.arrays import Floats
from models.errors import Infeasible, InvalidRequest
from models.portfolio import Assignment, AssignmentOptions, RouteQuery
from models.portfolio_constraints import ConstrainedAssignment
from models.run import RunLimits
from solvers.kind import BatchAssigner, make_query
from solvers.portfolio.plan import PortfolioPlan

MIN_SECONDS = 0.1
"""Seconds that an assignment gets, at least."""


class PortfolioAssigner(BatchAssigner[PortfolioPlan]):
    """Solves the programme of a portfolio for a whole batch."""

    def options(self, limits: RunLimits, single: RouteQuery) -> AssignmentOptions:
        """Make the batch's options of the budget per item; an accuracy is that of the batch."""
        return make_query(AssignmentOptions, budget=single.budget, min_accuracy=limits.min_accuracy)

    def refuse_infeasible(self, plan: PortfolioPlan, count: int, options: AssignmentOptions) -> None:
        """Raise Infeasible for a budget that no assignment of ``count`` items keeps."""
        plan.refuse_infeasible(count, options)

    def estimate(self, plan: PortfolioPlan, vectors: Floats) -> tuple[Floats, Floats | None]:
        """Estimate accuracies (n, m) and expected costs (n, m) of embeddings (n, d)."""
        return plan.estimate(vectors), plan.expected_costs(vectors)

    def assign(
        self,
        plan: PortfolioPlan,
        estimates: tuple[Floats, Floats | None],
        options: AssignmentOptions,
        time_limit_s: float,
        unavailable: Collection[str],
    ) -> Assignment | ConstrainedAssignment:
        """Assign items to classifiers that are available.

        Where these alone cannot keep the limits, as few items as necessary go to others, as if these were always
        wrong. Raises what ``PortfolioPlan.assign`` does.
        """
        estimated, costs = estimates
        down = np.array([name in unavailable for name in plan.classifiers])
        if not down.any() or down.all():
            return plan.assign(estimated, options, time_limit_s, None, costs)
        ends_at = time.monotonic() + time_limit_s
        with suppress(Infeasible, InvalidRequest):  # what is wrong with the limits themselves is reported of them alone
            return plan.assign(estimated, options, time_limit_s, ~down, costs)
        remaining = max(ends_at - time.monotonic(), MIN_SECONDS)
        return plan.assign(np.where(down, 0.0, estimated), options, remaining, None, costs)
