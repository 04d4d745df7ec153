"""Accounts of budgets: reserve an item's planned maximum, then settle its actual use.

Each bound of a budget has an account: the amount spent in the current period, and the reservations of items in flight.
One script reserves in all accounts of an item, or in none. So limits hold with any number of servers. A reservation is
a lease: if its server dies, it expires. Settling is idempotent by the reservation's id, even after the lease has ended
or the store has lost the reservation. Periods use the store's clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Literal

from app.store.budget_scripts import READ_SCRIPT, RENEW_SCRIPT, RESERVE_SCRIPT, SETTLE_SCRIPT
from app.store.budgets import StoredBudget
from app.store.client import Store, make_store_key
from models.budget import BudgetSpec, Quantity

LEASE_S = 60.0
"""A reservation that is not renewed for so long ends, in seconds."""
SETTLED_TTL_S = 3600
"""How long the store remembers that a reservation was settled, in seconds: longer than servers repeat it."""
ACCOUNT_TTL_S = 24 * 3600
"""An account expires this time after its period, in seconds."""
PACING_ADVANCE_SHARE = 0.1
"""Share of a paced amount that may be spent from the start of its period."""
ROUNDING = 1e-9
"""Share of an amount by which sums of costs may exceed it."""
Rule = Literal["cheapest", "refuse", "alert"]
Outcome = Literal["reserved", "cheapest", "refused"]


@dataclass(frozen=True, slots=True)
class BudgetAccount:
    """The account of one bound of a budget.

    Attributes:
        amount: upper bound for a period.
        period: minute, hour, day, month, or total.
    """

    budget: StoredBudget
    quantity: Quantity
    amount: float
    period: str

    @property
    def spec(self) -> BudgetSpec:
        """The budget."""
        return self.budget.spec

    @property
    def rule(self) -> Rule:
        """What happens when the amount is spent.

        Limits per minute always reject items, unless the rule is ``alert``.
        """
        is_cost = self.quantity == "cost"
        return self.spec.when_spent if is_cost or self.spec.when_spent == "alert" else "refuse"

    @property
    def unit(self) -> str:
        """The unit of the amount."""
        return self.spec.unit if self.quantity == "cost" else self.quantity

    @property
    def is_paced(self) -> bool:
        """Whether the amount is released evenly over its period."""
        return self.spec.is_paced and self.quantity == "cost"

    def released_amount(self, state: "AccountState", now: float) -> float:
        """Return the part of the amount that may be spent by a time, in seconds since 1970."""
        if not self.is_paced:
            return self.amount
        lengths = {"hour": 3600.0, "day": 86400.0, "month": _month_seconds(state.finish)}
        return self.amount * min(1.0, PACING_ADVANCE_SHARE + 1.0 - max(state.finish - now, 0.0) / lengths[self.period])

    def item_budget(self, state: "AccountState", items: int) -> float:
        """Return the remaining amount per item expected in the rest of the period.

        It is used for planning; inf means no limit.

        Args:
            items: number of items to plan; at least this many are expected.
        """
        if not self.is_paced or self.rule == "alert":
            return inf
        return max(self.amount - state.spent, 0.0) / max(state.expected, items)

    def free_amount(self, state: "AccountState", now: float) -> float:
        """Return the released amount that is neither spent nor reserved at a time, in seconds since 1970."""
        return self.released_amount(state, now) - state.spent - state.held

    def plannable_amount(self, state: "AccountState", items: int, now: float) -> float:
        """Return the amount that may be planned for items by a time, in seconds since 1970."""
        return min(self.free_amount(state, now), self.item_budget(state, items) * items)

    @property
    def keys(self) -> list[str]:
        """Keys in the store: the account, its leases, and their amounts."""
        base = ("budget", self.budget.account, self.quantity)
        return [make_store_key(*base), make_store_key(*base, "leases"), make_store_key(*base, "amounts")]


@dataclass(frozen=True, slots=True)
class AccountState:
    """State of an account in its period.

    Attributes:
        spent: amount of the settled items.
        held: amount reserved by items in flight.
        finish: end of the period, in seconds since 1970; inf if it never ends.
        expected: number of items expected in the rest of the period, by the rate of recent items; 0 if unknown.
    """

    spent: float
    held: float
    finish: float
    expected: float = 0.0


@dataclass(frozen=True, slots=True)
class AccountUse:
    """The use of an account by an item.

    Attributes:
        full: maximum use.
        least: maximum use with the cheapest classifier only; None if the item needs all its calls.
    """

    account: BudgetAccount
    full: float
    least: float | None

    @property
    def rule(self) -> Rule:
        """The rule that applies when the account is spent.

        An item that needs all its calls is rejected.
        """
        is_refused = self.account.rule == "cheapest" and self.least is None
        return "refuse" if is_refused else self.account.rule


@dataclass(frozen=True, slots=True)
class ReservationOutcome:
    """Outcome of a reservation, and the state of each account after it.

    Attributes:
        refused: index of the account that rejected the item; None if none did.
    """

    outcome: Outcome
    states: tuple[AccountState, ...]
    refused: int | None = None


class BudgetAccounts:
    """Repository of the accounts of budgets.

    Args:
        clock: returns the time in seconds since 1970; None for the store's clock.
    """

    def __init__(self, store: Store, clock: Callable[[], float] | None = None) -> None:
        self._store, self._clock = store, clock

    def reserve_amounts(self, reservation: str, uses: Sequence[AccountUse]) -> ReservationOutcome:
        """Reserve the item's use in all accounts, or in none.

        Idempotent by the reservation's id.
        """
        arguments: list[Any] = [self._now(), reservation, LEASE_S, ROUNDING, ACCOUNT_TTL_S]
        for use in uses:
            least = use.full if use.least is None else use.least
            advance = PACING_ADVANCE_SHARE if use.account.is_paced else ""
            arguments += [use.account.amount, use.account.period, use.rule, use.full, least, advance]
        reply = self._run(RESERVE_SCRIPT, _keys(reservation, [use.account for use in uses]), arguments)
        code, states = int(reply[0]), _read_states(reply[1:])
        if code < 0:
            return ReservationOutcome("refused", states, -code - 1)
        return ReservationOutcome("cheapest" if code else "reserved", states)

    def settle_use(
        self, reservation: str, used: Sequence[tuple[BudgetAccount, float]], items: int
    ) -> tuple[bool, tuple[AccountState, ...]]:
        """End a reservation, and add the item's actual use.

        Idempotent by the reservation's id. The rest of the reservation is released. This also works for reservations
        that have expired or that the store has lost.

        Args:
            items: number of items that this use is for.
        Returns:
            Whether the reservation was not settled before, and the state of each account.
        """
        arguments: list[Any] = [self._now(), reservation, SETTLED_TTL_S, ACCOUNT_TTL_S, items]
        for account, amount in used:
            arguments += [account.period, amount]
        reply = self._run(SETTLE_SCRIPT, _keys(reservation, [account for account, _ in used]), arguments)
        return bool(int(reply[0])), _read_states(reply[1:])

    def renew_leases(self, account: BudgetAccount, reservations: Sequence[str]) -> None:
        """Renew the leases of an account's reservations."""
        self._run(RENEW_SCRIPT, [account.keys[1]], [self._now(), LEASE_S, *reservations])

    def list_states(self, accounts: Sequence[BudgetAccount]) -> tuple[AccountState, ...]:
        """Return the state of each account."""
        keys = [key for account in accounts for key in account.keys]
        return _read_states(self._run(READ_SCRIPT, keys, [self._now(), *(account.period for account in accounts)]))

    def delete(self, accounts: Sequence[BudgetAccount]) -> None:
        """Delete accounts with their reservations."""
        self._store.execute("delete", *(key for account in accounts for key in account.keys))

    def _now(self) -> str:
        return "" if self._clock is None else repr(self._clock())

    def _run(self, script: str, keys: list[str], arguments: list[Any]) -> list[Any]:
        texts = [one if isinstance(one, str) else repr(one) for one in arguments]
        return self._store.run(script, keys, texts)


