"""Budgets in the store: one hash, which every server reads as a whole."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from app.store.client import Store
from app.store.counted_hash import CountedHash
from models.base import Name, Value
from models.budget import BudgetSpec
from models.errors import UnknownBudget

MAX_BUDGETS = 10_000


class _Record(Value):
    account: str
    budget: BudgetSpec


@dataclass(frozen=True, slots=True)
class StoredBudget:
    """A budget with its name, and the id of the account that counts its spending."""

    name: Name
    account: str
    spec: BudgetSpec


class Budgets:
    """Repository of budgets."""

    def __init__(self, store: Store) -> None:
        self._records = CountedHash(store, "budgets", MAX_BUDGETS, _parse_all)

    def put(self, name: str, spec: BudgetSpec) -> bool:
        """Store a budget, and return whether the name is new; raises PayloadTooLarge.

        A budget keeps its spent amount, unless its scope, target, or unit changes.
        """

        def make_text(text: bytes | None) -> str:
            before = _parse_record(text)
            account = uuid4().hex if before is None or spec.account_changes(before.budget) else before.account
            return _Record(account=account, budget=spec).model_dump_json()

        return self._records.put(name, make_text)

    def delete(self, name: str) -> None:
        """Delete a budget and its spent amount; raises UnknownBudget."""
        if not self._records.delete(name):
            raise UnknownBudget(f"budget {name!r} not found")

    def get_all(self) -> tuple[StoredBudget, ...]:
        """Return all readable budgets, by name.

        If the store has lost all budgets, the budgets of the last read are returned.
        """
        return self._records.get_all()

    def get(self, name: str) -> StoredBudget:
        """Return a budget; raises UnknownBudget."""
        record = _parse_record(self._records.get_text(name))
        if record is None:
            raise UnknownBudget(f"budget {name!r} not found")
        return StoredBudget(name, record.account, record.budget)


def _parse_all(texts: Mapping[str, str]) -> tuple[StoredBudget, ...]:
    records = ((name, _parse_record(text.encode())) for name, text in sorted(texts.items()))
    return tuple(StoredBudget(name, one.account, one.budget) for name, one in records if one is not None)


def _parse_record(text: bytes | None) -> _Record | None:
    """Parse a record; return None for none, or for another version's format."""
    with suppress(ValueError):
        return None if text is None else _Record.model_validate_json(text)
    return None
