"""Fields of the frontier in a cascade plan, and their invariants."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import InvalidRequest
from models.arrays import Amounts, Floats, Int32s, Int64s, Probabilities, Thresholds
from solvers.shared_setup import SetupContents

MAX_POINTS = 10_000
"""Maximum number of points of a plan; a fit finds some hundreds."""


def _empty_array() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FrontierContents(SetupContents):
    """p operating points: cascades with thresholds, by rising cost on the build half.

    Plans of older versions have no points (p = 0).

    The points have n classifiers and r calls in total.
    """

    point_names: tuple[str, ...] = ()
    """n different names."""
    point_times: Amounts = field(default_factory=_empty_array)
    """(n,) mean time, or cost, of each classifier alone, with its set-up groups."""
    point_worst_times: Amounts = field(default_factory=_empty_array)
    """(n,) worst-case time of each classifier alone."""
    point_offsets: Int64s = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(p + 1,) offsets of points in the next three arrays."""
    point_members: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(r,) classifiers in calling order, as indices of ``point_names``."""
    point_thresholds: Thresholds = field(default_factory=_empty_array)
    """(r,) accept thresholds, NaN where every answer is accepted."""
    point_labels: tuple[str, ...] = ()
    """L labels with thresholds of their own."""
    point_label_thresholds: Thresholds = field(default_factory=_empty_array)
    """(r L,) accept thresholds of each call by label, NaN where every answer is accepted."""
    point_reaching: Probabilities = field(default_factory=_empty_array)
    """(r,) probability that the call is made."""
    point_maxima: Amounts = field(default_factory=_empty_array)
    """(p,) maximum duration of each point."""
    point_expected: Amounts = field(default_factory=_empty_array)
    """(p,) mean cost on the build half."""
    point_learned_accuracies: Probabilities = field(default_factory=_empty_array)
    """(p,) accuracy on the build half, minus a penalty for each further classifier."""
    point_costs: Amounts = field(default_factory=_empty_array)
    """(p,) mean cost on holdout rows."""
    point_cost_errors: Amounts = field(default_factory=_empty_array)
    """(p,) standard errors of ``point_costs``."""
    point_accuracies: Probabilities = field(default_factory=_empty_array)
    """(p,) accuracy on holdout rows."""
    point_accuracy_errors: Probabilities = field(default_factory=_empty_array)
    """(p,) standard errors of ``point_accuracies``."""

    def _point_arrays(self) -> list[NDArray[Any]]:
        every = [getattr(self, each.name) for each in fields(FrontierContents)]
        return [each for each in every if isinstance(each, np.ndarray)]

    def check_frontier(self) -> None:
        """Raise InvalidRequest for inconsistent arrays, because plans may come from untrusted bytes."""
        if any(array.ndim != 1 for array in self._point_arrays()):
            raise InvalidRequest("not a valid frontier of cascades: arrays must have one dimension")
        n, p, r = len(self.point_names), len(self.point_maxima), len(self.point_members)
        of_points = (
            *(self.point_maxima, self.point_expected, self.point_costs),
            *(self.point_cost_errors, self.point_accuracies, self.point_accuracy_errors, self.point_learned_accuracies),
        )
        of_classifiers = self.point_times, self.point_worst_times
        ends = self.point_offsets
        invariants = {
            "different names": len(set(self.point_names)) == n,
            "different labels with a threshold of each call": len(set(self.point_labels)) == len(self.point_labels)
            and self.point_label_thresholds.shape == (r * len(self.point_labels),),
            "times of each name": all(each.shape == (n,) for each in of_classifiers),
            "results of each point": all(each.shape == (p,) for each in of_points),
            f"at most {MAX_POINTS} points": p <= MAX_POINTS,
            "offsets that cut the members into points": ends.shape == (p + 1,)
            and ends.dtype == np.int64
            and int(ends[0]) == 0
            and int(ends[-1]) == r
            and bool((ends[1:] > ends[:-1]).all()),
            "valid members": self.point_members.dtype == np.int32
            and self.point_members.shape == self.point_thresholds.shape == self.point_reaching.shape == (r,)
            and bool(((self.point_members >= 0) & (self.point_members < n)).all()),
        }
        broken = [name for name, kept in invariants.items() if not kept]
        if broken:
            raise InvalidRequest(f"not a valid frontier of cascades; missing: {', '.join(broken)}")
