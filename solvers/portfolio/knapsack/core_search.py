"""Dynamic programming over the core for the assignment of least deficit.

The search begins with the moves of least loss per unit of cost. It ends as soon as the bounds exclude an improvement. A
state is the remaining budget, possibly negative, and the accumulated loss. Every state within the budget is an
assignment. Two rules limit the number of states:

- dominance: a state is dropped if another state has at least its remaining budget and at least its value;
- bounds: later moves lose at least ``loss_per_spent`` per unit of cost that they spend, and ``loss_per_saved`` per unit
that they save. Unused budget costs the shadow price per unit, or ``loss_per_spent`` if it is spent. A state over the
budget must save cost at ``loss_per_saved``. If the resulting deficit is not below the best one minus the allowed gap,
the state is dropped.

A group is searched row by row until no state with a move remains. A group with a single move is searched in blocks of
1, 2, 4, ... rows, whose sums reach every number of rows.

**Rounding.** Costs are exact (``exact_sums``). Possible errors of losses and comparisons are accumulated in
``rounding_slack``.

Source: Pisinger, *A minimal algorithm for the multiple-choice knapsack problem*, 1995.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from models.arrays import Floats, Int32s, Int64s
from solvers.portfolio.knapsack.core import RELATIVE_PRECISION, KnapsackCore, MoveGroup, ReducedLosses
from solvers.portfolio.knapsack.exact_sums import compute_residue, split_amounts

MAX_CANDIDATES = 1_000_000
"""Maximum number of states of a step, of about 150 bytes each.

Before more, states are thinned out to those closest to the budget, and ``proved`` records the bounds of the others.
"""
MAX_STATES = 20_000_000
"""Maximum number of stored states, of 8 bytes each; the search ends there."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchLayer:
    """Backtracking information of a step: previous state and move of each state, (s,); move 0 is none."""

    rows: Int64s
    choices: Int64s
    before: Int32s
    move: Int32s


