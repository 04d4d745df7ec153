"""The time of day, in the one form that records use."""

from datetime import UTC, datetime


def now() -> str:
    """Give the time, UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
