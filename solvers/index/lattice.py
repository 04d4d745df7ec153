"""Which feature sets to train: the lattice of all subsets, searched from both ends (Algorithm 2).

A feature set is a bit mask over the F features; *expanding* it means learning its accuracy A, which costs a training. A
set x strictly between expanded sets s and r (s ⊂ x ⊂ r) need not be expanded if s dominates r within alpha (Property
3.3; 3.11 with tolerance τ for accuracies that fall by at most τ when features are added):

    (1 + alpha) · A(s) ≥ A(r) + τ   implies   (1 + alpha) · A(s) ≥ A(x),   and s ⊂ x costs no more for any size.

For a given x the best sandwich has the most accurate expanded subset and the least accurate expanded superset. So one
maximum over subsets and one minimum over supersets decide all sets of a layer at once, by transforms over the lattice.
Algorithm 2 read literally only looks at neighbours of expanded sets: a set all of whose neighbours were sandwiched is
then never looked at, though it need not be sandwiched itself. Here every set is looked at, so none is lost unseen.

**Demands.** A set s that justified skipping x must later stand in for it: x may be as accurate as A(r) + τ. Each
expanded set carries a demand D(s), the largest accuracy that any set it stands in for can have, itself included.
Whoever replaces s must meet D(s) within alpha and not merely A(s): so factors 1 + alpha do not compound
(``candidates``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s

Accuracy = Callable[[Sequence[int]], Sequence[float]]
"""Tells the accuracies of feature sets, given as masks; raises Exhausted if a budget of trainings is used up."""

MAX_FEATURES = 20
"""Features that a lattice of all subsets can hold in memory, layer by layer."""


class Exhausted(Exception):
    """The budget of feature sets or of time is used up."""


@dataclass(frozen=True, slots=True, eq=False)
class Expanded:
    """What a search found. masks: (m,) int64 the expanded sets in the order of expansion; accuracies, demands: (m,);
    pruned: the number of sets skipped, 2^features - m."""

    features: int
    masks: Int64s
    accuracies: Floats
    demands: Floats

    @property
    def pruned(self) -> int:
        """The number of feature sets that were not expanded."""
        return (1 << self.features) - len(self.masks)

    def only(self, places: Int64s) -> "Expanded":
        """Take some of the sets."""
        return Expanded(self.features, self.masks[places], self.accuracies[places], self.demands[places])


Report = Callable[[int, int], None]
"""Hears how many sets are expanded and how many are skipped so far."""


def _nobody(expanded: int, pruned: int) -> None:
    """Hear nothing."""


def expand(
    accuracy: Accuracy,
    features: int,
    *,
    alpha: float = 0.0,
    tolerance: float = 0.0,
    covering: bool = False,
    known: Expanded | None = None,
    report: Report = _nobody,
) -> Expanded:
    """Expand every feature set that is not sandwiched, layer by layer from the bottom and the top.

    accuracy is called once for each layer that has sets to expand, with all of them. known: sets whose accuracy an
    earlier search has learned, which are taken as expanded from the start; so what a search for a smaller alpha expands
    contains what was expanded for the larger (Property 3.9, which two searches that know nothing of each other need not
    have: knowing more sets can sandwich more).

    covering: use Property 3.4 too. It claims more than Axiom 2.1 gives: if s dominates several supersets, nothing
    between s and their union is expanded. Two features that are useless alone and perfect together break it.

    O(F · 2^F) time for each layer that expands sets, at most F + 1, O(2^F) for the others; O(2^F) memory; beside the
    trainings.

    >>> flat = expand(lambda masks: [0.5] * len(masks), 10)
    >>> flat.masks.tolist(), flat.pruned
    ([0, 1023], 1022)
    """
    state = _State.start(features, known)
    of_size = _by_size(features)
    pruned = 0
    for size in _layer_order(features):
        layer = of_size[size]
        fresh = layer[~state.is_expanded[layer]]
        lower, upper = state.sandwich(fresh)
        skip = (1 + alpha) * lower.accuracies >= upper.accuracies + tolerance
        state.demand(lower.places[skip], upper.accuracies[skip] + tolerance)
        if covering:
            skip |= state.covered(fresh, ~skip, lower.places, (alpha, tolerance))
        kept = fresh[~skip]
        if len(kept):
            state.add(kept, np.array(accuracy(kept.tolist()), dtype=np.float64))
        pruned += int(np.count_nonzero(skip))
        report(len(state.masks), pruned)
    return Expanded(features, state.masks, state.accuracies, state.demands)


def _by_size(features: int) -> list[Int64s]:
    """List the masks of each number of features, ascending."""
    every = np.arange(1 << features, dtype=np.int64)
    sizes = np.bitwise_count(every)
    return [every[sizes == size] for size in range(features + 1)]


def _layer_order(features: int) -> list[int]:
    """Take layers from the bottom and the top in turn: 0, F, 1, F - 1, …"""
    ends = [size for k in range(features + 1) for size in (k, features - k)]
    return list(dict.fromkeys(ends))


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """For each asked set the best expanded set on one side: its accuracy, and its place in the order of expansion."""

    accuracies: Floats
    places: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """For every set, (2^F,), the best rank among its expanded subsets, below, and its supersets, above. order: (m,) the
    expanded sets' places, by rank: by accuracy; of equals the larger set, then the larger mask, comes first."""

    order: Int64s
    below: Int32s
    above: Int32s

    @classmethod
    def of(cls, features: int, masks: Int64s, accuracies: Floats) -> "_Ranked":
        """Rank sets, and take maxima and minima over the lattice: O(F · 2^F)."""
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
    """The expanded sets so far, in the order of expansion, which masks they are, and their ranks, until there are more
    of them: most layers of a search that knows many sets add none."""

    features: int
    masks: Int64s
    accuracies: Floats
    demands: Floats
    is_expanded: Bools
    ranked: _Ranked | None = None

    @classmethod
    def start(cls, features: int, known: Expanded | None) -> "_State":
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

    def demand(self, places: Int64s, accuracies: Floats) -> None:
        """Raise the demands of sets that stand in for others."""
        np.maximum.at(self.demands, places, accuracies)

    def sandwich(self, asked: Int64s) -> tuple[_Side, _Side]:
        """Find the most accurate expanded subset and the least accurate expanded superset of each set.

        Ranks stand for accuracies in the transforms, so that the sets themselves are found with them; among equals the
        smaller set, then the smaller mask. Sets without one get accuracy -∞ below, and +∞ above.
        """
        if self.ranked is None:
            self.ranked = _Ranked.of(self.features, self.masks, self.accuracies)
        low, high = self.ranked.below[asked], self.ranked.above[asked]
        accuracies = np.concatenate((self.accuracies[self.ranked.order], [np.inf], [-np.inf]))  # the last: of rank -1
        places = np.concatenate((self.ranked.order, [-1, -1]))
        return _Side(accuracies[low], places[low]), _Side(accuracies[high], places[high])

    def covered(self, asked: Int64s, among: Bools, lower: Int64s, margin: tuple[float, float]) -> Bools:
        """Find the sets that Property 3.4 or its mirror skips, and raise demands as if it were true.

        asked: the layer's sets; among: those not skipped yet; lower: the place of each one's best expanded subset.
        """
        alpha, tolerance = margin
        skip = np.zeros(len(asked), dtype=bool)
        reaches, needs = (1 + alpha) * self.accuracies, self.accuracies + tolerance
        for place, s in enumerate(self.masks.tolist()):
            above = (self.masks & s == s) & (self.masks != s) & (reaches[place] >= needs)
            union = int(np.bitwise_or.reduce(self.masks[above], initial=s))
            hit = among & ~skip & (asked & s == s) & (asked | union == union) & (asked != union)
            if hit.any():
                skip |= hit
                self.demand(np.array([place]), needs[above].max(keepdims=True))
        for place, r in enumerate(self.masks.tolist()):
            below = (self.masks | r == r) & (self.masks != r) & (reaches >= needs[place])
            shared = int(np.bitwise_and.reduce(self.masks[below], initial=r))
            hit = among & ~skip & (asked | r == r) & (asked & shared == shared) & (asked != shared) & (asked != r)
            skip |= hit
            self.demand(lower[hit], np.minimum(reaches[lower[hit]], needs[place]))
        return skip
