"""Ledgers: the spending of streams of single queries, shared by all servers.

A server chooses a classifier by the state that it read last. The store accepts the choice only if all accounts of the
stream and the classifier's rate limit allow it. Otherwise, the store returns the current state, and the server chooses
again. So limits are never exceeded, with any number of servers. Rate limits use the store's clock.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

from app.store.client import Store, make_store_key
from models.errors import Conflict, Infeasible
from solvers.portfolio.pacing import (
    MAX_CREDIT,
    ROUNDING,
    ChooseClassifier,
    RateWindow,
    StreamAccount,
    StreamLimits,
    StreamSpending,
)

LEDGER_TTL_S = 90 * 24 * 3600
"""A ledger expires after this time without a write, in seconds."""
MAX_REMEMBERED = 10_000
"""Accounts whose state a server remembers; then it forgets all and asks the store again."""
MAX_TRANSACTION_TRIES = 20
"""Choices that other servers may outrun before the cheapest is taken."""
_COUNT = """
local accounts, lowest = tonumber(ARGV[1]), tonumber(ARGV[2])
local counts, chosen = tonumber(ARGV[4]) == 1, tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local reply, states, able = {0}, {}, counts
for i = 1, accounts do
    local at = 6 + (i - 1) * 7
    local name, allowed, cheapest = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    local planned, highest = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
    local amount, leaning = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
    local kept = redis.call('HMGET', KEYS[1], name .. 'spent', name .. 'queries', name .. 'lean', name .. 'terms')
    local terms = ARGV[at + 1] .. ' ' .. ARGV[at + 3]
    if kept[4] and kept[4] ~= terms then
        return {-i}
    end
    local spent, queries, lean = tonumber(kept[1] or '0'), tonumber(kept[2] or '0'), tonumber(kept[3] or '0')
    able = able and spent + amount + math.max(planned - queries - 1, 0) * cheapest <= allowed
    lean = math.min(math.max(lean + leaning, lowest), highest)
    states[i] = {name, spent, queries, lean, amount, terms, tonumber(kept[3] or '0')}
end
local windows = #KEYS - 1
for i = 1, windows do
    local at = 6 + accounts * 7 + (i - 1) * 2
    redis.call('ZREMRANGEBYSCORE', KEYS[i + 1], '-inf', string.format('%.0f', now - tonumber(ARGV[at + 1]) * 1000000))
    local free = tonumber(ARGV[at]) - redis.call('ZCARD', KEYS[i + 1])
    able = able and (i ~= chosen or free > 0)
    reply[1 + accounts * 3 + i] = free
end
for i = 1, accounts do
    local name, spent, queries, lean, amount, terms, old = unpack(states[i])
    if able then
        spent, queries, old = spent + amount, queries + 1, lean
        redis.call('HSET', KEYS[1], name .. 'spent', string.format('%.17g', spent),
            name .. 'queries', string.format('%.0f', queries), name .. 'lean', string.format('%.17g', lean),
            name .. 'terms', terms)
    end
    reply[3 * i - 1] = string.format('%.17g', spent)
    reply[3 * i] = string.format('%.0f', queries)
    reply[3 * i + 1] = string.format('%.17g', old)
end
if able then
    reply[1] = 1
    redis.call('EXPIRE', KEYS[1], ARGV[3])
    if chosen > 0 then
        local at = 6 + accounts * 7 + (chosen - 1) * 2
        redis.call('ZADD', KEYS[chosen + 1], string.format('%.0f', now), string.format('%.0f', now) .. ' ' .. reply[3])
        redis.call('EXPIRE', KEYS[chosen + 1], math.ceil(tonumber(ARGV[at + 1])) + 1)
        reply[1 + accounts * 3 + chosen] = reply[1 + accounts * 3 + chosen] - 1
    end
