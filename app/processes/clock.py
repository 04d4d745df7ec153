"""Timestamps in the format of records."""

import time
from datetime import UTC, datetime

SECONDS_PER_DAY = 86_400


def current_timestamp() -> str:
    """Return the current time in UTC, ISO 8601, with milliseconds."""
    return format_timestamp(time.time())


def format_timestamp(seconds: float) -> str:
    """Format seconds since 1970 as a timestamp.

    >>> format_timestamp(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(start: str, end: str) -> float:
    """Return the seconds between two timestamps; 0 if the second one is earlier.

    >>> seconds_between("2026-01-01T00:00:00.500Z", "2026-01-01T00:01:00.000Z")
    59.5
    """
    return max((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 0.0)
