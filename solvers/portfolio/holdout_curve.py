"""Estimates from holdout rows.

These are accuracies at budgets, budgets for an accuracy, and the optimism of estimates.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats
from models.errors import Infeasible
from solvers.portfolio.accuracy_floors import OptimismFunction
from solvers.portfolio.contents import PortfolioContents
from solvers.statistics import standard_error


@dataclass(frozen=True, slots=True, eq=False)
class HoldoutCurve(PortfolioContents):
    """Outcomes of a portfolio and its baselines on holdout rows at p budgets per query."""

    @property
    def effective_rows(self) -> float:
        """The number of independent holdout rows."""
        return self.independence * self.held_out

    @property
    def min_cost(self) -> float:
        """The least cost of a query, including its embedding."""
        return self.embedding_cost + float(self.costs.min())

    def _find_min_budget(self, method: str, wanted: float, most: float) -> float:
        """Return the least budget per query for an accuracy, with a margin of one standard error.

        Budgets between those of the curve are interpolated. Raises Infeasible if this budget exceeds ``most``, or if no
        budget suffices.
        """
        levels = self._cautious_accuracies(method)
        if wanted > levels[-1]:
            highest = f"the highest accuracy at any budget is {levels[-1]:.4g} (minus one standard error)"
            raise Infeasible(f"{highest}; requested: {wanted:g}")
        least = self._interpolate_budget(levels, wanted)
        if least > most:
            needed = f"accuracy {wanted:g} needs a budget of {least:.4g} {self.unit} per query"
            raise Infeasible(f"{needed}, got {most:.4g}")
        return max(least, self.min_cost)

    def _cautious_accuracies(self, method: str) -> Floats:
        """Return the highest accuracy, minus one standard error, up to each budget: (p,)."""
        reached = self.curve_accuracies[self.methods.index(method)]
        return np.maximum.accumulate(reached - standard_error(reached, self.effective_rows))

    def _interpolate_budget(self, levels: Floats, wanted: float) -> float:
        """Return the budget per query at which levels, (p,), reach a value.

        If none reaches it, return the largest budget.
        """
        place = int(np.searchsorted(levels, wanted))
        if place in (0, len(levels)):
            return float(self.curve_budgets[min(place, len(levels) - 1)])
        return float(np.interp(wanted, levels[place - 1 : place + 1], self.curve_budgets[place - 1 : place + 1]))

    @property
    def _batch_mean_costs(self) -> Floats:
        """Mean costs of batch assignments at the curve's budgets, rising: (p,)."""
        usage = self.curve_usage[self.methods.index("batch")]
        return np.maximum.accumulate(usage @ self.costs / self.held_out + self.embedding_cost)

    def _find_budget_of_cost(self, cost: float) -> float:
        """Return the budget at which batch choices have a given mean cost."""
        return float(np.interp(cost, self._batch_mean_costs, self.curve_budgets))

    def _guess_mean_cost(self, wanted: float | None, most: float) -> float:
        """Guess the mean cost of a batch that reaches an accuracy within a budget.

        An accuracy of None means the highest one.
        """
        budget = np.inf if wanted is None else self._interpolate_budget(self._cautious_accuracies("batch"), wanted)
        return float(np.interp(min(budget, most), self.curve_budgets, self._batch_mean_costs))

    def _make_optimism(self, regularization: float | None) -> OptimismFunction:
        """Return a function from the mean cost of a choice to the optimism of values.

        It is the optimism on holdout rows plus a standard error, minus the reduction by regularization.
        """
        lam = self.regularization if regularization is None else regularization

        def optimism(cost: float) -> Floats:
            budget = self._find_budget_of_cost(cost)
            reached = float(np.interp(budget, self.curve_budgets, self.curve_accuracies[self.methods.index("batch")]))
            off = self.interpolate_optimism("batch", budget) + standard_error(reached, self.effective_rows)
            return np.maximum(off - lam * self.sigmas, 0.0)

        return optimism

    def interpolate_optimism(self, method: str, budget: float) -> Floats:
        """Return the optimism of a method's estimates by classifier, (m,), at a budget per query."""
        row, last = self.methods.index(method), len(self.curve_budgets) - 1
        place = float(np.interp(budget, self.curve_budgets, np.arange(last + 1)))
        low, share = int(place), place % 1
        below, above = self.curve_too_high[row, low], self.curve_too_high[row, min(low + 1, last)]
        return np.asarray(below + share * (above - below))

    def count_effective_rows(self, method: str, budget: float, accuracy: float) -> int:
        """Return the effective sample size of an accuracy estimate at a budget per query.

        The variance of the estimate equals that of a share of this many independent answers. The number is at most the
        number of independent holdout rows.
        """
        error = np.interp(budget, self.curve_budgets, self.curve_estimate_errors[self.methods.index(method)])
        variance = max(accuracy * (1 - accuracy), 1e-9)
        return max(int(variance / max(float(error) ** 2, variance / self.effective_rows)), 1)

    def estimate_cost_overrun(self, method: str, budget: float) -> tuple[float, float | None]:
        """Return the mean of measured minus planned cost at a budget per query, and its standard error.

        The standard error is interpolated between budgets. This is an upper bound, because all budgets are measured on
        the same rows.

        Returns:
            (mean, standard error); (0, None) if costs depend on size, because the overrun of queries without sizes is
            unknown.
        """
        if len(self.cost_powers):
            return 0.0, None
        row = self.methods.index(method)
        off, errors = self.curve_cost_offsets[row], self.curve_cost_errors[row]
        return float(np.interp(budget, self.curve_budgets, off)), float(np.interp(budget, self.curve_budgets, errors))
