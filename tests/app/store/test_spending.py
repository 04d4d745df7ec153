"""What calls have cost is added once, by day and group, in a real store."""

from datetime import date
from typing import Any

import pytest

from app.store.client import Store
from app.store.spending import RETENTION_DAYS, Spending
from models.spend import SpendAmounts, SpendKey, group_spend

DAY = "2024-02-29"


def key_of(**fields: Any) -> SpendKey:
    return SpendKey(
        **{"day": DAY, "key": "k", "team": "t", "artifact": "cascade/c", "model": "m", "unit": "USD", **fields}
    )


def test_an_addition_counts_once_and_days_expire(store: Store) -> None:
    spending = Spending(store)
    first, second = key_of(), key_of(day="2024-03-01", model='odd "name": |')
    planned = key_of(is_planned=True)
    added = {
        first: SpendAmounts(2, 0.25, 10, 4, 3.0),
        second: SpendAmounts(1, 0.5),
        planned: SpendAmounts(7, 0.125, 0, 0, 2.0),
    }
    for addition in ("a", "a", "b"):
        spending.add_spend(addition, added)
    read = spending.read_spend(date(2024, 2, 28), date(2024, 3, 2))
    assert read == {
        first: SpendAmounts(4, 0.5, 20, 8, 6.0),
        second: SpendAmounts(2, 1.0),
        planned: SpendAmounts(14, 0.25, 0, 0, 4.0),
    }
    assert spending.read_spend(date(2024, 3, 1), date(2024, 3, 1)).keys() == {second}
    assert store.client.ttl(f"parsimony:spend:{DAY}") == pytest.approx(RETENTION_DAYS * 86400, abs=10)


def test_groups_are_added_up_by_unit() -> None:
    one = SpendAmounts(1, 2.0, 3, 4, 5.0)
    keys: list[dict[str, Any]] = [
        {},
        {"model": "n"},
        {"unit": "ms"},
        {"team": "u", "key": "l"},
        {"is_planned": True},
    ]
    spend = {key_of(**fields): one for fields in keys}
    rows = group_spend(spend, ("team",))
    assert [(row.team, row.unit, row.is_planned, row.calls, row.cost, row.strongest_cost) for row in rows] == [
        ("t", "USD", False, 2, 4.0, 10.0),
        ("t", "USD", True, 1, 2.0, 5.0),
        ("t", "ms", False, 1, 2.0, 5.0),
        ("u", "USD", False, 1, 2.0, 5.0),
    ]
    assert {row.day for row in rows} == {None}
    assert [(row.unit, row.input_tokens, row.output_tokens) for row in group_spend(spend, ())] == [
        ("USD", 9, 12),
        ("USD", 3, 4),
        ("ms", 3, 4),
    ]
