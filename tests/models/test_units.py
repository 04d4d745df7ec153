"""Times that a spec tells of classifiers or features: all or none, in a unit of time."""

import pytest

from models.units import check_time_unit


@pytest.mark.parametrize(
    ("times", "unit", "time_unit"),
    [
        ({"a": None, "b": None}, "USD", None),
        ({"a": 1.0, "b": 0.0}, "ms", None),
        ({"a": 1.0, "b": 2.0}, "USD", "s"),
        ({}, "USD", None),
    ],
)
def test_times_of_all_or_of_none_are_taken(times: dict[str, float | None], unit: str, time_unit: str | None) -> None:
    check_time_unit(times, unit, time_unit)


@pytest.mark.parametrize(
    ("times", "unit", "time_unit", "said"),
    [
        ({"a": 1.0, "b": None}, "ms", None, "time must be set for all or none; 'a' has one, 'b' does not"),
        ({"a": None, "b": 0.0}, "USD", "s", "time must be set for all or none; 'b' has one, 'a' does not"),
        ({"a": None}, "ms", "s", "time_unit requires a time, got 's'"),
        ({}, "ms", "s", "time_unit requires a time, got 's'"),
        ({"a": 1.0}, "ms", "USD", "must be a unit of time, got 'USD'"),
        ({"a": 1.0}, "USD", None, "the unit 'USD' is not a unit of time"),
    ],
)
def test_times_that_say_too_little_are_refused(
    times: dict[str, float | None], unit: str, time_unit: str | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        check_time_unit(times, unit, time_unit)
