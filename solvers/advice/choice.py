"""Which setting of a method, and which method, within limits: by rows that report nothing."""

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
    """What is best of all within the limits: what costs least and is accurate enough on the rows that choose, or, where
    nothing is wanted but a budget kept, what is most accurate."""

    limits: AdviceLimits
    wanted: float | None

    @classmethod
    def from_limits(cls, limits: AdviceLimits, validation: Sequence[Replay], rows: int) -> "AdviceGoal":
        """Take what was asked for, a standard error above it, for rows that chose say too much; where neither accuracy
        nor budget was, what is nearly as accurate as the most accurate within the limits. rows: the number of
        independent rows that choose."""
        if limits.min_accuracy is not None:
            spare = standard_error(limits.min_accuracy, rows)
            return cls(limits, min(limits.min_accuracy + spare, 1.0))
        if limits.budget is not None:
            return cls(limits, None)
        levels = [replay.right.mean() for replay in validation if is_within(limits, replay)]
        return cls(limits, float(max(levels, default=0.0)) - MAX_ACCURACY_LOSS)

    def rank_replay(self, replay: Replay) -> Rank:
        """Order by what is best, the least first; what is not accurate enough comes last, the most accurate first."""
        accuracy, cost = float(replay.right.mean()), float(replay.costs.mean())
        if self.wanted is None:
            return 0.0, -accuracy, cost
        return (0.0, cost, -accuracy) if self.is_reached(replay) else (1.0, -accuracy, cost)

    def is_reached(self, replay: Replay) -> bool:
        """Tell whether rows were answered as accurately as is wanted."""
        return self.wanted is None or float(replay.right.mean()) >= self.wanted - _ROUNDING


def is_within(limits: AdviceLimits, replay: Replay, query: Any = None) -> bool:
    """Tell whether rows were answered within budget and deadline; and a query for a deadline asked for no later."""
    deadline = np.inf if limits.deadline is None else limits.deadline
    budget = np.inf if limits.budget is None else limits.budget
    late = float((query or {}).get("deadline", 0.0)) > deadline
    return not late and replay.costs.max() <= deadline and float(replay.costs.mean()) <= budget * (1 + _ROUNDING)


def choose_candidate(candidates: Iterable[Candidate], aim: AdviceGoal, rows: Any) -> Candidate | None:
    """Choose a setting by the rows that choose; None if none is within the limits."""
    fine = [one for one in candidates if is_within(aim.limits, one.replay.take(rows), one.query)]
    return min(fine, key=lambda one: aim.rank_replay(one.replay.take(rows)), default=None)


def compare_replays(
    best: Replay, other: Replay, items: Int64s, rng: np.random.Generator, *, frugal: bool = True
) -> AdviceVerdict:
    """Tell, by the rows that report, whether another method is shown to be worse than the best (paired bootstrap):
    less accurate by more than what counts as nearly the same or, if to be frugal is what is wanted, dearer."""
    dearer = frugal and mean_interval(other.costs - best.costs, items, rng)[0] > 0
    less_accurate = mean_interval(best.right - other.right, items, rng)[0] > MAX_ACCURACY_LOSS
    return "worse" if dearer or less_accurate else "similar"
