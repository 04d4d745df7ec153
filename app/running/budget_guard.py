"""Keeps items within budgets: reserves before calls, and settles after them.

Failed settlements are repeated.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar
from uuid import uuid4

from app.observability.metrics import Metrics
from app.running.budget_headers import format_reset, make_budget_headers
from app.running.planned_use import CallUse
from app.store.budget_accounts import (
    LEASE_S,
    AccountState,
    AccountUse,
    BudgetAccount,
    BudgetAccounts,
    ReservationOutcome,
    list_accounts,
)
from app.store.budgets import StoredBudget
from models import ArtifactRef
from models.budget import Payer, is_same_unit
from models.errors import BudgetSpent, SpentBound, StoreRefused, StoreUnavailable, TooManyRequests

logger = logging.getLogger("parsimony.budgets")
T = TypeVar("T")
BUDGET_TIMEOUT_S = 2.0
"""An item is refused if the store does not reserve within this time."""
SETTLEMENT_RETRY_S = 1.0
"""Pause between attempts to settle, in seconds."""
SETTLEMENT_TIMEOUT_S = 1800.0
"""How long a settlement is repeated, in seconds; less than the store remembers that it was made."""
MAX_UNSETTLED = 100_000
"""Settlements that wait for the store; a server that has so many refuses further items."""
_THREADS = 4


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reserved amounts of an item.

    Attributes:
        uses: use of each account.
        items: number of requests that the reservation is for.
        reason: the reason why only the cheapest classifier may be called; None if all may be called.
        item_budget: mean cost per item that paced budgets leave; inf for no limit.
        headers: headers of the reply.
    """

    id: str
    uses: tuple[AccountUse, ...]
    items: int
    reason: str | None
    headers: Mapping[str, str]
    item_budget: float = inf


@dataclass(frozen=True, slots=True)
class _Settlement:
    """A settlement that the store has not yet accepted."""

    id: str
    used: tuple[tuple[BudgetAccount, float], ...]
    items: int
    until: float


