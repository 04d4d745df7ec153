"""Units of time, and the times that a spec declares in one of them."""

from collections.abc import Mapping

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "millisecond": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
}


def seconds_in(unit: str) -> float | None:
    """Return the seconds of a unit of time; None for any other unit.

    >>> seconds_in("ms"), seconds_in("Seconds"), seconds_in("USD")
    (0.001, 1.0, None)
    """
    word = unit.strip().lower()
    return _SECONDS.get(word, _SECONDS.get(word.removesuffix("s")) if len(word) > 3 else None)


def unit_of_times(unit: str, time_unit: str | None) -> str | None:
    """Return the unit of a spec's times: its time unit, else that of costs; None if that is not one of time.

    >>> unit_of_times("ms", None), unit_of_times("USD", "s"), unit_of_times("USD", None)
    ('ms', 's', None)
    """
    return time_unit or (unit if seconds_in(unit) is not None else None)


def refuse_other_times(times: Mapping[str, float | None], unit: str, time_unit: str | None) -> None:
    """Raise ValueError where only some times of a spec are given, or their unit is missing or not one of time."""
    timed = [name for name, time in times.items() if time is not None]
    untold = [name for name, time in times.items() if time is None]
    if timed and untold:
        raise ValueError(f"{timed[0]!r} has a time and {untold[0]!r} has none: give a time for all, or for none")
    if time_unit is not None and not timed:
        raise ValueError(f"time_unit is {time_unit!r}, but no time is given")
    if time_unit is not None and seconds_in(time_unit) is None:
        raise ValueError(f"time_unit must be a unit of time, got {time_unit!r}")
    if timed and unit_of_times(unit, time_unit) is None:
        raise ValueError(f"{timed[0]!r} has a time, but the unit {unit!r} is not one of time: set time_unit")
