"""Units of time, as artifacts and datasets name them."""

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


def seconds_per_unit(unit: str) -> float | None:
    """Return the seconds of a unit of time; None for any other unit.

    >>> seconds_per_unit("ms"), seconds_per_unit("Seconds"), seconds_per_unit("USD")
    (0.001, 1.0, None)
    """
    word = unit.strip().lower()
    return _SECONDS.get(word, _SECONDS.get(word.removesuffix("s")) if len(word) > 3 else None)
