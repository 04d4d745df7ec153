"""Costs of calls and assignments in the store: one hash per day."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, fields
from datetime import date, timedelta
from typing import Any

from app.store.client import Store, make_store_key
from models.spend import SpendAmounts, SpendKey

RETENTION_DAYS = 400
"""How long a day is kept."""
ADDED_TTL_S = 3600
"""How long the store remembers an addition, in seconds: longer than servers repeat it."""
_NAMES = tuple(one.name for one in fields(SpendAmounts))
_ADD = """
if not redis.call('SET', KEYS[1], '', 'NX', 'EX', ARGV[1]) then
    return {}
end
local place = 3
for i = 2, #KEYS do
    for _ = 1, tonumber(ARGV[place]) do
        redis.call('HINCRBYFLOAT', KEYS[i], ARGV[place + 1], ARGV[place + 2])
        place = place + 2
    end
    place = place + 1
    redis.call('EXPIRE', KEYS[i], ARGV[2])
end
return {}
"""
"""Adds to the fields of days, once by the id of the addition."""


class Spending:
    """Repository of the costs of calls."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add_spend(self, addition: str, spend: Mapping[SpendKey, SpendAmounts]) -> None:
        """Add costs; idempotent by the id of the addition."""
        days: dict[str, list[Any]] = {}
        for key, amounts in spend.items():
            added = days.setdefault(key.day, [])
            for name, amount in zip(_NAMES, astuple(amounts), strict=True):
                if amount:
                    added += [_field(key, name), repr(amount)]
        arguments: list[Any] = [ADDED_TTL_S, RETENTION_DAYS * 24 * 3600]
        for added in days.values():
            arguments += [len(added) // 2, *added]
        keys = [make_store_key("spend-added", addition), *(make_store_key("spend", day) for day in days)]
        self._store.run(_ADD, keys, arguments)

    def read_spend(self, start: date, end: date) -> dict[SpendKey, SpendAmounts]:
        """Return the costs from one day to another."""
        days = [(start + timedelta(days=i)).isoformat() for i in range((end - start).days + 1)]
        with self._store.open_pipeline() as pipe:
            for day in days:
                pipe.hgetall(make_store_key("spend", day))
            hashes: list[dict[bytes, bytes]] = pipe.execute()
        spend: dict[SpendKey, SpendAmounts] = {}
        for day, one in zip(days, hashes, strict=True):
            for name, amount in one.items():
                with suppress(ValueError, TypeError):  # in the format of another version of the service
                    *parts, measure = json.loads(name)
                    key, number = SpendKey(day, *parts), float(amount)
                    added: dict[str, Any] = {measure: number if measure.endswith("cost") else int(number)}
                    spend[key] = spend.get(key, SpendAmounts()) + SpendAmounts(**added)
        return spend


def _field(key: SpendKey, measure: str) -> str:
    planned = [True] if key.is_planned else []
    return json.dumps([key.key, key.team, key.artifact, key.model, key.unit, *planned, measure])
