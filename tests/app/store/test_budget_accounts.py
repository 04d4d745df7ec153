"""Accounts of budgets against a model in Python, on a real store with a simulated clock."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.store.budget_accounts import (
    LEASE_S,
    PACING_ADVANCE_SHARE,
    ROUNDING,
    AccountUse,
    BudgetAccount,
    BudgetAccounts,
    ReservationOutcome,
    list_accounts,
)
from app.store.budgets import Budgets, StoredBudget
from app.store.client import Store
from models.budget import BudgetSpec
from models.errors import UnknownBudget

START = datetime(2024, 2, 28, 23, 58, tzinfo=UTC).timestamp()
"""Two minutes before the 29th of a February."""


def make_accounts(**fields: Any) -> tuple[BudgetAccount, ...]:
    spec = BudgetSpec.model_validate({"scope": "team", "target": "a", **fields})
    return list_accounts(StoredBudget("b", uuid4().hex, spec))


def accounts_for(amount: float, period: str, rule: str, is_paced: bool) -> tuple[BudgetAccount, ...]:
    is_paced = is_paced and period != "total"
    return make_accounts(amount=amount, period=period, when_spent=rule, is_paced=is_paced)


def period_of(name: str, now: float) -> tuple[float, float]:
    """Give the period of a time by Python's calendar."""
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    lengths = {"minute": 60, "hour": 3600, "day": 86400}
    if name == "total":
        return 0.0, float("inf")
    if name in lengths:
        start = now // lengths[name] * lengths[name]
        return start, start + lengths[name]
    first = day.replace(day=1)
    return first.timestamp(), (first + timedelta(days=31)).replace(day=1).timestamp()


@dataclass
class ModelAccount:
    account: BudgetAccount
    start: float = 0.0
    spent: float = 0.0
    released: float = 0.0
    held: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Amount and end of the lease, by reservation."""

    def look(self, now: float) -> None:
        start, finish = period_of(self.account.period, now)
        is_paced = self.account.is_paced
        self.released = self.account.amount * (
            min(1.0, PACING_ADVANCE_SHARE + (now - start) / (finish - start)) if is_paced else 1.0
        )
        self.spent = 0.0 if start > self.start else self.spent
        self.start = max(start, self.start)
        self.held = {id_: one for id_, one in self.held.items() if one[1] > now}

    @property
    def free(self) -> float:
        return self.released * (1 + ROUNDING) - self.spent - self.reserved

    @property
    def reserved(self) -> float:
        return sum(amount for amount, _ in self.held.values())


@dataclass
class Model:
    """What the scripts must do, for a few accounts."""

    accounts: list[ModelAccount]
    settled: set[str] = field(default_factory=set)

    def reserve(self, id_: str, uses: Sequence[AccountUse], now: float) -> str:
        for one in self.accounts:
            one.look(now)
        pairs = list(zip(self.accounts, uses, strict=True))
        is_restricted = any(use.rule == "cheapest" and use.full > one.free for one, use in pairs)
        takes = [use.least if is_restricted and use.least is not None else use.full for use in uses]
        if any(use.rule == "refuse" and take > one.free for (one, use), take in zip(pairs, takes, strict=True)):
            return "refused"
        if id_ not in self.settled:
            for one, amount in zip(self.accounts, takes, strict=True):
                one.held[id_] = (amount, now + LEASE_S)
        return "cheapest" if is_restricted else "reserved"

    def settle(self, id_: str, amounts: Sequence[float], now: float) -> bool:
        is_first = id_ not in self.settled
        self.settled.add(id_)
        for one, amount in zip(self.accounts, amounts, strict=True):
            one.look(now)
            one.held.pop(id_, None)
            one.spent += amount if is_first else 0.0
        return is_first


costs = st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.5])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.5, 7.0, 20.0, 61.0, 1800.0, 90000.0, 40 * 86400.0])),
        st.tuples(st.just("reserve"), costs, st.none() | costs),
        st.tuples(st.just("settle"), st.integers(0, 9), costs),
        st.tuples(st.just("renew"), st.integers(0, 9)),
    ),
    max_size=40,
)
rules = st.sampled_from(["refuse", "cheapest", "alert"])
periods = st.sampled_from(["hour", "day", "month", "total"])
bounds = st.lists(st.tuples(st.sampled_from([1.0, 2.0, 5.0]), periods, rules, st.booleans()), min_size=1, max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(bounds=bounds, steps=steps, rate=st.none() | st.integers(1, 4))
def test_the_scripts_do_what_the_model_does(
    store: Store, bounds: list[tuple[float, str, str, bool]], steps: list[tuple[Any, ...]], rate: int | None
) -> None:
    now = START
    kept = BudgetAccounts(store, clock=lambda: now)
    accounts = [account for bound in bounds for account in accounts_for(*bound)]
    if rate is not None:
        accounts += make_accounts(requests_per_minute=rate)
    model, planned, overuse = Model([ModelAccount(one) for one in accounts]), dict[str, list[AccountUse]](), 0.0
    for step in steps:
        ids = list(planned)
        if step[0] == "wait":
            now += step[1]
        elif step[0] == "reserve":
            id_, full, least = uuid4().hex, max(step[1], step[2] or 0.0), step[2] and min(step[1:])
            uses = [AccountUse(a, *((1.0, 1.0) if a.quantity == "requests" else (full, least))) for a in accounts]
            reserved = kept.reserve_amounts(id_, uses)
            again = kept.reserve_amounts(id_, uses)
            assert reserved.outcome == again.outcome == model.reserve(id_, uses, now)
            assert reserved.states == again.states
            if reserved.outcome != "refused":
                planned[id_] = uses
            _never_over(model, reserved, overuse)
        elif step[0] == "settle" and ids:
            id_ = ids[step[1] % len(ids)]
            amounts = [step[2] for _ in accounts]
            overuse += sum(amounts)  # of leases that have ended, or beyond the plan
            is_first, _ = kept.settle_use(id_, list(zip(accounts, amounts, strict=True)), 1)
            assert is_first == model.settle(id_, amounts, now)
        elif step[0] == "renew" and ids:
            id_ = ids[step[1] % len(ids)]
            for one in model.accounts:
                kept.renew_leases(one.account, [id_])
                if one.held.get(id_, (0.0, 0.0))[1] > now:
                    one.held[id_] = (one.held[id_][0], now + LEASE_S)
        for one, state in zip(model.accounts, kept.list_states(accounts), strict=True):
            one.look(now)
            assert (state.spent, state.held) == pytest.approx((one.spent, one.reserved), abs=1e-9)
            assert state.finish == period_of(one.account.period, now)[1]
            assert one.account.released_amount(state, now) == pytest.approx(one.released)


def _never_over(model: Model, reserved: ReservationOutcome, overuse: float) -> None:
    """An account that refuses is within its amount after each reservation, but for use beyond reservations."""
    for one, state in zip(model.accounts, reserved.states, strict=True):
        if one.account.rule == "refuse" and reserved.outcome != "refused":
            assert state.spent + state.held <= one.account.amount * (1 + ROUNDING) + overuse


def test_months_and_days_are_those_of_the_calendar(store: Store) -> None:
    """From 2023 to 2033, in steps that meet each month's first and last days."""
    now = datetime(2023, 1, 1, tzinfo=UTC).timestamp()
    accounts = [a for period in ("hour", "day", "month") for a in make_accounts(amount=1.0, period=period)]
    kept = BudgetAccounts(store, clock=lambda: now)
    while now < datetime(2033, 1, 1, tzinfo=UTC).timestamp():
        finishes = [state.finish for state in kept.list_states(accounts)]
        assert finishes == [period_of(one.period, now)[1] for one in accounts], now
        now += 86399.5


