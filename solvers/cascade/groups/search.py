"""Solver for grouped classifiers: choice between exact search and beam search.

``group-states`` is exact. It computes V (``groups.states``) of all states, at most 2 million. With deadlines it also
keeps a front of labels in each state, at most 2 million labels, pruned by V. Beyond either limit, ``group-beam`` is
used. It is the same search with a limited number of labels per level. If there are too many states for V, the bound is
the chain relaxation. The result of ``group-beam`` is often optimal, and always has a proved lower bound.
"""

import math
from collections.abc import Iterator

from models import InvalidRequest
from models.cascade import Algorithm
from models.errors import Fault
from solvers.cascade.dependent_classifiers import build_dependent_frontier
from solvers.cascade.groups.labels import LabelSearch, SearchTask, TooManyLabels
from solvers.cascade.groups.lower_bound import build_chain_bound, build_single_guess
from solvers.cascade.groups.state_layout import StateLayout
from solvers.cascade.groups.states import CostToGo, compute_cost_to_go
from solvers.cascade.independent_classifiers import build_independent_frontier
from solvers.cascade.problem import MAX_LABELS, CascadeFront, CascadeProblem

BEAM_CELLS = 4_000_000
"""Labels of a beam times the square of the number of members; proportional to the time of a level."""

_BEAM_DEADLINES = 24


def solve_groups(
    problem: CascadeProblem, deadline: float | None, algorithm: Algorithm | None
) -> tuple[CascadeFront, Algorithm]:
    """Order grouped classifiers for one deadline or none; also return the algorithm that was used.

    If an exact search has too many labels, the beam search is used.

    Raises:
        InvalidRequest: ``group-states`` is requested with too many states.
    """
    layout = StateLayout.from_problem(problem)
    small = layout.states <= MAX_LABELS
    if algorithm == "group-states" and not small:
        excess = f"at most {MAX_LABELS:,} states, got {layout.states:,}; use group-beam"
        raise InvalidRequest.from_faults(Fault(("algorithm",), f"group-states supports {excess}"))
    within = math.inf if deadline is None else deadline
    if algorithm == "group-beam" or not small:
        return _solve_beam(layout, within), "group-beam"
    cost_to_go = compute_cost_to_go(layout)
    if problem.evaluate(free := cost_to_go.extract_best_cascade()).maximum <= within:
        return CascadeFront(iter([free])), "group-states"
    return _solve_exact(layout, cost_to_go, within, for_all_deadlines=False) or (
        _solve_beam(layout, within, cost_to_go),
        "group-beam",
    )


def solve_group_frontier(problem: CascadeProblem) -> tuple[CascadeFront, Algorithm]:
    """Order grouped classifiers for all deadlines.

    If the problem is too large for exact search, beam search solves it for some deadlines.

    Beam search may miss cascades between these deadlines, so the front is then not exact. Its lower bound is that of
    the problem without a deadline. Special cases have exact algorithms: one group, or one member per group.
    """
    layout, cost_to_go = StateLayout.from_problem(problem), None
    if len(layout.radix) == len(problem.idk):
        return build_independent_frontier(problem), "ratio-frontier"
    if len(layout.radix) == 1:
        return build_dependent_frontier(problem), "power-frontier"
    if layout.states <= MAX_LABELS:
        cost_to_go = compute_cost_to_go(layout)
        if exact := _solve_exact(layout, cost_to_go, math.inf, for_all_deadlines=True):
            return exact
    fronts = [_solve_beam(layout, deadline, cost_to_go) for deadline in (*_spread_deadlines(problem), math.inf)]
    free = list(fronts[-1].cascades)
    least = problem.evaluate(free[0]).expected
    bound = fronts[-1].lower_bound
    chained = _chain_cascades([*fronts[:-1], CascadeFront(iter(free))])
    return CascadeFront(chained, least if bound is None else min(bound, least)), "group-beam"


def _solve_exact(
    layout: StateLayout, cost_to_go: CostToGo, deadline: float, *, for_all_deadlines: bool
) -> tuple[CascadeFront, Algorithm] | None:
    """Search with a front in each state; return None if there are too many labels."""
    bounds = (cost_to_go.look_up, build_chain_bound(layout).evaluate)
    try:
        return LabelSearch(
            SearchTask(layout, bounds, cost_to_go.look_up, deadline, for_all_deadlines)
        ).run(), "group-states"
    except TooManyLabels:
        return None


def _solve_beam(layout: StateLayout, deadline: float, cost_to_go: CostToGo | None = None) -> CascadeFront:
    bounds = (build_chain_bound(layout).evaluate, *([] if cost_to_go is None else [cost_to_go.look_up]))
    width = max(BEAM_CELLS // max(len(layout.ranks), 1) ** 2, 1)
    return LabelSearch(SearchTask(layout, bounds, build_single_guess(layout).evaluate, deadline, width=width)).run()


def _spread_deadlines(problem: CascadeProblem) -> list[float]:
    least, most = problem.last.worst_case, problem.last.worst_case + float(problem.worst.sum())
    return [least + (most - least) * i / _BEAM_DEADLINES for i in range(_BEAM_DEADLINES)]


def _chain_cascades(fronts: list[CascadeFront]) -> Iterator[tuple[int, ...]]:
    for front in fronts:
        yield from front.cascades
