"""Units of time, by the words that people write."""

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
