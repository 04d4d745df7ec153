"""Timestamps in the format of records."""

import time
from datetime import UTC, datetime


def current_time() -> str:
    """Return the current time: UTC, ISO 8601, with milliseconds."""
    return time_of_day(time.time())


def time_of_day(seconds: float) -> str:
    """Format seconds since 1970 as a timestamp.

    >>> time_of_day(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(start: str, end: str) -> float:
    """Return the seconds between two timestamps; 0 if the second one is earlier.

    >>> seconds_between("2026-01-01T00:00:00.500Z", "2026-01-01T00:01:00.000Z")
    59.5
    """
    return max((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 0.0)
