"""Conversion of a run's deadline to a time limit in seconds, which the executor and the caller of endpoints keep."""

from models import Fault, InvalidRequest
from models.run import RunLimits
from parsimony.units import seconds_per_unit


def get_time_limit(limits: RunLimits, unit: str) -> float:
    """Return the time limit of a run in seconds.

    Raises InvalidRequest for a deadline if the unit is not a unit of time.
    """
    if limits.deadline is None:
        return limits.timeout_s
    unit_s = seconds_per_unit(unit)
    if unit_s is None:
        fault = f"requires a unit of time, got {limits.deadline:g} {unit}: set timeout_s, in seconds"
        raise InvalidRequest.from_faults(Fault(("deadline",), fault))
    return min(limits.timeout_s, limits.deadline * unit_s)
