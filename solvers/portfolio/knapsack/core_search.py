"""The search for the moves that leave the least deficit: a dynamic programme over the core.

After Pisinger's *A minimal algorithm for the multiple-choice knapsack problem* (1995): the core is searched from the
moves that lose least for the cost they spend or save, and ends as soon as the bounds allow. A state is what is left of
the budget, possibly less than nothing, and what has been lost; every state within the budget is an assignment. Two
things keep states few:

- of states that leave no more than another and are worth no more, none is needed;
- moves still to come lose at least ``up`` for each unit of cost that they spend and ``down`` for each that they save.
  A state that has something left wastes it at the price or at ``up``, a state over its budget must save at ``down``: if
  the deficit that leads to is not below the best one known, less the gap allowed, the state is not needed.

A kind of rows is searched row by row until nothing new comes of it; if it has one move only, in blocks of 1, 2, 4, ...
rows that move together, which reaches every number of them.

**Rounding.** Costs are exact (``exact_sums``). What losses and comparisons of worth may be off by is added up
as ``slop``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from models.arrays import Floats, Int32s, Int64s
from solvers.portfolio.knapsack.core import GRAIN, Core, MoveGroup, ReducedLosses
from solvers.portfolio.knapsack.exact_sums import compute_residue, split_amounts

MAX_CANDIDATES = 1_000_000
"""States that one step may look at; it takes some 150 bytes for each. Before it would look at more, states are thinned
out to those nearest to the budget, and ``proved`` remembers what the others may have led to."""
MAX_STATES = 20_000_000
"""States that may be kept in all; 8 bytes for each. The search ends there."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchLayer:
    """What moving some rows together led to: per state, (s,), the state before and the move, 0 for staying."""

    rows: Int64s
    choices: Int64s
    before: Int32s
    move: Int32s