@dataclass(slots=True)
class BudgetGuard:
    """Reserves and settles the costs of items; use and close it on one event loop."""

    accounts: BudgetAccounts
    metrics: Metrics
    _followed: Sequence[StoredBudget] = ()
    _by_target: dict[tuple[str, str], list[BudgetAccount]] = field(default_factory=dict)
    _live: dict[str, tuple[BudgetAccount, ...]] = field(default_factory=dict)
    _unsettled: dict[str, _Settlement] = field(default_factory=dict)
    _settling: "set[asyncio.Task[Mapping[str, str]]]" = field(default_factory=set)
    _shares: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By account, what this process has planned to spend since the store is unavailable."""
    _noted: dict[str, float] = field(default_factory=dict)
    """By budget, the end of the period in which it was logged as spent."""
    _upkeep: "asyncio.Task[None] | None" = None
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS, "budgets"))

    def update_budgets(self, budgets: Sequence[StoredBudget]) -> None:
        """Replace the budgets."""
        if budgets is self._followed:
            return
        by_target: dict[tuple[str, str], list[BudgetAccount]] = {}
        for one in budgets:
            by_target.setdefault((one.spec.scope, one.spec.target), []).extend(list_accounts(one))
        for name in {one.name for one in self._followed} - {one.name for one in budgets}:
            self.metrics.remove_budget(name)
        self._by_target, self._followed = by_target, budgets

    def find_accounts(self, payer: Payer, artifact: ArtifactRef, unit: str) -> tuple[BudgetAccount, ...]:
        """Return the accounts that items of an artifact with this unit are charged to."""
        if not self._by_target:
            return ()
        targets = (("key", payer.key), ("team", payer.team), ("artifact", f"{artifact.kind}/{artifact.name}"))
        found = [one for target in targets for one in self._by_target.get(target, ())]
        return tuple(one for one in found if one.quantity != "cost" or is_same_unit(one.unit, unit))

    async def reserve_item(
        self, accounts: Iterable[BudgetAccount], full: CallUse, least: CallUse | None, *, items: int = 1
    ) -> Reservation:
        """Reserve the planned maximum of one or more items.

        Args:
            least: the planned maximum with the cheapest classifier only; None if the item needs all its calls.
            items: number of items.

        Raises:
            BudgetSpent: a budget refuses the item.
            TooManyRequests: a limit per minute is reached.
            StoreUnavailable, StoreRefused: the store does not answer, and the offline share of the budgets is used up.
        """
        uses = tuple(
            AccountUse(one, _amount_of(one, full, items), None if least is None else _amount_of(one, least, items))
            for one in accounts
        )
        id_ = uuid4().hex
        if len(self._unsettled) >= MAX_UNSETTLED:
            raise StoreUnavailable(f"{MAX_UNSETTLED} settlements of budgets wait for the store; retry later")
        try:
            reserved = await self._in_store(self.accounts.reserve_amounts, id_, uses)
        except (StoreUnavailable, StoreRefused) as error:
            self._settle_later(id_, [(use.account, 0.0) for use in uses])  # it may have reserved all the same
            return self._reserve_locally(uses, items, error)
        except asyncio.CancelledError:
            self._settle_later(id_, [(use.account, 0.0) for use in uses])
            raise
        self._note_states(uses, reserved.states)
        if reserved.refused is not None:
            use = uses[reserved.refused]
            self._count(use.account, "refused")
            raise _refusal(use, reserved.states[reserved.refused])
        self._live[id_] = tuple(use.account for use in uses)
        self._begin_upkeep()
        reason, own = self._note_outcome(uses, reserved), [use.account for use in uses]
        budget = min_item_budget(own, reserved.states, items)
        return Reservation(id_, uses, items, reason, make_budget_headers(own, reserved.states), budget)

    async def settle_item(self, reservation: Reservation, used: CallUse) -> Mapping[str, str]:
        """End a reservation, settle the item's actual use, and return its reply's headers.

        If the store does not accept the settlement, it is repeated in the background.
        """
        self._live.pop(reservation.id, None)
        amounts = tuple((use.account, _amount_of(use.account, used, reservation.items)) for use in reservation.uses)
        try:
            _, states = await self._in_store(self.accounts.settle_use, reservation.id, amounts, reservation.items)
        except (StoreUnavailable, StoreRefused) as error:
            logger.warning("budget settlement delayed reservation=%s error=%s", reservation.id, error)
            self._settle_later(reservation.id, amounts, reservation.items)
            return {}
        self._note_states(reservation.uses, states)
        return make_budget_headers([account for account, _ in amounts], states)

    def begin_settlement(self, reservation: Reservation, used: CallUse) -> "asyncio.Task[Mapping[str, str]]":
        """Settle in the background, even if the caller does not wait."""
        settling = asyncio.ensure_future(self.settle_item(reservation, used))
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)
        return settling

    async def charge_use(self, accounts: Sequence[BudgetAccount], used: CallUse) -> None:
        """Charge a use without a reservation; no effect without a cost."""
        if used.cost:
            uses = tuple(AccountUse(account, 0.0, 0.0) for account in accounts)
            await self.settle_item(Reservation(uuid4().hex, uses, 0, None, {}), used)

    async def read_states(self, accounts: Sequence[BudgetAccount]) -> tuple[AccountState, ...]:
        """Return the state of each account; an account that is missing in the store has spent nothing."""
        try:
            return await self._in_store(self.accounts.list_states, accounts) if accounts else ()
        except (StoreUnavailable, StoreRefused):  # what follows is refused, or held to the offline share
            return tuple(AccountState(0.0, 0.0, inf) for _ in accounts)

    async def read_item_budget(self, accounts: Sequence[BudgetAccount], items: int) -> float:
        """Return the mean cost per item that paced budgets leave; inf for no limit."""
        paced = [one for one in accounts if one.is_paced]
        return min_item_budget(paced, await self.read_states(paced), items)

    async def close(self) -> None:
        """Make pending settlements, if the store accepts them within ``BUDGET_TIMEOUT_S``."""
        if self._upkeep is not None:
            self._upkeep.cancel()
        with suppress(TimeoutError, StoreUnavailable, StoreRefused):
            async with asyncio.timeout(BUDGET_TIMEOUT_S):
                await asyncio.gather(*self._settling)
                await self._settle_unsettled()
        for id_ in self._unsettled:
            logger.error("budget settlement lost reservation=%s", id_)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_store(self, work: Callable[..., T], *args: object) -> T:
        """Use the store in a thread; raises StoreUnavailable after ``BUDGET_TIMEOUT_S``."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        try:
            return await asyncio.wait_for(running, BUDGET_TIMEOUT_S)
        except TimeoutError as error:
            raise StoreUnavailable(f"the store did not answer within {BUDGET_TIMEOUT_S:g} s") from error

    def _reserve_locally(self, uses: tuple[AccountUse, ...], items: int, error: Exception) -> Reservation:
        """Reserve in this process's share of the accounts.

        Raises StoreUnavailable if a share is used up.
        """
        for use in uses:
            account, planned = use.account, self._shares[use.account.keys[0]]
            allowed = account.amount * account.spec.offline_share
            if account.rule != "alert" and planned + use.full > allowed:
                self._count(account, "unavailable")
                raise StoreUnavailable(
                    f"budget {account.budget.name!r} cannot be checked: {error}; this process may spend {allowed:.6g} "
                    f"{account.unit} without the store (offline_share), and has reserved {planned:.6g}; retry later"
                ) from error
        for use in uses:
            self._shares[use.account.keys[0]] += use.full
            self._count(use.account, "offline")
        return Reservation(uuid4().hex, uses, items, None, {})

    def _settle_later(self, id_: str, used: Iterable[tuple[BudgetAccount, float]], items: int = 0) -> None:
        self._unsettled[id_] = _Settlement(id_, tuple(used), items, time.monotonic() + SETTLEMENT_TIMEOUT_S)
        self._begin_upkeep()

    def _begin_upkeep(self) -> None:
        if self._upkeep is None or self._upkeep.done():
            self._upkeep = asyncio.ensure_future(self._keep_up())

    async def _keep_up(self) -> None:
        """Renew leases and repeat settlements until none are left."""
        renewed_at = time.monotonic()
        while self._live or self._unsettled:
            await asyncio.sleep(SETTLEMENT_RETRY_S)
            with suppress(StoreUnavailable, StoreRefused):  # it is repeated
                await self._settle_unsettled()
            if time.monotonic() - renewed_at > LEASE_S / 3:
                with suppress(StoreUnavailable, StoreRefused):
                    await self._renew_live()
                    renewed_at = time.monotonic()

    async def _settle_unsettled(self) -> None:
        for one in list(self._unsettled.values()):
            try:
                await self._in_store(self.accounts.settle_use, one.id, one.used, one.items)
            except (StoreUnavailable, StoreRefused):
                if time.monotonic() < one.until:
                    raise
                logger.error("budget settlement lost reservation=%s", one.id)
            self._unsettled.pop(one.id, None)
        self._shares.clear()  # the store counts all of it now

    async def _renew_live(self) -> None:
        by_account: dict[str, tuple[BudgetAccount, list[str]]] = {}
        for id_, accounts in self._live.items():
            for account in accounts:
                by_account.setdefault(account.keys[0], (account, []))[1].append(id_)
        for account, ids in by_account.values():
            await self._in_store(self.accounts.renew_leases, account, ids)

    def _note_states(self, uses: Sequence[AccountUse], states: Sequence[AccountState]) -> None:
        for use, state in zip(uses, states, strict=True):
            self.metrics.set_budget_gauges(
                use.account.budget.name, use.account.quantity, use.account.amount, state.spent
            )

    def _note_outcome(self, uses: Sequence[AccountUse], reserved: ReservationOutcome) -> str | None:
        """Count and log the spent accounts.

        Return the reason if only the cheapest classifier may be called.
        """
        reason, is_restricted = None, reserved.outcome == "cheapest"
        for use, state in zip(uses, reserved.states, strict=True):
            account, taken = use.account, use.least if is_restricted and use.least is not None else use.full
            released = account.released_amount(state, time.time())
            if use.rule == "refuse" or state.spent + state.held - taken + use.full <= released:
                continue
            self._count(account, use.rule)
            if is_restricted and use.rule == "cheapest":
                reason = f"budget {account.budget.name!r} is spent: only the cheapest classifier is called"
            if self._noted.get(account.keys[0]) != state.finish:
                self._noted[account.keys[0]] = state.finish
                name, spent = account.budget.name, state.spent
                logger.warning("budget spent budget=%s spent=%.6g amount=%.6g", name, spent, account.amount)
        return reason

    def _count(self, account: BudgetAccount, outcome: str) -> None:
        self.metrics.budget_outcomes.labels(account.budget.name, outcome).inc()


