"""Lattice search (Algorithm 2): selects the feature sets to train.

The search starts from both ends of the lattice of subsets.

A feature set is a bit mask over the F features. To *expand* it is to estimate its accuracy A, which costs a training. A
set x strictly between expanded sets s and r (s ⊂ x ⊂ r) is pruned if s dominates r within alpha (Property 3.3). The
tolerance τ is the largest possible fall of accuracy when features are added (Property 3.11):

    (1 + alpha) · A(s) ≥ A(r) + τ   implies   (1 + alpha) · A(s) ≥ A(x),   and s ⊂ x costs no more for any size.

The best s is the most accurate expanded subset of x, the best r its least accurate expanded superset. So one maximum
over subsets and one minimum over supersets decide all sets of a layer at once, by transforms over the lattice.
Algorithm 2, read literally, visits only neighbors of expanded sets. So it misses a set that is not pruned if all of its
neighbors are pruned. Here every set is visited.

**Demands.** If s prunes x, s replaces x in the index, although x may be as accurate as A(r) + τ. So each expanded set s
has a demand D(s): the largest possible accuracy of s and of the sets that s replaces. A set that replaces s must reach
D(s) within alpha, not only A(s). This prevents factors 1 + alpha from compounding (``candidates``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s

AccuracyFunction = Callable[[Sequence[int]], Sequence[float]]
"""Returns the accuracies of feature sets, given as masks; raises BudgetExhausted."""

MAX_FEATURES = 20
"""Largest lattice that fits in memory."""


class BudgetExhausted(Exception):
    """The search budget (number of feature sets, or time) is exhausted."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpandedSets:
    """Result of a lattice search.

    Attributes:
        features: the number of features.
        masks: (m,) int64, expanded sets in the order of expansion.
        accuracies: (m,), A, estimated.
        demands: (m,), D, the largest accuracy of the sets that each set replaces.
    """

    features: int
    masks: Int64s
    accuracies: Floats
    demands: Floats

    @property
    def pruned(self) -> int:
        """The number of feature sets that were not expanded."""
        return (1 << self.features) - len(self.masks)

    def select(self, indices: Int64s) -> "ExpandedSets":
        """Return some of the sets."""
        return ExpandedSets(self.features, self.masks[indices], self.accuracies[indices], self.demands[indices])


Report = Callable[[int, int], None]
"""Receives the numbers of expanded and of pruned sets so far."""


def _ignore_progress(expanded: int, pruned: int) -> None:
    """Default of ``report``."""


def expand_lattice(
    accuracy: AccuracyFunction,
    features: int,
    *,
    alpha: float = 0.0,
    tolerance: float = 0.0,
    covering: bool = False,
    known: ExpandedSets | None = None,
    report: Report = _ignore_progress,
) -> ExpandedSets:
    """Expand every feature set that is not pruned, layer by layer from the bottom and the top.

    Args:
        accuracy: returns accuracies of sets; called once per layer with all sets to expand.
        covering: also use Property 3.4: if s dominates several supersets, no set between s and their union is expanded.
            Property 3.4 does not follow from Axiom 2.1: two features that are useless alone and perfect together
            violate it.
        known: sets expanded by an earlier search. With it, a search for a smaller alpha expands all sets of the search
            for a larger alpha (Property 3.9, which two independent searches need not satisfy).
    Complexity: O(F · 2^F) time for each of at most F + 1 layers that expand sets, O(2^F) for the others, in addition to
        the trainings; O(2^F) memory.

    >>> flat = expand_lattice(lambda masks: [0.5] * len(masks), 10)
    >>> flat.masks.tolist(), flat.pruned
    ([0, 1023], 1022)
    """
    state = _State.from_known(features, known)
    of_size = _by_size(features)
    pruned = 0
    for size in _layer_order(features):
        layer = of_size[size]
        fresh = layer[~state.is_expanded[layer]]
        lower, upper = state.find_bounds(fresh)
        skip = (1 + alpha) * lower.accuracies >= upper.accuracies + tolerance
        state.raise_demands(lower.indices[skip], upper.accuracies[skip] + tolerance)
        if covering:
            skip |= state.find_covered(fresh, ~skip, lower.indices, (alpha, tolerance))
        kept = fresh[~skip]
        if len(kept):
            state.add(kept, np.array(accuracy(kept.tolist()), dtype=np.float64))
        pruned += int(np.count_nonzero(skip))
        report(len(state.masks), pruned)
    return ExpandedSets(features, state.masks, state.accuracies, state.demands)


def _by_size(features: int) -> list[Int64s]:
    """Return the masks of all sets, grouped by their number of features, rising."""
    every = np.arange(1 << features, dtype=np.int64)
    sizes = np.bitwise_count(every)
    return [every[sizes == size] for size in range(features + 1)]


