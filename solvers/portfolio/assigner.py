"""Assign all items of a batch to available classifiers in one step."""

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

MIN_HIGHS_S = 0.1
"""Minimum time limit of an assignment."""


class PortfolioAssigner(BatchAssigner[PortfolioPlan]):
    """Solve the assignment problem of a portfolio for a whole batch."""

    def options(self, limits: RunLimits, single: RouteQuery) -> AssignmentOptions:
        """Return the batch's options: budget per item, and accuracy."""
        return make_query(AssignmentOptions, budget=single.budget, min_accuracy=limits.min_accuracy)

    def check_feasibility(self, plan: PortfolioPlan, count: int, options: AssignmentOptions) -> None:
        """Raise Infeasible if no assignment of ``count`` items fits the budget."""
        plan.check_feasibility(count, options)

    def estimate(self, plan: PortfolioPlan, vectors: Floats) -> tuple[Floats, Floats | None]:
        """Return estimated accuracies (n, m) and expected costs (n, m) of embeddings (n, d)."""
        return plan.estimate(vectors), plan.predict_costs(vectors)

    def assign(
        self,
        plan: PortfolioPlan,
        estimates: tuple[Floats, Floats | None],
        options: AssignmentOptions,
        time_limit_s: float,
        unavailable: Collection[str],
    ) -> Assignment | ConstrainedAssignment:
        """Assign items to available classifiers.

        If the available classifiers cannot keep the limits, as few items as possible are assigned to unavailable
        classifiers. Estimates of unavailable classifiers count as 0.

        Raises: as ``PortfolioPlan.assign``.
        """
        estimated, costs = estimates
        down = np.array([name in unavailable for name in plan.classifiers])
        if not down.any() or down.all():
            return plan.assign(estimated, options, time_limit_s, None, costs)
        ends_at = time.monotonic() + time_limit_s
        with suppress(Infeasible, InvalidRequest):  # errors of the limits themselves are raised by the second attempt
            return plan.assign(estimated, options, time_limit_s, ~down, costs)
        remaining = max(ends_at - time.monotonic(), MIN_HIGHS_S)
        return plan.assign(np.where(down, 0.0, estimated), options, remaining, None, costs)