def min_item_budget(accounts: Sequence[BudgetAccount], states: Sequence[AccountState], items: int) -> float:
    """Return the least mean cost per item that accounts leave; inf for no limit."""
    budgets = (account.item_budget(state, items) for account, state in zip(accounts, states, strict=True))
    return min(budgets, default=inf)


def _amount_of(account: BudgetAccount, use: CallUse, items: int) -> float:
    return {"cost": use.cost, "requests": float(items), "tokens": float(use.tokens)}[account.quantity]


def _refusal(use: AccountUse, state: AccountState) -> BudgetSpent | TooManyRequests:
    """Return the error of an account that rejects an item."""
    account = use.account
    if account.quantity != "cost" and use.full <= account.amount:  # else no minute is long enough
        wait_s = max(state.finish - time.time(), 1.0)
        used = f"{state.spent + state.held:.0f} of {account.amount:.0f} {account.quantity} are used in this minute"
        planned = f", the item may take {use.full:.0f}"
        return TooManyRequests(f"budget {account.budget.name!r}: {used}{planned}; retry in {wait_s:.3g} s", wait_s)
    return BudgetSpent.from_bound(
        SpentBound(
            budget=account.budget.name,
            quantity=account.quantity,
            unit=account.unit,
            amount=account.amount,
            spent=state.spent,
            reserved=state.held,
            released=account.released_amount(state, time.time()),
            planned=use.full,
            resets_at=format_reset(state),
        )
    )