def _layer_order(features: int) -> list[int]:
    """Return layers from the bottom and the top in turn: 0, F, 1, F - 1, …"""
    ends = [size for k in range(features + 1) for size in (k, features - k)]
    return list(dict.fromkeys(ends))


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """For each queried set, the best expanded set on one side.

    Holds the accuracy of this set and its index in the order of expansion.
    """

    accuracies: Floats
    indices: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """For every set, the best rank among its expanded subsets (below) and supersets (above): (2^F,) each.

    order: (m,), indices of the expanded sets by rank: by accuracy; ties by larger set, then by larger mask.
    """

    order: Int64s
    below: Int32s
    above: Int32s

    @classmethod
    def from_sets(cls, features: int, masks: Int64s, accuracies: Floats) -> "_Ranked":
        """Rank the sets, and take maxima and minima over the lattice: O(F · 2^F)."""
        sizes = np.bitwise_count(masks)
        order = np.lexsort((-masks, -sizes.astype(np.int64), accuracies))
        ranks = np.arange(len(order), dtype=np.int32)
        below = np.full(1 << features, -1, dtype=np.int32)
        above = np.full(1 << features, len(order), dtype=np.int32)
        below[masks[order]] = ranks
        above[masks[order]] = ranks
        for bit in range(features):
            halves = below.reshape(-1, 2, 1 << bit)
            np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
            halves = above.reshape(-1, 2, 1 << bit)
            np.minimum(halves[:, 0], halves[:, 1], out=halves[:, 0])
        return cls(order, below, above)


@dataclass(slots=True, eq=False)
class _State:
    """Sets expanded so far, in the order of expansion, with cached ranks."""

    features: int
    masks: Int64s
    accuracies: Floats
    demands: Floats
    is_expanded: Bools
    ranked: _Ranked | None = None

    @classmethod
    def from_known(cls, features: int, known: ExpandedSets | None) -> "_State":
        empty = np.zeros(0)
        state = cls(features, np.zeros(0, dtype=np.int64), empty, empty, np.zeros(1 << features, dtype=bool))
        if known is not None:
            state.add(known.masks, known.accuracies)
        return state

    def add(self, masks: Int64s, accuracies: Floats) -> None:
        self.masks = np.concatenate((self.masks, masks))
        self.accuracies = np.concatenate((self.accuracies, accuracies))
        self.demands = np.concatenate((self.demands, accuracies))
        self.is_expanded[masks] = True
        self.ranked = None

    def raise_demands(self, indices: Int64s, accuracies: Floats) -> None:
        """Raise the demands of the sets that replace other sets."""
        np.maximum.at(self.demands, indices, accuracies)

    def find_bounds(self, queried: Int64s) -> tuple[_Side, _Side]:
        """Return the most accurate expanded subset and the least accurate expanded superset of each set.

        The transforms run on ranks, so that they yield the sets themselves. Ties go to the smaller set, then to the
        smaller mask. Without such a set, the accuracy is -∞ below and +∞ above.
        """
        if self.ranked is None:
            self.ranked = _Ranked.from_sets(self.features, self.masks, self.accuracies)
        low, high = self.ranked.below[queried], self.ranked.above[queried]
        accuracies = np.concatenate((self.accuracies[self.ranked.order], [np.inf], [-np.inf]))  # the last: of rank -1
        indices = np.concatenate((self.ranked.order, [-1, -1]))
        return _Side(accuracies[low], indices[low]), _Side(accuracies[high], indices[high])

    def find_covered(self, queried: Int64s, among: Bools, lower: Int64s, margin: tuple[float, float]) -> Bools:
        """Return the sets that Property 3.4 or its mirror prunes.

        Raise the demands of the sets that replace them.

        Args:
            queried: the layer's sets.
            among: the queried sets that are not pruned yet.
            lower: index of the best expanded subset of each of these.
        """
        alpha, tolerance = margin
        skip = np.zeros(len(queried), dtype=bool)
        reaches, needs = (1 + alpha) * self.accuracies, self.accuracies + tolerance
        for place, s in enumerate(self.masks.tolist()):
            above = (self.masks & s == s) & (self.masks != s) & (reaches[place] >= needs)
            union = int(np.bitwise_or.reduce(self.masks[above], initial=s))
            hit = among & ~skip & (queried & s == s) & (queried | union == union) & (queried != union)
            if hit.any():
                skip |= hit
                self.raise_demands(np.array([place]), needs[above].max(keepdims=True))
        for place, r in enumerate(self.masks.tolist()):
            below = (self.masks | r == r) & (self.masks != r) & (reaches >= needs[place])
            shared = int(np.bitwise_and.reduce(self.masks[below], initial=r))
            is_between = (queried | r == r) & (queried & shared == shared)
            hit = among & ~skip & is_between & (queried != shared) & (queried != r)
            skip |= hit
            self.raise_demands(lower[hit], np.minimum(reaches[lower[hit]], needs[place]))
        return skip
