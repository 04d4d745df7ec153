"""Selection of the setting of a kind, and of the kind, within limits, on validation rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.advice import AdviceLimits, AdviceVerdict
from models.arrays import Int64s
from solvers.advice.candidates import Candidate
from solvers.savings import MAX_ACCURACY_LOSS, Replay, estimate_mean_interval
from solvers.statistics import standard_error

_ROUNDING = 1e-9

Rank = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class AdviceGoal:
    """Selection goal.

    Attributes:
        wanted: accuracy that the cheapest setting must reach; None: select the most accurate setting.
        loss_scale: the largest loss; if above 0, the goal is the setting with the least sum of cost and loss.
    """

    limits: AdviceLimits
    wanted: float | None
    loss_scale: float = 0.0

    @classmethod
    def from_limits(
        cls,
        limits: AdviceLimits,
        validation: Sequence[Replay],
        rows: int,
        loss_scale: float = 0.0,
        logged: Replay | None = None,
    ) -> "AdviceGoal":
        """Return the selection goal for the limits.

        The first case that applies decides. With ``min_accuracy``, the goal is this accuracy plus one standard error,
        to offset selection bias. With a budget, it is the highest accuracy. With losses, it is the least sum of cost
        and loss. With a log within the limits, it is the log's accuracy. Otherwise it is slightly below the highest
        accuracy within the limits.

        Args:
            rows: number of independent validation rows.
            loss_scale: the largest loss, in the unit of costs; 0 if all errors are equal.
            logged: the calls of a log on validation rows; None: the rows are not from a log.
        """
        if limits.min_accuracy is not None:
            margin = standard_error(limits.min_accuracy, rows)
            return cls(limits, min(limits.min_accuracy + margin, 1.0))
        if limits.budget is not None:
            return cls(limits, None)
        if loss_scale:
            return cls(limits, None, loss_scale)
        if logged is not None and is_within(limits, logged):
            return cls(limits, float(logged.right.mean()))
        levels = [replay.right.mean() for replay in validation if is_within(limits, replay)]
        return cls(limits, float(max(levels, default=0.0)) - MAX_ACCURACY_LOSS)

    def rank_replay(self, replay: Replay) -> Rank:
        """Return a sort key that orders the best replay first.

        Replays below the wanted accuracy come last, by falling accuracy.
        """
        compared = self.make_comparable(replay)
        accuracy, cost = float(compared.right.mean()), float(compared.costs.mean())
        if self.wanted is None:
            return 0.0, -accuracy, cost
        return (0.0, cost, -accuracy) if self.is_reached(replay) else (1.0, -accuracy, cost)

    @property
    def compares_costs(self) -> bool:
        """Whether settings are compared by cost; otherwise only by accuracy."""
        return self.wanted is not None or self.loss_scale > 0

    def make_comparable(self, replay: Replay) -> Replay:
        """Return the replay for comparisons: with losses, its costs are the sums of cost and loss."""
        if not self.loss_scale:
            return replay
        return Replay(np.ones_like(replay.right), replay.costs + self.loss_scale * (1 - replay.right))

    def is_reached(self, replay: Replay) -> bool:
        """Return whether a replay has the wanted accuracy."""
        return self.wanted is None or float(replay.right.mean()) >= self.wanted - _ROUNDING


def is_within(limits: AdviceLimits, replay: Replay, query: Any = None) -> bool:
    """Return whether a replay is within budget and deadline.

    A deadline in the query must not exceed the deadline in the limits.
    """
    deadline = np.inf if limits.deadline is None else limits.deadline
    budget = np.inf if limits.budget is None else limits.budget
    late = float((query or {}).get("deadline", 0.0)) > deadline
    return not late and replay.costs.max() <= deadline and float(replay.costs.mean()) <= budget * (1 + _ROUNDING)


def choose_candidate(candidates: Iterable[Candidate], goal: AdviceGoal, rows: Any) -> Candidate | None:
    """Return the best candidate on the given rows; None if none is within the limits."""
    feasible = [one for one in candidates if is_within(goal.limits, one.replay.take(rows), one.query)]
    return min(feasible, key=lambda one: goal.rank_replay(one.replay.take(rows)), default=None)


def compare_replays(
    best: Replay, other: Replay, items: Int64s, rng: np.random.Generator, *, compare_costs: bool = True
) -> AdviceVerdict:
    """Return whether a kind is significantly worse than the best, by a paired bootstrap on holdout rows.

    A kind is worse if its accuracy is lower by more than ``MAX_ACCURACY_LOSS``. With ``compare_costs``, it is also
    worse if it is more expensive.
    """
    more_expensive = compare_costs and estimate_mean_interval(other.costs - best.costs, items, rng)[0] > 0
    less_accurate = estimate_mean_interval(best.right - other.right, items, rng)[0] > MAX_ACCURACY_LOSS
    return "worse" if more_expensive or less_accurate else "similar"
