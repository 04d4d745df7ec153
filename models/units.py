"""Units of time, by the words that people write, and the times that a spec tells in one of them."""

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
    """Say how many seconds a unit of time has; None for what is no unit of time.

    >>> seconds_in("ms"), seconds_in("Seconds"), seconds_in("USD")
    (0.001, 1.0, None)
    """
    word = unit.strip().lower()
    return _SECONDS.get(word, _SECONDS.get(word.removesuffix("s")) if len(word) > 3 else None)


def unit_of_times(unit: str, time_unit: str | None) -> str | None:
    """Say in which unit a spec's times are: the one it names for them, else that of costs; None if this is none.

    >>> unit_of_times("ms", None), unit_of_times("USD", "s"), unit_of_times("USD", None)
    ('ms', 's', None)
    """
    return time_unit or (unit if seconds_in(unit) is not None else None)


def refuse_other_times(times: Mapping[str, float | None], unit: str, time_unit: str | None) -> None:
    """Raise ValueError where some of a spec's times, by name, are told and others not, or in a unit that is none of
    time, or where a unit is named and no time is told."""
    timed = [name for name, time in times.items() if time is not None]
    untold = [name for name, time in times.items() if time is None]
    if timed and untold:
        raise ValueError(f"{timed[0]!r} tells a time and {untold[0]!r} none: all need one, or none")
    if time_unit is not None and not timed:
        raise ValueError(f"time_unit is {time_unit!r}, and no time is told")
    if time_unit is not None and seconds_in(time_unit) is None:
        raise ValueError(f"time_unit is {time_unit!r}, which is no unit of time")
    if timed and unit_of_times(unit, time_unit) is None:
        raise ValueError(f"{timed[0]!r} tells a time, and the unit, {unit!r}, is none of time: give time_unit")
