"""What held-out items tell of budgets: what was reached, what an accuracy needs, how far estimates were too high."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats
from models.errors import Infeasible
from solvers.portfolio.contents import PortfolioContents
from solvers.portfolio.floors import TooHigh
from solvers.statistics import standard_error


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutCurve(PortfolioContents):
    """What a portfolio and its baselines reached on held-out items at p budgets of a query."""

    @property
    def effective_rows(self) -> float:
        """The number of independent held-out rows."""
        return self.independence * self.held_out

    @property
    def cheapest(self) -> float:
        """The least that a query costs, its embedding included."""
        return self.embedding_cost + float(self.costs.min())

    def _least_budget(self, method: str, wanted: float, most: float) -> float:
        """Find the least budget of a query at which a method reached an accuracy on held-out items, between the budgets
        of the curve on a line, with a standard error to spare; raises Infeasible if that is above the most it may be,
        or no budget does."""
        levels = self._levels(method)
        if wanted > levels[-1]:
            most_accurate = (
                f"at no budget are more than {levels[-1]:.4g} of the answers right, a standard error to spare"
            )
            raise Infeasible(f"{most_accurate}; asked is {wanted:g}")
        least = self._budget_at(levels, wanted)
        if least > most:
            needed = f"{wanted:g} of the answers right need a budget of {least:.4g} {self.unit} a query"
            raise Infeasible(f"{needed}, it is {most:.4g}")
        return max(least, self.cheapest)

    def _levels(self, method: str) -> Floats:
        """Give what a method reached on held-out items with a standard error to spare, at budgets up to each: (p,)."""
        reached = self.curve_accuracies[self.methods.index(method)]
        return np.maximum.accumulate(reached - standard_error(reached, self.effective_rows))

    def _budget_at(self, levels: Floats, wanted: float) -> float:
        """Find the budget of a query at which levels, (p,), come to what is wanted, on a line between budgets; the
        largest if none does."""
        place = int(np.searchsorted(levels, wanted))
        if place in (0, len(levels)):
            return float(self.curve_budgets[min(place, len(levels) - 1)])
        return float(np.interp(wanted, levels[place - 1 : place + 1], self.curve_budgets[place - 1 : place + 1]))

    @property
    def _mixes(self) -> Floats:
        """Give what choices at the budgets of the curve cost by mean costs, rising: (p,)."""
        usage = self.curve_usage[self.methods.index("batch")]
        return np.maximum.accumulate(usage @ self.costs / self.held_out + self.embedding_cost)

    def _budget_of_mix(self, cost: float) -> float:
        """Say at which budget choices like these were made, given what they cost by mean costs."""
        return float(np.interp(cost, self._mixes, self.curve_budgets))

    def _likely(self, wanted: float | None, most: float) -> float:
        """Guess what a batch costs by mean costs that is to reach an accuracy, the highest if None, within a budget."""
        budget = np.inf if wanted is None else self._budget_at(self._levels("batch"), wanted)
        return float(np.interp(min(budget, most), self.curve_budgets, self._mixes))

    def _too_high(self, regularization: float | None) -> TooHigh:
        """Say what is taken off values before they count for a floor: by how much estimates of chosen classifiers were
        too high on held-out items, and a standard error; less what the regularization has taken off already."""
        lam = self.regularization if regularization is None else regularization

        def too_high(cost: float) -> Floats:
            budget = self._budget_of_mix(cost)
            reached = float(np.interp(budget, self.curve_budgets, self.curve_accuracies[self.methods.index("batch")]))
            off = self.optimism("batch", budget) + standard_error(reached, self.effective_rows)
            return np.maximum(off - lam * self.sigmas, 0.0)

        return too_high

    def optimism(self, method: str, budget: float) -> Floats:
        """Say how far a method's estimates of each classifier, (m,), were above the truth on the held-out items that
        it gave to it, at a budget of a query."""
        row, last = self.methods.index(method), len(self.curve_budgets) - 1
        place = float(np.interp(budget, self.curve_budgets, np.arange(last + 1)))
        low, share = int(place), place % 1
        below, above = self.curve_too_high[row, low], self.curve_too_high[row, min(low + 1, last)]
        return np.asarray(below + share * (above - below))

    def telling(self, method: str, budget: float, accuracy: float) -> int:
        """Say how many answers, right or wrong, tell as much of an accuracy as held-out items do by what estimates were
        too high by at a budget of a query: fewer than there are items where estimates scatter."""
        error = np.interp(budget, self.curve_budgets, self.curve_estimate_errors[self.methods.index(method)])
        variance = max(accuracy * (1 - accuracy), 1e-9)
        return max(int(variance / max(float(error) ** 2, variance / self.effective_rows)), 1)

    def beyond_planned(self, method: str, budget: float) -> tuple[float, float | None]:
        """Say how much more a query cost on held-out items than was planned, at a budget of a query, and the standard
        error of that. A mean of two that are told by the same items is off by no
        more than the mean of their errors. Where sizes tell costs, held-out items were planned with their own: they
        tell nothing of queries that come without sizes."""
        if len(self.cost_powers):
            return 0.0, None
        row = self.methods.index(method)
        off, errors = self.curve_cost_offsets[row], self.curve_cost_errors[row]
        return float(np.interp(budget, self.curve_budgets, off)), float(np.interp(budget, self.curve_budgets, errors))
