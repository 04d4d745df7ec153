"""What a server has reserved is renewed while it lives, ends when it dies, and settles once the store is back."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from app.observability.metrics import Metrics
from app.running import budget_guard
from app.running.budget_guard import BudgetGuard
from app.running.planned_use import CallUse
from app.store import budget_accounts
from app.store.budget_accounts import AccountState, BudgetAccounts, list_accounts
from app.store.budgets import StoredBudget
from app.store.client import Store
from models.budget import BudgetSpec
from models.errors import StoreUnavailable
from tests.support.stores import StoreProcess

LEASE_S = 0.6
SPEC = BudgetSpec(scope="team", target="a", amount=10.0, period="total")
ACCOUNTS = list_accounts(StoredBudget("b", "id", SPEC))


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_accounts, "LEASE_S", LEASE_S)
    monkeypatch.setattr(budget_guard, "LEASE_S", LEASE_S)
    monkeypatch.setattr(budget_guard, "SETTLEMENT_RETRY_S", 0.05)
    monkeypatch.setattr(budget_guard, "BUDGET_TIMEOUT_S", 0.5)


@pytest.fixture
def accounts(fresh: StoreProcess) -> Iterator[BudgetAccounts]:
    store = Store(fresh.url, timeout_s=0.5)
    yield BudgetAccounts(store)
    store.close()


def state(accounts: BudgetAccounts) -> tuple[float, float]:
    """Give what is spent and held."""
    one: AccountState = accounts.list_states(ACCOUNTS)[0]
    return one.spent, one.held


def test_a_lease_is_renewed_while_its_server_lives_and_ends_after_it_died(accounts: BudgetAccounts) -> None:
    async def live_and_die() -> None:
        guard = BudgetGuard(accounts, Metrics())
        reservation = await guard.reserve_item(ACCOUNTS, CallUse(4.0), None)
        for _ in range(6):
            await asyncio.sleep(LEASE_S / 2)
            assert state(accounts) == (0.0, 4.0)
        assert guard._upkeep is not None
        guard._upkeep.cancel()  # as if it had died
        await asyncio.sleep(LEASE_S * 1.5)
        assert state(accounts) == (0.0, 0.0)
        await guard.settle_item(reservation, CallUse(3.0))  # it was only asleep
        await guard.settle_item(reservation, CallUse(3.0))
        assert state(accounts) == (3.0, 0.0)
        await guard.close()

    asyncio.run(live_and_die())


def test_what_the_store_takes_too_late_is_given_back_and_what_was_used_is_settled(
    accounts: BudgetAccounts, fresh: StoreProcess
) -> None:
    async def wait_for_the_store() -> None:
        guard = BudgetGuard(accounts, Metrics())
        reservation = await guard.reserve_item(ACCOUNTS, CallUse(2.0), None)
        fresh.signal(signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable):
                await guard.reserve_item(ACCOUNTS, CallUse(3.0), None)
            leaving = asyncio.ensure_future(guard.reserve_item(ACCOUNTS, CallUse(5.0), None))
            await asyncio.sleep(0.1)
            leaving.cancel()
            await guard.settle_item(reservation, CallUse(1.5))
        finally:
            fresh.signal(signal.SIGCONT)
        for _ in range(100):
            if state(accounts) == (1.5, 0.0):
                break
            await asyncio.sleep(0.05)
        assert state(accounts) == (1.5, 0.0)
        await guard.close()

    asyncio.run(wait_for_the_store())