@dataclass(slots=True, eq=False)
class CoreSearch:
    """States of the search, (s,): remaining budget, as high and low parts, and loss.

    Attributes:
        shortfall: subtracted from the remaining budget in comparisons.
        allowed: returns the allowed gap, given the best deficit.
        best: the least deficit of a known assignment.
        proved: lower bound of the deficits of all dropped assignments.
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
    rounding_slack: float = 0.0
    kept: int = 1
    layers: list[SearchLayer] = field(default_factory=list)
    best_at: tuple[int, int, int] | None = None
    """Layer, previous state, and move of ``best``, if it was found here."""

    @property
    def limit(self) -> float:
        """The deficit below which an assignment is an improvement."""
        return self.best - self.allowed(self.best)

    def list_moves(self) -> list[tuple[Int64s, int]]:
        """Return the moves of the best assignment as (rows, their choice).

        There are none if the search did not find an improvement.
        """
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

    def extend_states(self, group: MoveGroup, rows: Int64s, loss_per_spent: float, loss_per_saved: float) -> bool:
        """Extend every state by each move of a group and by no move, and prune the states.

        Args:
            group: the moves to choose from.
            rows: rows of the group that make the same move together.
            loss_per_spent: minimum loss of later moves per unit of cost that they spend.
            loss_per_saved: minimum loss of later moves per unit of cost that they save.
        Returns:
            Whether any state with a move remains after pruning.
        """
        count, state_count = len(rows), len(self.lost)
        high = _combine(self.high, -count * group.high)
        low = _combine(self.low, -count * group.low)
        lost = _combine(self.lost, count * group.losses)
        remaining = high + low - self.shortfall
        self._update_best(lost, remaining, state_count)
        alive = self._find_promising(lost, remaining, loss_per_spent, loss_per_saved)
        high, low, lost, remaining = high[alive], low[alive], lost[alive], remaining[alive]
        order = np.lexsort((lost, -compute_residue(high, low, remaining), -remaining))
        order = order[self._find_undominated(-(lost[order] + self.price * remaining[order]))]
        self.high, self.low, self.lost = high[order], low[order], lost[order]
        origin = alive[order]
        before, move = (origin % state_count).astype(np.int32), (origin // state_count).astype(np.int32)
        self.layers.append(SearchLayer(rows, group.choices, before, move))
        self.kept += len(origin)
        return bool(move.any())

    def prune_states(self, max_states: int, loss_per_spent: float, loss_per_saved: float) -> None:
        """Keep only ``max_states // 16`` states if there are more than ``max_states``.

        The states closest to the budget are kept. The requested gap may then not be proved, but more groups can be
        searched for improvements.
        """
        if len(self.lost) <= max_states:
            return
        self.record_discarded_bound(loss_per_spent, loss_per_saved)
        keep = np.sort(np.argsort(np.abs(self.high + self.low), kind="stable")[: max_states // 16])
        self.kept -= len(self.lost) - len(keep)
        self.high, self.low, self.lost = self.high[keep], self.low[keep], self.lost[keep]
        last = self.layers[-1]
        self.layers[-1] = replace(last, before=last.before[keep], move=last.move[keep])

    def record_discarded_bound(self, loss_per_spent: float, loss_per_saved: float) -> None:
        """Lower ``proved`` to the least bound of the current states, before they are dropped."""
        bounds = self._bound_deficits(self.lost, self.high + self.low - self.shortfall, loss_per_spent, loss_per_saved)
        self.proved = min(self.proved, float(bounds.min(initial=np.inf)))

    def _update_best(self, lost: Floats, remaining: Floats, state_count: int) -> None:
        deficits = np.where(remaining >= 0, lost + self.price * remaining, np.inf)
        least = int(deficits.argmin())
        if deficits[least] < self.best:
            self.best = float(deficits[least])
            self.best_at = len(self.layers), least % state_count, least // state_count

    def _bound_deficits(self, lost: Floats, remaining: Floats, loss_per_spent: float, loss_per_saved: float) -> Floats:
        """Return lower bounds of the deficits that are reachable from states."""
        rates: Floats = np.where(remaining >= 0, min(self.price, loss_per_spent), -loss_per_saved)
        return lost + remaining * rates

    def _find_promising(self, lost: Floats, remaining: Floats, loss_per_spent: float, loss_per_saved: float) -> Int64s:
        """Return the candidates that may lead to an improvement."""
        bounds = self._bound_deficits(lost, remaining, loss_per_spent, loss_per_saved)
        beaten = bounds >= self.limit
        self.proved = min(self.proved, float(bounds.min(where=beaten, initial=np.inf)))
        return np.flatnonzero(~beaten)

    def _find_undominated(self, values: Floats) -> Int64s:
        """Return the states with more value than all states that leave more budget.

        Values are compared in units of a grain: a dropped state has at most one grain more value. Two more grains cover
        the rounding of losses and values.
        """
        grain = RELATIVE_PRECISION * (self.scale + float(np.abs(values).max(initial=0.0)))
        self.rounding_slack += 3 * grain
        ranks = np.floor(values / grain)
        rises = np.ones(len(ranks), dtype=bool)
        rises[1:] = ranks[1:] > np.maximum.accumulate(ranks)[:-1]
        return np.flatnonzero(rises)


def _combine(states: Floats, moves: Floats) -> Floats:
    """Return the combinations of every state with no move and with each move."""
    return (np.append(0.0, moves)[:, None] + states).ravel()


def search_core(
    core: KnapsackCore,
    reduced: ReducedLosses,
    best: float,
    allowed: Callable[[float], float],
    in_time: Callable[[], bool],
) -> CoreSearch:
    """Search the core for an assignment whose deficit is below ``best``.

    The search ends when no such assignment can exist, or when time or memory is exhausted. The core must contain every
    move whose loss is below ``best - allowed(best)``.

    Complexity: O(l s a log(s a)) time for l steps from s states with a moves.
    """
    first, more = reduced.remaining
    high, low = split_amounts(np.array([first]), core.rounding_unit)
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
        if not _search_group(search, group, core, k, in_time):
            search.record_discarded_bound(core.loss_per_spent[k], core.loss_per_saved[k])
            break
    else:
        search.record_discarded_bound(np.inf, np.inf)
    return search


def _search_group(
    search: CoreSearch, group: MoveGroup, core: KnapsackCore, k: int, in_time: Callable[[], bool]
) -> bool:
    """Search one group; return whether the search may continue."""
    at, size, has_moved = 0, 1, True
    while at < len(group.rows) and has_moved and len(search.lost):
        group = _drop_losing_moves(search, group)
        if not len(group.choices):
            break
        if not in_time() or search.kept > MAX_STATES:
            return False
        search.prune_states(MAX_CANDIDATES // (len(group.choices) + 1), core.loss_per_spent[k], core.loss_per_saved[k])
        rows = group.rows[at : at + size]
        at += len(rows)
        rest = k if at < len(group.rows) else k + 1
        has_moved = search.extend_states(group, rows, core.loss_per_spent[rest], core.loss_per_saved[rest])
        size = 2 * size if len(group.choices) == 1 else 1
    return True


def _drop_losing_moves(search: CoreSearch, group: MoveGroup) -> MoveGroup:
    """Drop the moves whose loss exceeds the current limit."""
    fewer = group.select_below(search.limit)
    if fewer is not group:
        search.proved = min(search.proved, search.limit)
    return fewer
