"""Grouped classifiers with deadlines, and however many: which search to run, and what it proves.

``group-states`` is exact: V of all states if there are at most 2 million, and with deadlines a frontier in each state,
pruned with V, of at most 2 million labels in all. ``group-beam`` takes over beyond either limit: the same search with
the chain relaxation as its bound if V is out of reach, and a limited number of labels a level. It is often exact all
the same, and always says what it proved.
"""

import math
from collections.abc import Iterator

from models import InvalidRequest
from models.cascade import Algorithm
from models.errors import Fault
from solvers.cascade.groups.labels import Search, Task, TooManyLabels
from solvers.cascade.groups.lower_bound import chain_bound, single_guess
from solvers.cascade.groups.state_layout import Layout
from solvers.cascade.groups.states import CostToGo, cost_to_go
from solvers.cascade.power_order import power_frontier
from solvers.cascade.problem import MAX_LABELS, Front, Problem
from solvers.cascade.ratio_order import ratio_frontier

BEAM_CELLS = 4_000_000
"""Labels of a beam times the square of the number of members; a level takes time proportional to it."""

_DEADLINES = 24


def solve_groups(problem: Problem, deadline: float | None, algorithm: Algorithm | None) -> tuple[Front, Algorithm]:
    """Order grouped classifiers for no deadline or for one; tells which algorithm did it.

    Refuses ``group-states`` if there are more states than it may use; if its labels turn out to be too many, the beam
    answers and says so.
    """
    layout = Layout.of(problem)
    small = layout.states <= MAX_LABELS
    if algorithm == "group-states" and not small:
        excess = f"{layout.states:,} states, at most {MAX_LABELS:,} are exact: use group-beam"
        raise InvalidRequest.at(Fault(("algorithm",), f"group-states needs {excess}"))
    within = math.inf if deadline is None else deadline
    if algorithm == "group-beam" or not small:
        return _beam(layout, within), "group-beam"
    togo = cost_to_go(layout)
    if problem.evaluate(free := togo.path()).maximum <= within:
        return Front(iter([free])), "group-states"
    return _exact(layout, togo, within, every=False) or (_beam(layout, within, togo), "group-beam")


def group_frontier(problem: Problem) -> tuple[Front, Algorithm]:
    """Order grouped classifiers for all deadlines at once; beyond the limits, for some deadlines by beam search.

    Then a cascade between two of these deadlines may be missed, so the front is never called exact: its lower bound is
    that for no deadline. Groups of one each, or all in one group, have exact algorithms of their own.
    """
    layout, togo = Layout.of(problem), None
    if len(layout.radix) == len(problem.idk):
        return ratio_frontier(problem), "ratio-frontier"
    if len(layout.radix) == 1:
        return power_frontier(problem), "power-frontier"
    if layout.states <= MAX_LABELS:
        togo = cost_to_go(layout)
        if exact := _exact(layout, togo, math.inf, every=True):
            return exact
    fronts = [_beam(layout, deadline, togo) for deadline in (*_spread(problem), math.inf)]
    free = list(fronts[-1].cascades)
    least = problem.evaluate(free[0]).expected
    bound = fronts[-1].lower_bound
    chained = _chained([*fronts[:-1], Front(iter(free))])
    return Front(chained, least if bound is None else min(bound, least)), "group-beam"


def _exact(layout: Layout, togo: CostToGo, deadline: float, *, every: bool) -> tuple[Front, Algorithm] | None:
    """Search with a frontier in each state, or give up for want of labels."""
    bounds = (togo.at, chain_bound(layout).at)
    try:
        return Search(Task(layout, bounds, togo.at, deadline, every)).run(), "group-states"
    except TooManyLabels:
        return None


def _beam(layout: Layout, deadline: float, togo: CostToGo | None = None) -> Front:
    bounds = (chain_bound(layout).at, *([] if togo is None else [togo.at]))
    width = max(BEAM_CELLS // max(len(layout.ranks), 1) ** 2, 1)
    return Search(Task(layout, bounds, single_guess(layout).at, deadline, width=width)).run()


def _spread(problem: Problem) -> list[float]:
    """Spread deadlines evenly between the deterministic classifier alone and all classifiers together."""
    least, most = problem.last.worst_case, problem.last.worst_case + float(problem.worst.sum())
    return [least + (most - least) * i / _DEADLINES for i in range(_DEADLINES)]


def _chained(fronts: list[Front]) -> Iterator[tuple[int, ...]]:
    for front in fronts:
        yield from front.cascades