end
return reply
"""
"""Returns the state, and before that counts a query, given its choice, if all accounts and the classifier's window
allow it: in each account what is taken of it, and its leaning."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """State of a stream: spending of its accounts, and remaining calls of its rate limits.

    Both are in the order of the terms.
    """

    states: tuple[StreamSpending, ...]
    free: tuple[int, ...]


class Ledgers:
    """Repository of ledgers, with a cache of the last states."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[tuple[str, tuple[str, ...]], StreamSpending] = {}

    def count_query(
        self, portfolio: str, name: str, terms: StreamLimits, choose: ChooseClassifier
    ) -> tuple[int, StreamState]:
        """Choose a classifier for a stream's next query, and add its cost to the ledger.

        Raises:
            Infeasible: nothing remains in the accounts.
            Conflict: the ledger was created with other terms.
        """
        ledger = make_store_key("ledger", portfolio, name)
        seen = self._remembered(ledger, terms)
        counted = self._ask(ledger, terms)[1] if seen is None else seen
        for tried in range(MAX_TRANSACTION_TRIES + 1):
            able = terms.available_mask(counted.states, counted.free)
            if not able.any():
                counted = self._ask(ledger, terms)[1]  # it may have been emptied meanwhile
                if not terms.available_mask(counted.states, counted.free).any():
                    break
                continue
            if tried == MAX_TRANSACTION_TRIES:
                able &= terms.accounts[0].uses <= terms.accounts[0].uses[able].min()
            choice = choose(counted.states, able)
            taken, counted = self._ask(ledger, terms, choice, counted.states)
            if taken:
                return choice, counted
        raise Infeasible(_exhausted(name, terms, counted))

    def _remembered(self, ledger: str, terms: StreamLimits) -> StreamState | None:
        """Return the last known state; None if incomplete, or if it depends on the clock."""
        states = [self._seen.get((ledger, account.name)) for account in terms.accounts]
        known = tuple(state for state in states if state is not None)
        return StreamState(known, ()) if len(known) == len(states) and not terms.windows else None

    def _ask(
        self, ledger: str, terms: StreamLimits, choice: int | None = None, states: tuple[StreamSpending, ...] = ()
    ) -> tuple[bool, StreamState]:
        """Return the state of the stream; count a query's choice if all limits allow it.

        ``choice`` was made by ``states``.
        """
        chosen = next((i for i, each in enumerate(terms.windows, start=1) if each.classifier == choice), 0)
        arguments: list[Any] = [len(terms.accounts), -MAX_CREDIT, LEDGER_TTL_S, int(choice is not None), chosen]
        for place, account in enumerate(terms.accounts):
            stream, amount, leaning = account.stream, 0.0, 0.0
            if choice is not None:
                amount = float(account.uses[choice])
                leaning = stream.credit_change(states[place], amount)
            allowed = stream.total * (1 + ROUNDING)
            arguments += [_field(account), allowed, stream.cheapest, stream.queries, stream.max_credit, amount, leaning]
        for window in terms.windows:
            arguments += [window.max_calls, window.span_s]
        keys = [ledger, *(_key(ledger, window) for window in terms.windows)]
        reply = self._store.run(_COUNT, keys, [one if isinstance(one, str) else repr(one) for one in arguments])
        if reply[0] < 0:
            raise Conflict(_other_terms(terms.accounts[-reply[0] - 1]))
        counted = _read(reply, len(terms.accounts))
        if len(self._seen) >= MAX_REMEMBERED:
            self._seen.clear()
        self._seen.update(((ledger, a.name), s) for a, s in zip(terms.accounts, counted.states, strict=True))
        return bool(reply[0]), counted


def _field(account: StreamAccount) -> str:
    """Return the prefix of an account's fields; empty for the stream itself."""
    return "".join(f"{part} " for part in account.name)


def _key(ledger: str, window: RateWindow) -> str:
    return f"{ledger}:calls:{ceil(window.span_s * 1e6)}:{window.name}"


def _read(reply: list[Any], accounts: int) -> StreamState:
    triples = [reply[1 + 3 * i : 4 + 3 * i] for i in range(accounts)]
    states = tuple(StreamSpending(float(spent), int(queries), float(lean)) for spent, queries, lean in triples)
    return StreamState(states, tuple(reply[1 + 3 * accounts :]))


def _other_terms(account: StreamAccount) -> str:
    stream, whose = account.stream, f" of its {' '.join(account.name)}" if account.name else ""
    asked = f"{stream.total:g} for {stream.queries} queries"
    return f"this ledger was created with another total or number of queries{whose} than {asked}; use a new name"


def _exhausted(name: str, terms: StreamLimits, counted: StreamState) -> str:
    """Return the account or the windows that leave nothing for the next query."""
    for account, state in zip(terms.accounts, counted.states, strict=True):
        if float(account.uses.min()) > account.stream.max_cost(state):
            of = f" of {' '.join(account.name)}" if account.name else ""
            spent = f"has spent {state.spent:g} of {account.stream.total:g}{of} on {state.queries} queries"
            answer = f"the cheapest answer costs {float(account.uses.min()):g}"
            return f"ledger {name!r} {spent}; {answer}; use a new ledger"
    full = [w for w, free in zip(terms.windows, counted.free, strict=True) if free <= 0]
    message = (
        ", ".join(f"{w.name} (at most {w.max_calls} calls in {w.span_s:g} s)" for w in full) or "none is at its limit"
    )
    return f"no classifier is within all limits of ledger {name!r}; at their limits: {message}"
