"""Maximum times of sensors and of sets, with parallel fetches.

A *fetch* returns one sensor or several. Fetches of an item are sequential. The sensors of one fetch are acquired in
parallel. So the time of a set is the sum, over its fetches, of the longest time in each fetch, and of the times of the
set-up groups that it touches. Its cost is the sum of all costs.
"""

from collections.abc import Sequence

import numpy as np

from models import Fault, FeatureTable, InvalidRequest, Trace
from models.arrays import Bools, Floats, Int32s
from models.columns import find_duplicate_name
from models.units import get_time_unit
from solvers.setup_groups import NO_GROUPS, SetupGroups

FetchGroups = Sequence[Sequence[str]]
"""Names of sensors that are fetched together."""


def assign_fetches(sensors: Sequence[str], parallel: FetchGroups) -> Int32s:
    """Return the fetch of each sensor, (M,).

    Fetches are numbered from 0, in the order of their first sensors.

    Raises:
        InvalidRequest: a sensor is unknown or fetched twice.

    >>> assign_fetches(["a", "b", "c"], [["c", "a"]]).tolist()
    [0, 1, 0]
    """
    every = [name for each in parallel for name in each]
    unknown = [name for name in every if name not in sensors]
    if unknown:
        reason = f"contains unknown sensor {unknown[0]!r}; available: {', '.join(sensors)}"
        raise InvalidRequest.from_faults(Fault(("parallel",), reason))
    repeated = find_duplicate_name(every)
    if repeated is not None:
        raise InvalidRequest.from_faults(Fault(("parallel",), f"contains {repeated!r} twice; fetch each sensor once"))
    brings = {name: at for at, each in enumerate(parallel) for name in each}
    numbers: dict[object, int] = {}
    fetched = [numbers.setdefault(brings.get(name, name), len(numbers)) for name in sensors]
    return np.array(fetched, dtype=np.int32)


def group_by_fetch(fetches: Int32s) -> list[frozenset[int]]:
    """Return the sensors of each fetch.

    >>> group_by_fetch(np.array([0, 1, 0], dtype=np.int32))
    [frozenset({0, 2}), frozenset({1})]
    """
    return [frozenset(np.flatnonzero(fetches == each).tolist()) for each in range(int(fetches.max()) + 1)]


def compute_worst_case_times(dataset: FeatureTable | Trace, costs: Floats, quantile: float) -> tuple[Floats, str]:
    """Return the maximum time of each sensor and set-up group, (M + G,), and its unit; (0,) and "" if unknown.

    Times are those of the spec or, if costs are times, a quantile of the costs, (n, M + G).
    """
    spec = dataset.spec
    sensor_times = [each.time for each in spec.cost_specs]
    unit = get_time_unit(spec.unit, spec.time_unit)
    if unit is None:
        return np.empty(0), ""
    times = np.array([time for time in sensor_times if time is not None], dtype=np.float64)
    return (times if len(times) else np.quantile(costs, quantile, axis=0, method="higher")), unit


def compute_set_times(members: Bools, times: Floats, fetches: Int32s, groups: SetupGroups = NO_GROUPS) -> Floats:
    """Return the maximum time of sets of sensors, (S, M): (S,); 0 if times are unknown.

    Sensors that are fetched together run at the same time; set-ups run one after the other.

    Args:
        times: (M + G,), of sensors and of set-up groups.

    >>> members, fetches = np.array([[True, True, True]]), np.array([0, 1, 0], np.int32)
    >>> compute_set_times(members, np.array([2.0, 3.0, 5.0]), fetches).tolist()
    [8.0]
    """
    longest = np.zeros((len(members), int(fetches.max()) + 1))
    if len(times):
        np.maximum.at(longest.T, fetches, (members * times[: len(fetches)]).T)
    if not len(groups) or not len(times):
        return np.asarray(longest.sum(axis=1))
    touched = groups.append_groups(members)[:, len(fetches) :]
    return np.asarray(longest.sum(axis=1) + touched @ times[len(fetches) :])
