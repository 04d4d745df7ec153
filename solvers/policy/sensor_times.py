"""How long sensors take at most, and sets of them, where some sensors are fetched together.

A *fetch* brings one sensor or several. The fetches of an item come one after the other; what one brings comes at the
same time. So a set takes the sum over its fetches of the longest of each, and costs the sum of all.
"""

from collections.abc import Sequence

import numpy as np

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest, Trace
from models.arrays import Bools, Floats, Int32s
from models.columns import first_repeated
from models.units import unit_of_times

FetchGroups = Sequence[Sequence[str]]
"""Lists of sensors that are fetched together, by name."""


def assign_fetches(sensors: Sequence[str], parallel: FetchGroups) -> Int32s:
    """Number the fetches, from 0, in the order of their first sensors: for each sensor the one that brings it, (M,).

    Raises InvalidRequest for a sensor that there is not, or that is fetched twice.

    >>> assign_fetches(["a", "b", "c"], [["c", "a"]]).tolist()
    [0, 1, 0]
    """
    every = [name for each in parallel for name in each]
    strangers = [name for name in every if name not in sensors]
    if strangers:
        asked = f"names {strangers[0]!r}, which is not among the sensors {', '.join(sensors)}"
        raise InvalidRequest.at(Fault(("parallel",), asked))
    repeated = first_repeated(every)
    if repeated is not None:
        raise InvalidRequest.at(Fault(("parallel",), f"names {repeated!r} twice: it can be fetched once"))
    brings = {name: at for at, each in enumerate(parallel) for name in each}
    numbers: dict[object, int] = {}
    fetched = [numbers.setdefault(brings.get(name, name), len(numbers)) for name in sensors]
    return np.array(fetched, dtype=np.int32)


def group_by_fetch(fetches: Int32s) -> list[frozenset[int]]:
    """List what each fetch brings.

    >>> group_by_fetch(np.array([0, 1, 0], dtype=np.int32))
    [frozenset({0, 2}), frozenset({1})]
    """
    return [frozenset(np.flatnonzero(fetches == each).tolist()) for each in range(int(fetches.max()) + 1)]


def worst_case_times(dataset: FeatureTable | Trace, costs: Floats, quantile: float) -> tuple[Floats, str]:
    """Tell how long sensors take at most, and in which unit: (M,) as the spec says or, where costs are times, a
    quantile of them, (n, M), over the rows; ``(0,)`` and no unit where neither is told."""
    spec = dataset.spec
    sensor_times = [each.time for each in (spec.features if isinstance(spec, FeaturesSpec) else spec.classifiers)]
    unit = unit_of_times(spec.unit, spec.time_unit)
    if unit is None:
        return np.empty(0), ""
    times = np.array([time for time in sensor_times if time is not None], dtype=np.float64)
    return (times if len(times) else np.quantile(costs, quantile, axis=0, method="higher")), unit


def compute_set_times(members: Bools, times: Floats, fetches: Int32s) -> Floats:
    """Tell how long sets of sensors, (S, M), take at most: (S,); 0 where times are not known.

    >>> members, fetches = np.array([[True, True, True]]), np.array([0, 1, 0], np.int32)
    >>> compute_set_times(members, np.array([2.0, 3.0, 5.0]), fetches).tolist()
    [8.0]
    """
    longest = np.zeros((len(members), int(fetches.max()) + 1))
    if len(times):
        np.maximum.at(longest.T, fetches, (members * times).T)
    return np.asarray(longest.sum(axis=1))
