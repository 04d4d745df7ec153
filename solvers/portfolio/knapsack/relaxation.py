"""Linear relaxation of the knapsack problem for all budgets at once.

The budget has one dual price.

At a price, the choice of a row is the one with the largest value - price · cost. As the price falls, the choice moves
along the upper concave hull of the row's points (cost, value). Each step has a slope: the price at which the step is
made. For every budget, the relaxation takes the steps of all rows by falling slope, as many as the budget affords.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.portfolio.knapsack.problem import KnapsackProblem


@dataclass(frozen=True, slots=True, eq=False)
class HullSteps:
    """Steps of all rows along their hulls, (s,), by falling slope.

    Attributes:
        start: (n,), the cheapest choices.
        rows: the row of each step.
        choices: the choice after each step.
        slopes: gain of value per unit of cost of each step.
        spent: cumulative cost of the steps.
    """

    start: Int64s
    rows: Int64s
    choices: Int64s
    slopes: Floats
    spent: Floats

    def find_prices(self, remaining: Floats) -> Floats:
        """Return for each budget the slope of the first step that does not fit, 0 if all fit: (b,).

        Args:
            remaining: (b,), budgets minus the cost of ``start``.
        """
        return np.append(self.slopes, 0.0)[np.searchsorted(self.spent, remaining, side="right")]

    def take_steps(self, count: int) -> Int64s:
        """Return the choices (n,) after the first ``count`` steps."""
        choice = self.start.copy()
        choice[self.rows[:count]] = self.choices[:count]
        return choice


def compute_steps(problem: KnapsackProblem) -> HullSteps:
    """Return the steps of all rows.

    Of choices on one line, the most expensive one is the next step. If slopes rise along a row because of rounding
    errors, they are lowered to the previous slope, so that the steps of a row remain in order.

    Complexity: O(n m h) time for hulls of at most h points, and about 60 n m bytes.
    """
    start = problem.choose_cheapest()
    now, active = start.copy(), np.arange(len(start))
    last = np.full(len(start), np.inf)
    climbs: list[tuple[Int64s, Int64s, Floats, Floats]] = []
    while len(active):
        slopes, rises = _list_steps(problem, active, now[active])
        best = slopes.max(axis=1)
        step = np.where(slopes == best[:, None], rises, -1.0).argmax(axis=1)
        going = best > 0
        rise = rises[np.arange(len(active)), step][going]
        active, step = active[going], step[going]
        last[active] = np.minimum(best[going], last[active])
        now[active] = step
        climbs.append((active, step, last[active], rise))
    rows, choices, slopes, rises = (np.concatenate(each) for each in zip(*climbs, strict=True))
    order = np.argsort(-slopes, kind="stable")
    return HullSteps(start, rows[order], choices[order], slopes[order], np.cumsum(rises[order]))


def _list_steps(problem: KnapsackProblem, rows: Int64s, now: Int64s) -> tuple[Floats, Floats]:
    """Return slope and cost of every step with a gain from the current choices; other slopes are -1."""
    chosen = np.arange(len(rows)), now
    values, costs = problem.values[rows], problem.costs[rows]
    gains = values - values[chosen][:, None]
    rises = costs - costs[chosen][:, None]
    climbs = (gains > 0) & (rises > 0)
    slopes = np.divide(gains, rises, out=np.full(gains.shape, -1.0), where=climbs)
    return slopes, rises


def round_relaxation(problem: KnapsackProblem, steps: HullSteps) -> tuple[Int64s, float]:
    """Return the assignment, (n,), after all affordable steps, and the slope of the next step.

    The assignment is within the budget. At this slope as the price, no row has a better choice.
    """
    remaining = problem.budget - problem.sum_costs(steps.start)
    count, back = int(np.searchsorted(steps.spent, remaining, side="right")), 1
    choice = steps.take_steps(count)
    while problem.sum_costs(choice) > problem.budget:  # cumulative sums round
        count, back = max(count - back, 0), 2 * back
        choice = steps.take_steps(count)
    return choice, float(np.append(steps.slopes, 0.0)[count])