def list_accounts(budget: StoredBudget) -> tuple[BudgetAccount, ...]:
    """Return the accounts of a budget, one for each of its bounds."""
    spec = budget.spec
    bounds: tuple[tuple[Quantity, float | None, str], ...] = (
        ("cost", spec.amount, spec.period),
        ("requests", spec.requests_per_minute, "minute"),
        ("tokens", spec.tokens_per_minute, "minute"),
    )
    return tuple(
        BudgetAccount(budget, quantity, float(amount), period)
        for quantity, amount, period in bounds
        if amount is not None
    )


def _month_seconds(finish: float) -> float:
    """Return the length of the month that ends at a time, in seconds since 1970."""
    if finish == inf:
        return inf
    start = (datetime.fromtimestamp(finish, UTC) - timedelta(days=1)).replace(day=1)
    return finish - start.timestamp()


def _keys(reservation: str, accounts: Sequence[BudgetAccount]) -> list[str]:
    return [make_store_key("settled", reservation), *(key for account in accounts for key in account.keys)]


def _read_states(reply: Sequence[Any]) -> tuple[AccountState, ...]:
    numbers = [float(one) for one in reply]
    rows = zip(numbers[::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True)
    return tuple(AccountState(spent, held, finish or inf, expected) for spent, held, finish, expected in rows)
