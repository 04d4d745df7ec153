"""Units of time."""

from collections.abc import Mapping

from parsimony.units import seconds_per_unit


def get_time_unit(unit: str, time_unit: str | None) -> str | None:
    """Return the unit of a spec's times; None if it is not a unit of time.

    It is the declared time unit, else the unit of costs.

    >>> get_time_unit("ms", None), get_time_unit("USD", "s"), get_time_unit("USD", None)
    ('ms', 's', None)
    """
    return time_unit or (unit if seconds_per_unit(unit) is not None else None)


def check_time_unit(times: Mapping[str, float | None], unit: str, time_unit: str | None) -> None:
    """Raise ValueError if times are incomplete, or lack a unit of time."""
    timed = [name for name, time in times.items() if time is not None]
    untold = [name for name, time in times.items() if time is None]
    if timed and untold:
        raise ValueError(f"time must be set for all or none; {timed[0]!r} has one, {untold[0]!r} does not")
    if time_unit is not None and not timed:
        raise ValueError(f"time_unit requires a time, got {time_unit!r}")
    if time_unit is not None and seconds_per_unit(time_unit) is None:
        raise ValueError(f"time_unit must be a unit of time, got {time_unit!r}")
    if timed and get_time_unit(unit, time_unit) is None:
        raise ValueError(f"time_unit is required: {timed[0]!r} has a time, and the unit {unit!r} is not a unit of time")