@dataclass(slots=True, eq=False)
class CoreSearch:
    """The states so far, (s,): what is left of the budget, high and low, and what was lost.

    short: taken from what is left before it is looked at. best: the least deficit of an assignment known. proved: every
    assignment that the search has left out has at least this deficit. allowed: by how much the best deficit may be too
    large, given the best.
    """

    price: float
    shortfall: float
    scale: float
    allowed: Callable[[float], float]
    high: Floats
    low: Floats
    lost: Floats
    best: float
    proved: float
    slop: float = 0.0
    kept: int = 1
    layers: list[SearchLayer] = field(default_factory=list)
    best_at: tuple[int, int, int] | None = None
    """Layer, state before it and move of ``best``, if it was found here."""

    @property
    def limit(self) -> float:
        """What a deficit must be below to be worth looking for."""
        return self.best - self.allowed(self.best)

    def list_moves(self) -> list[tuple[Int64s, int]]:
        """List the moves of the best assignment, if it was found here: rows, and the choice they take."""
        if self.best_at is None:
            return []
        at, state, move = self.best_at
        taken = []
        while True:
            layer = self.layers[at]
            if move:
                taken.append((layer.rows, int(layer.choices[move - 1])))
            if at == 0:
                return taken
            at -= 1
            state, move = int(self.layers[at].before[state]), int(self.layers[at].move[state])

    def step(self, group: MoveGroup, rows: Int64s, up: float, down: float) -> bool:
        """Let rows of a kind move together or stay. Tells whether any state in which they move is kept."""
        count, state_count = len(rows), len(self.lost)
        high = _each(self.high, -count * group.high)
        low = _each(self.low, -count * group.low)
        lost = _each(self.lost, count * group.losses)
        remaining = high + low - self.shortfall
        self._update_best(lost, remaining, state_count)
        alive = self._find_promising(lost, remaining, up, down)
        high, low, lost, remaining = high[alive], low[alive], lost[alive], remaining[alive]
        order = np.lexsort((lost, -compute_residue(high, low, remaining), -remaining))
        order = order[self._find_undominated(-(lost[order] + self.price * remaining[order]))]
        self.high, self.low, self.lost = high[order], low[order], lost[order]
        came = alive[order]
        before, move = (came % state_count).astype(np.int32), (came // state_count).astype(np.int32)
        self.layers.append(SearchLayer(rows, group.choices, before, move))
        self.kept += len(came)
        return bool(move.any())

    def thin_out(self, most: int, up: float, down: float) -> None:
        """If there are more states than that, keep a sixteenth of it, those nearest to the budget.

        No proof will come of these, but more kinds can be searched for something better.
        """
        if len(self.lost) <= most:
            return
        self.drop_states(up, down)
        keep = np.sort(np.argsort(np.abs(self.high + self.low), kind="stable")[: most // 16])
        self.kept -= len(self.lost) - len(keep)
        self.high, self.low, self.lost = self.high[keep], self.low[keep], self.lost[keep]
        last = self.layers[-1]
        self.layers[-1] = replace(last, before=last.before[keep], move=last.move[keep])

    def drop_states(self, up: float, down: float) -> None:
        """Give up the states: nothing more is known of what they lead to than their bounds."""
        bounds = self._bound_deficits(self.lost, self.high + self.low - self.shortfall, up, down)
        self.proved = min(self.proved, float(bounds.min(initial=np.inf)))

    def _update_best(self, lost: Floats, remaining: Floats, state_count: int) -> None:
        """Keep the best assignment among candidates; those of one move stand together."""
        deficits = np.where(remaining >= 0, lost + self.price * remaining, np.inf)
        least = int(deficits.argmin())
        if deficits[least] < self.best:
            self.best = float(deficits[least])
            self.best_at = len(self.layers), least % state_count, least // state_count

    def _bound_deficits(self, lost: Floats, remaining: Floats, up: float, down: float) -> Floats:
        """Bound the deficits that states lead to."""
        rates: Floats = np.where(remaining >= 0, min(self.price, up), -down)
        return lost + remaining * rates

    def _find_promising(self, lost: Floats, remaining: Floats, up: float, down: float) -> Int64s:
        """Find the candidates that may lead to something worth looking for."""
        bounds = self._bound_deficits(lost, remaining, up, down)
        beaten = bounds >= self.limit
        self.proved = min(self.proved, float(bounds.min(where=beaten, initial=np.inf)))
        return np.flatnonzero(~beaten)

    def _find_undominated(self, values: Floats) -> Int64s:
        """Find the states that are worth more than all that leave more: those that stand before them.

        Worths are compared by the grain they fall into: what is dropped is worth at most a grain more than what it is
        dropped for. Two more allow for the rounding of losses and worths.
        """
        grain = GRAIN * (self.scale + float(np.abs(values).max(initial=0.0)))
        self.slop += 3 * grain
        ranks = np.floor(values / grain)
        rises = np.ones(len(ranks), dtype=bool)
        rises[1:] = ranks[1:] > np.maximum.accumulate(ranks)[:-1]
        return np.flatnonzero(rises)


def _each(states: Floats, moves: Floats) -> Floats:
    """Add nothing, and every move, to every state."""
    return (np.append(0.0, moves)[:, None] + states).ravel()


def search_core(
    core: Core, reduced: ReducedLosses, best: float, allowed: Callable[[float], float], in_time: Callable[[], bool]
) -> CoreSearch:
    """Search the core for a deficit below ``best`` until the rest is proved not to hold one, or time or room is out.

    The core must hold all moves that lose less than the limit for ``best``. O(l s a log(s a)) time for l steps from s
    states with a moves.
    """
    first, more = reduced.remaining
    high, low = split_amounts(np.array([first]), core.unit)
    search = CoreSearch(
        reduced.price,
        reduced.shortfall,
        reduced.scale,
        allowed,
        high,
        low + more,
        np.zeros(1),
        best,
        best - allowed(best),
    )
    for k, group in enumerate(core.groups):
        if not _through(search, group, core, k, in_time):
            search.drop_states(core.up[k], core.down[k])
            break
    else:
        search.drop_states(np.inf, np.inf)
    return search


def _through(search: CoreSearch, group: MoveGroup, core: Core, k: int, in_time: Callable[[], bool]) -> bool:
    """Search one kind; tells whether the search may go on."""
    at, size, news = 0, 1, True
    while at < len(group.rows) and news and len(search.lost):
        group = _worthwhile(search, group)
        if not len(group.choices):
            break
        if not in_time() or search.kept > MAX_STATES:
            return False
        search.thin_out(MAX_CANDIDATES // (len(group.choices) + 1), core.up[k], core.down[k])
        rows = group.rows[at : at + size]
        at += len(rows)
        rest = k if at < len(group.rows) else k + 1
        news = search.step(group, rows, core.up[rest], core.down[rest])
        size = 2 * size if len(group.choices) == 1 else 1
    return True


def _worthwhile(search: CoreSearch, group: MoveGroup) -> MoveGroup:
    """Leave out moves that lose too much by now."""
    fewer = group.select_below(search.limit)
    if fewer is not group:
        search.proved = min(search.proved, search.limit)
    return fewer
