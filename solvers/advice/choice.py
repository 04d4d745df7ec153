"""Selection of the setting of a kind, and of the kind, within limits, on validation rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.advice import AdviceLimits, AdviceVerdict
from models.arrays import Int64s
from solvers.advice.candidates import Candidate
from solvers.savings import MAX_ACCURACY_LOSS, Replay, mean_interval
from solvers.statistics import standard_error

_ROUNDING = 1e-9

Rank = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class AdviceGoal:
    """Selection goal: the cheapest with at least the ``wanted`` accuracy, or, with None, the most accurate."""

    limits: AdviceLimits
    wanted: float | None

    @classmethod
    def from_limits(cls, limits: AdviceLimits, validation: Sequence[Replay], rows: int) -> "AdviceGoal":
        """Build the goal of some limits.

        It is ``min_accuracy`` plus a standard error, against selection bias; with a budget the highest accuracy; else
        nearly the highest accuracy within the limits. rows: number of independent validation rows.
        """
        if limits.min_accuracy is not None:
            margin = standard_error(limits.min_accuracy, rows)
            return cls(limits, min(limits.min_accuracy + margin, 1.0))
        if limits.budget is not None:
            return cls(limits, None)
        levels = [replay.right.mean() for replay in validation if is_within(limits, replay)]
        return cls(limits, float(max(levels, default=0.0)) - MAX_ACCURACY_LOSS)

    def rank_replay(self, replay: Replay) -> Rank:
        """Return a sort key, the best first; those below the wanted accuracy come last, the most accurate first."""
        accuracy, cost = float(replay.right.mean()), float(replay.costs.mean())
        if self.wanted is None:
            return 0.0, -accuracy, cost
        return (0.0, cost, -accuracy) if self.is_reached(replay) else (1.0, -accuracy, cost)

    def is_reached(self, replay: Replay) -> bool:
        """Return whether a replay has the wanted accuracy."""
        return self.wanted is None or float(replay.right.mean()) >= self.wanted - _ROUNDING


def is_within(limits: AdviceLimits, replay: Replay, query: Any = None) -> bool:
    """Return whether a replay is within budget and deadline, and the query's deadline within the limit's."""
    deadline = np.inf if limits.deadline is None else limits.deadline
    budget = np.inf if limits.budget is None else limits.budget
    late = float((query or {}).get("deadline", 0.0)) > deadline
    return not late and replay.costs.max() <= deadline and float(replay.costs.mean()) <= budget * (1 + _ROUNDING)


def choose_candidate(candidates: Iterable[Candidate], goal: AdviceGoal, rows: Any) -> Candidate | None:
    """Return the best candidate on some rows, or None if none is within the limits."""
    feasible = [one for one in candidates if is_within(goal.limits, one.replay.take(rows), one.query)]
    return min(feasible, key=lambda one: goal.rank_replay(one.replay.take(rows)), default=None)


def compare_replays(
    best: Replay, other: Replay, items: Int64s, rng: np.random.Generator, *, compare_costs: bool = True
) -> AdviceVerdict:
    """Return whether a kind is significantly worse than the best, by a paired bootstrap on holdout rows.

    Worse means less accurate by more than ``MAX_ACCURACY_LOSS`` or, with ``compare_costs``, more expensive.
    """
    more_expensive = compare_costs and mean_interval(other.costs - best.costs, items, rng)[0] > 0
    less_accurate = mean_interval(best.right - other.right, items, rng)[0] > MAX_ACCURACY_LOSS
    return "worse" if more_expensive or less_accurate else "similar"
