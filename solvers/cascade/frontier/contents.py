"""What a plan keeps of its frontier, and what the arrays promise each other."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import InvalidRequest
from models.arrays import Amounts, Floats, Int32s, Int64s, Probabilities, Thresholds

MAX_POINTS = 10_000
"""Points that a plan may have; some hundred are found."""


def _empty_array() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FrontierContents:
    """p points, which are cascades with their thresholds, by rising cost on the build half; p = 0: built by an older
    version. They call any of n classifiers, r times together."""

    point_names: tuple[str, ...] = ()
    """n different names."""
    point_times: Amounts = field(default_factory=_empty_array)
    """(n,) the time, or cost, that each classifier takes on average."""
    point_worst_times: Amounts = field(default_factory=_empty_array)
    """(n,) the time that each takes at most."""
    point_offsets: Int64s = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(p + 1,) cuts the three that follow into points."""
    point_members: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(r,) the classifiers in calling order, as places in ``point_names``."""
    point_thresholds: Thresholds = field(default_factory=_empty_array)
    """(r,) the confidence from which on an answer is accepted, NaN where every answer is."""
    point_reaching: Probabilities = field(default_factory=_empty_array)
    """(r,) how likely it is that the call is made."""
    point_maxima: Amounts = field(default_factory=_empty_array)
    """(p,) how long each takes at most."""
    point_expected: Amounts = field(default_factory=_empty_array)
    """(p,) what it costs on average on the build half."""
    point_learned_accuracies: Probabilities = field(default_factory=_empty_array)
    """(p,) the share of the build half that it answers rightly, less a charge for each further classifier."""
    point_costs: Amounts = field(default_factory=_empty_array)
    """(p,) what it costs on average on held-out rows."""
    point_cost_errors: Amounts = field(default_factory=_empty_array)
    """(p,) the standard errors of these."""
    point_accuracies: Probabilities = field(default_factory=_empty_array)
    """(p,) the share of held-out rows that it answers rightly."""
    point_accuracy_errors: Probabilities = field(default_factory=_empty_array)
    """(p,) the standard errors of these."""

    def _point_arrays(self) -> list[NDArray[Any]]:
        every = [getattr(self, each.name) for each in fields(FrontierContents)]
        return [each for each in every if isinstance(each, np.ndarray)]

    def check_frontier(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other: a plan may come from anybody's bytes."""
        if any(array.ndim != 1 for array in self._point_arrays()):
            raise InvalidRequest("this is no frontier of cascades: its arrays must have one dimension")
        n, p, r = len(self.point_names), len(self.point_maxima), len(self.point_members)
        of_points = (
            *(self.point_maxima, self.point_expected, self.point_costs),
            *(self.point_cost_errors, self.point_accuracies, self.point_accuracy_errors, self.point_learned_accuracies),
        )
        of_classifiers = self.point_times, self.point_worst_times
        ends = self.point_offsets
        promises = {
            "different names": len(set(self.point_names)) == n,
            "times of each name": all(each.shape == (n,) for each in of_classifiers),
            "figures of each point": all(each.shape == (p,) for each in of_points),
            f"at most {MAX_POINTS} points": p <= MAX_POINTS,
            "offsets that cut the members into points": ends.shape == (p + 1,)
            and ends.dtype == np.int64
            and int(ends[0]) == 0
            and int(ends[-1]) == r
            and bool((ends[1:] > ends[:-1]).all()),
            "members that are names": self.point_members.dtype == np.int32
            and self.point_members.shape == self.point_thresholds.shape == self.point_reaching.shape == (r,)
            and bool(((self.point_members >= 0) & (self.point_members < n)).all()),
        }
        broken = [promise for promise, kept in promises.items() if not kept]
        if broken:
            raise InvalidRequest(f"this is no frontier of cascades: it lacks {', '.join(broken)}")
