"""Independent groups of fully dependent IDK classifiers: results of Algorithm 3 without enumerating 2^(n-1) subsets.

Only the last member of each group that ran matters (Equation 10). V(state) is the least expected remaining duration.
The next call is either the deterministic classifier or any later member k of a group:

    V(s) = min(C_n, min over k of C_k + (1 - p_k(s)) · V(s after k)),

with p_k(s) the conditional probability of Equation 7. States of one level are independent, and computed together.

Complexity: O(n ∏ (g_i + 1)) time for ∏ (g_i + 1) states with n choices, compared with Θ(2^(n-1) n^2) of Algorithm 3; 40
bytes per state.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from models.arrays import Floats, Int16s, Int64s
from solvers.cascade.groups.state_layout import StateLayout
from solvers.cascade.problem import TIE_TOLERANCE

_BLOCK_CELLS = 1 << 18
"""Number of states times members that are processed at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class CostToGo:
    """Least expected remaining duration of each state, and the cascade that attains it.

    Attributes:
        expected: (states + 1,), the duration; the last entry is the end state, which has 0.
        maximum: (states + 1,), worst-case duration of the cascade.
        choice: (states + 1,), next call of the cascade; n is the deterministic classifier.
    """

    layout: StateLayout
    expected: Floats
    maximum: Floats
    choice: Int16s

    def look_up(self, states: Int64s, spare: Floats) -> Floats:
        """Return the cost-to-go of states, (s, 1), as (s,); ``spare`` is ignored: bounds have this signature."""
        return np.asarray(self.expected[states[:, 0]])

    def extract_best_cascade(self) -> tuple[int, ...]:
        """Return the best calls from the initial state."""
        layout, state, members = self.layout, 0, []
        ranks, groups, strides = layout.ranks.tolist(), layout.problem.groups.tolist(), layout.stride.tolist()
        digits = [0] * len(strides)
        while (k := int(self.choice[state])) < len(ranks):
            group = groups[k]
            state += (ranks[k] - digits[group]) * strides[group]
            digits[group] = ranks[k]
            members.append(k)
        return tuple(members)


def compute_cost_to_go(layout: StateLayout) -> CostToGo:
    """Compute V of all states, from the last level to the first; ties go to the smallest maximum duration."""
    states = layout.states
    cost_to_go = CostToGo(layout, np.zeros(states + 1), np.zeros(states + 1), np.zeros(states + 1, dtype=np.int16))
    levels = _compute_levels(layout)
    order = np.argsort(levels, kind="stable")[::-1]
    rows = max(_BLOCK_CELLS // (len(layout.ranks) + 1), 1)
    for start in range(0, states, rows):
        block = order[start : start + rows]
        changes = np.flatnonzero(np.diff(levels[block])) + 1
        _fill_block(cost_to_go, block, [0, *changes.tolist(), len(block)])
    return cost_to_go


def _compute_levels(layout: StateLayout) -> Int16s:
    levels = np.zeros(1, dtype=np.int16)
    for radix in layout.radix:
        levels = np.add.outer(np.arange(radix, dtype=np.int16), levels).ravel()
    return levels


def _fill_block(cost_to_go: CostToGo, block: Int64s, cuts: list[int]) -> None:
    """Choose the next call in each state of a block, level by level."""
    times, left, after = _list_choices(cost_to_go.layout, block)
    worst = np.append(cost_to_go.layout.problem.worst, cost_to_go.layout.problem.last.worst_case)
    for start, end in pairwise(cuts):
        states, to = block[start:end], after[start:end]
        value = times[start:end] + left[start:end] * cost_to_go.expected[to]
        least = value.min(axis=1)
        longest = worst + cost_to_go.maximum[to]
        longest[value > least[:, None] * (1 + TIE_TOLERANCE)] = np.inf
        cost_to_go.expected[states] = least
        cost_to_go.choice[states] = longest.argmin(axis=1)
        cost_to_go.maximum[states] = longest.min(axis=1)


def _list_choices(layout: StateLayout, states: Int64s) -> tuple[Floats, Floats, Int64s]:
    """Return the choices of each state, (s, n + 1), the deterministic classifier last.

    A choice is its time (inf if useless), the share left unclassified, and the next state.
    """
    problem, shape = layout.problem, (len(states), len(layout.ranks) + 1)
    rise, success = layout.list_transitions(layout.decode_states(states[:, None]))
    times, left = np.full(shape, problem.last.execution_time), np.zeros(shape)
    after = np.full(shape, layout.states)
    useful = rise > 0
    times[:, :-1] = np.where(useful, problem.times, np.inf)
    left[:, :-1] = np.where(useful, 1.0 - success, 0.0)
    after[:, :-1] = np.where(useful, states[:, None] + rise * layout.stride[problem.groups], layout.states)
    return times, left, after
