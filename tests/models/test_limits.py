"""Budgets: amounts and percentages."""

import pytest
from pydantic import TypeAdapter, ValidationError

from models.errors import InvalidRequest
from models.limits import Budget


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
