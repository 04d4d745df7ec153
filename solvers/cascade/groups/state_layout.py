"""State encoding of grouped classifiers: the member of each group that ran last.

A state has a digit per group: the rank, by increasing P, of the member that ran last, or 0 if none ran. Only members of
higher rank are useful afterward (Definition 2), so digits never fall. The sum of the digits is the level of the state;
every call increases it.
"""

import math
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.cascade.problem import CascadeProblem

_WORD_STATES = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class StateLayout:
    """Encoding of states for n members in m groups.

    Attributes:
        ranks: (n,), from 1.
        radix: (m,), members + 1.
        word, stride: (m,); a state is w int64 words, and the digit of group g is words[word[g]] // stride[g] %
            radix[g].
        powers: (m, max radix), P of the member of each rank, 0 at rank 0.
    """

    problem: CascadeProblem
    ranks: Int64s
    radix: Int64s
    word: Int64s
    stride: Int64s
    powers: Floats

    @classmethod
    def from_problem(cls, problem: CascadeProblem) -> "StateLayout":
        """Rank the members of each group, which the problem has sorted by P."""
        m = int(problem.groups.max()) + 1 if len(problem.groups) else 0
        ranks = np.zeros(len(problem.groups), dtype=np.int64)
        radix = np.ones(m, dtype=np.int64)
        for k, g in enumerate(problem.groups):
            ranks[k] = radix[g]
            radix[g] += 1
        powers = np.zeros((m, int(radix.max(initial=1))))
        powers[problem.groups, ranks] = problem.powers
        return cls(problem, ranks, radix, *_assign_words(radix), powers)

    @property
    def states(self) -> int:
        """Number of states, ∏ (g_i + 1)."""
        return math.prod(self.radix.tolist())

    @property
    def words_per_state(self) -> int:
        """Number of int64 words of a state; 1 below 2^62 states."""
        return int(self.word.max(initial=0)) + 1

    @property
    def levels(self) -> int:
        """Level of the state in which the most powerful member of each group has run."""
        return int((self.radix - 1).sum())

    def decode_states(self, states: Int64s) -> Int64s:
        """Decode states, (s, w), into digits, (s, m)."""
        return np.asarray(states[:, self.word] // self.stride % self.radix)

    def list_transitions(self, digits: Int64s) -> tuple[Int64s, Floats]:
        """Return the effects of a call of each member k in each state.

        Returns:
            Two arrays, (s, n) each: the increase of the digit of k's group, where 0 or less means that k is useless;
            and the success probability of k given the earlier calls, (P_k - P_last) / (1 - P_last) (Equation 7).
        """
        own = digits[:, self.problem.groups]
        last = self.powers[self.problem.groups, own]
        return np.asarray(self.ranks - own), (self.problem.powers - last) / (1.0 - last)


def _assign_words(radix: Int64s) -> tuple[Int64s, Int64s]:
    """Assign groups to as few words as hold their digits."""
    word, stride = np.zeros_like(radix), np.ones_like(radix)
    at, size = 0, 1
    for g, r in enumerate(radix.tolist()):
        if size * r >= _WORD_STATES:
            at, size = at + 1, 1
        word[g], stride[g] = at, size
        size *= r
    return word, stride
