"""Budgets: amounts and percentages; bounds of the limits of runs."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from models.errors import InvalidRequest
from models.limits import Budget
from models.run import MAX_ITEMS, RunRequest


@pytest.mark.parametrize("budget", ["130%", "-3%", "x%", "1.0000001%", "30%%", f"{'9' * 5000}%"])
def test_a_percentage_outside_of_its_bounds_is_shown_with_them(budget: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(Budget).validate_python(budget)
    message = str(InvalidRequest.from_validation(refused.value))
    assert all(part in message for part in ("0%", "100%", budget[:20]))
    assert len(message) < 200


@pytest.mark.parametrize("budget", ["0%", "30%", "99.999999%", "100.0%"])
def test_a_percentage_within_its_bounds_is_kept(budget: str) -> None:
    assert TypeAdapter(Budget).validate_python(budget) == budget


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"items": [{"item": 1}]}, True),
        ({"items": []}, False),
        ({"items": [{"item": 1}] * MAX_ITEMS}, True),
        ({"items": [{"item": 1}] * (MAX_ITEMS + 1)}, False),
        ({"item": 1, "min_accuracy": 1.0, "min_coverage": 0.0}, True),
        ({"item": 1, "min_accuracy": 1.001}, False),
        ({"item": 1, "min_coverage": -0.001}, False),
        ({"item": 1, "items": [{"item": 1}]}, False),
        ({}, False),
    ],
)
def test_limits_of_runs_are_kept_up_to_their_bounds(body: dict[str, Any], is_valid: bool) -> None:
    try:
        RunRequest.model_validate(body)
    except ValidationError:
        assert not is_valid
    else:
        assert is_valid
