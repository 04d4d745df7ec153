"""Ledgers: what streams of single queries have spent, counted in the store for all servers at once.

A server chooses by the state that it saw last, and the store takes the choice only if the stream's total still allows
it; else it tells its state, and the server chooses again. So a total is never exceeded, however many servers count.
"""

from collections.abc import Callable

from app.store.client import Store, key
from models.errors import Conflict, Infeasible
from models.portfolio import RouteDecision
from solvers.portfolio.pacing import MOST_LEAN, ROUNDING, Spending, Stream

KEPT_S = 90 * 24 * 3600
"""A ledger goes when nobody has counted in it for so long, in seconds."""
MOST_REMEMBERED = 10_000
"""Ledgers whose state a server remembers; then it forgets all and asks the store again."""
TRIES = 20
"""Choices that other servers may outrun before the cheapest is taken."""
_COUNT = """
local kept = redis.call('HMGET', KEYS[1], 'spent', 'queries', 'lean', 'terms')
local terms = ARGV[1] .. ' ' .. ARGV[3]
if kept[4] and kept[4] ~= terms then
    return {-1, kept[1], kept[2], kept[3]}
end
local spent, queries, lean = tonumber(kept[1] or '0'), tonumber(kept[2] or '0'), tonumber(kept[3] or '0')
local allowed, cheapest, planned, most_lean = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local taken = 0
if #ARGV > 5 then
    local cost, leaning = tonumber(ARGV[6]), tonumber(ARGV[7])
    if spent + cost + math.max(planned - queries - 1, 0) * cheapest <= allowed then
        taken, spent, queries = 1, spent + cost, queries + 1
        lean = math.min(math.max(lean + leaning, -most_lean), most_lean)
        redis.call('HSET', KEYS[1], 'spent', string.format('%.17g', spent),
            'queries', string.format('%.0f', queries), 'lean', string.format('%.17g', lean), 'terms', terms)
        redis.call('EXPIRE', KEYS[1], ARGV[5])
    end
end
return {taken, string.format('%.17g', spent), string.format('%.0f', queries), string.format('%.17g', lean)}
"""
"""Tells the state, and before that counts a query, given its cost and leaning, if the total allows it."""


class Ledgers:
    """The ledgers of one store, and the state of each as this server saw it last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, Spending] = {}

    def count(
        self, portfolio: str, name: str, stream: Stream, choose: Callable[[float, float], RouteDecision]
    ) -> tuple[RouteDecision, Spending]:
        """Choose for the next query of a stream, and count it in the ledger of this name.

        choose: given the budget whose price counts now, and what the query may cost at most. Raises Infeasible if
        nothing is left for it, Conflict if the ledger has other terms, and what the store raises.
        """
        ledger = key("ledger", portfolio, name)
        state = self._seen.get(ledger) or self._ask(ledger, stream)[1]
        for tried in range(TRIES + 1):
            most = stream.most(state)
            if most < stream.cheapest:
                state = self._ask(ledger, stream)[1]  # it may have been emptied meanwhile
                if stream.most(state) < stream.cheapest:
                    break
                continue
            hurried = tried == TRIES
            decision = choose(*(stream.cheapest, stream.cheapest) if hurried else (stream.budget_now(state), most))
            taken, state = self._ask(ledger, stream, decision.cost, stream.leaning(state, decision.cost))
            if taken:
                return decision, state
        raise Infeasible(
            f"ledger {name!r} has spent {state.spent:g} of {stream.total:g} on {state.queries} queries; the "
            f"cheapest answer costs {stream.cheapest:g}; begin another ledger"
        )

    def _ask(self, ledger: str, stream: Stream, *counted: float) -> tuple[bool, Spending]:
        """Ask for the state; counted: cost and leaning of a query, taken off what is left if it is left."""
        arguments = (stream.total * (1 + ROUNDING), stream.cheapest, stream.queries, MOST_LEAN, KEPT_S, *counted)
        taken, spent, queries, lean = self._store.run(_COUNT, [ledger], [repr(each) for each in arguments])
        if taken < 0:
            asked = f"{stream.total:g} for {stream.queries} queries"
            raise Conflict(
                f"this ledger was begun with another total or number of queries than {asked}; take a new name"
            )
        if len(self._seen) >= MOST_REMEMBERED:
            self._seen.clear()
        self._seen[ledger] = state = Spending(float(spent), int(queries), float(lean))
        return bool(taken), state