def test_many_callers_never_exceed_an_amount_and_every_reservation_is_settled_once(store: Store) -> None:
    """Sixteen callers reserve 1 and use 0.25; each settles twice."""
    (account,) = make_accounts(amount=20.0, period="total")
    servers = [BudgetAccounts(store) for _ in range(4)]

    def call(place: int) -> float:
        server, id_ = servers[place % 4], uuid4().hex
        reserved = server.reserve_amounts(id_, [AccountUse(account, 1.0, 1.0)])
        (state,) = reserved.states
        assert state.spent + state.held <= 20.0 + 1e-6
        if reserved.outcome == "refused":
            return 0.0
        firsts = [server.settle_use(id_, [(account, 0.25)], 1)[0] for _ in range(2)]
        assert firsts == [True, False]
        return 0.25

    with ThreadPoolExecutor(16) as callers:
        spent = sum(callers.map(call, range(400)))
    (state,) = servers[0].list_states([account])
    assert (state.spent, state.held) == pytest.approx((spent, 0.0))
    assert 19.0 < spent <= 20.0


def test_a_store_that_lost_a_reservation_counts_its_use_once(store: Store) -> None:
    (account,) = make_accounts(amount=10.0, period="day")
    kept = BudgetAccounts(store)
    kept.reserve_amounts("lost", [AccountUse(account, 4.0, 4.0)])
    store.client.flushdb()
    assert [kept.settle_use("lost", [(account, 3.0)], 1)[0] for _ in range(2)] == [True, False]
    (state,) = kept.list_states([account])
    assert (state.spent, state.held) == (3.0, 0.0)
    assert kept.reserve_amounts("lost", [AccountUse(account, 4.0, 4.0)]).states[0].held == 0.0


def test_accounts_of_a_period_expire_and_totals_stay(store: Store) -> None:
    kept = BudgetAccounts(store)
    for period, expires in (("hour", True), ("total", False)):
        (account,) = make_accounts(amount=1.0, period=period)
        kept.settle_use(uuid4().hex, [(account, 0.5)], 1)
        ttl = store.client.ttl(account.keys[0])
        assert ttl > 24 * 3600 - 5 if expires else ttl == -1
        kept.delete([account])
        assert kept.list_states([account])[0].spent == 0.0


def test_a_budget_keeps_its_account_unless_its_scope_or_unit_changes(store: Store) -> None:
    budgets, other = Budgets(store), Budgets(store)
    spec = BudgetSpec(scope="team", target="a", amount=1.0)
    assert budgets.put("b", spec)
    (first,) = other.get_all()
    assert not budgets.put("b", spec.model_copy(update={"amount": 2.0, "period": "day"}))
    (second,) = other.get_all()
    assert (second.account, second.spec.amount) == (first.account, 2.0)
    budgets.put("b", spec.model_copy(update={"unit": "ms"}))
    assert other.get("b").account != first.account
    store.client.delete("parsimony:budgets", "parsimony:budgets-written")
    assert [one.name for one in other.get_all()] == ["b"], "a store that lost all"
    budgets.put("c", spec)
    budgets.delete("c")
    assert other.get_all() == ()
    with pytest.raises(UnknownBudget):
        budgets.delete("c")
