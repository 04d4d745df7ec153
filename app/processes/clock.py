"""The time of day, in the one form that records use."""

import time
from datetime import UTC, datetime


def current_time() -> str:
    """Give the time, UTC, ISO 8601 to the millisecond."""
    return time_of_day(time.time())


def time_of_day(seconds: float) -> str:
    """Write seconds since 1970 as a time of day.

    >>> time_of_day(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(start: str, end: str) -> float:
    """Give the time between two times of day, in seconds; 0 if the clock went back meanwhile.

    >>> seconds_between("2026-01-01T00:00:00.500Z", "2026-01-01T00:01:00.000Z")
    59.5
    """
    return max((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 0.0)
