"""What an index build keeps, and how it answers: feature sets, their costs, the index over sizes, and the models.

A look-up of ``poly-dom`` is two binary searches: for the size among the breakpoints, and for the budget among the
costs, at that very size, of the skyline that holds there. At a breakpoint, where curves meet, all candidates are looked
at. Elsewhere too rounding can have put two curves in the wrong order. Costs on the skyline rise, so an answer can only
be wrong if the next cost is above the budget by no more than rounding; then, and only then, all candidates are looked
at. No answer ever costs more than the budget.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import Fault, InvalidRequest
from models.index import IndexDecision, IndexQuery, Method, SkylineItem, sizes_of
from solvers.index.checks import refuse_contradictions
from solvers.index.costs import Costs, evaluate, members_of
from solvers.index.sequences import Sequences, walk
from solvers.index.skyline import skyline
from solvers.index.trained import predict_archived, predict_linear

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AT = 1e-12
"""At sizes closer than this share to a breakpoint, all candidates are looked at: curves meet there."""
NEAR = 1e-9
"""Costs that exceed the budget by less than this share are computed again for all candidates."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predicted class of each item, and the probability of every class in the plan's order, if there are any."""

    labels: tuple[str, ...]
    probabilities: tuple[dict[str, float], ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class IndexPlan:
    """Feature sets for every size and budget. Costs are in ``unit``.

    features: F names, with their columns. powers (t, k), coefficients (F, t): what each costs at a size of k
    dimensions. masks (m,), accuracies (m,): every feature set whose accuracy is known, as bits over the features, masks
    rising. candidates (c,): places of those to choose from, the preferred first. sizes (b,), offsets (b + 1,), members:
    the index over one size, as of ``sweep``, members being places in candidates; empty for sizes of several dimensions.
    lambdas (q,), orders (q, l): greedy sequences of l ≤ F features, that of λ = 0 first and that of λ → ∞ last;
    median_size: where they weighed cost. model_sets (p,), model_offsets (p + 1,), model_numbers or model_bytes: the
    models of places in masks, as of ``trained``, in model_kind. class_shares (C,): of the classes, for the empty set.
    largest_size, fixed_size, fixed_budget: what the plan was built for, if it was not for all.
    """

    features: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    unit: str
    alpha: float
    powers: Ints
    coefficients: Floats
    masks: Ints
    accuracies: Floats
    candidates: NDArray[np.int32]
    sizes: Floats
    offsets: Ints
    members: NDArray[np.int32]
    lambdas: Floats
    orders: NDArray[np.int32]
    median_size: tuple[float, ...]
    model_kind: str
    model_sets: NDArray[np.int32]
    model_offsets: Ints
    model_numbers: Floats
    model_bytes: NDArray[np.uint8]
    class_shares: Floats
    largest_size: float | None
    fixed_size: tuple[float, ...]
    fixed_budget: float | None
    _limit: float = field(init=False, repr=False, metadata={"derived": True})
    _simple: bool = field(init=False, repr=False, metadata={"derived": True})
    _polynomials: list[tuple[float, ...]] = field(init=False, repr=False, metadata={"derived": True})
    _quadratic: bool = field(init=False, repr=False, metadata={"derived": True})
    _breaks: Any = field(init=False, repr=False, metadata={"derived": True})
    _offsets: Any = field(init=False, repr=False, metadata={"derived": True})
    _members: Any = field(init=False, repr=False, metadata={"derived": True})
    _curves: Floats = field(init=False, repr=False, metadata={"derived": True})
    _levels: Floats = field(init=False, repr=False, metadata={"derived": True})
    _kept: Ints = field(init=False, repr=False, metadata={"derived": True})
    _answers: list[tuple[tuple[str, ...], float, tuple[float, ...]]] = field(
        init=False, repr=False, metadata={"derived": True}
    )
    _sequences: Sequences = field(init=False, repr=False, metadata={"derived": True})

    def __post_init__(self) -> None:
        refuse_contradictions(self)
        for name in self.__slots__:
            array = getattr(self, name, None)
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        costs = Costs(self.powers, self.coefficients)
        curves = costs.of_sets(self.masks[self.candidates])
        levels = self.accuracies[self.candidates]
        curves.flags.writeable = levels.flags.writeable = False
        padding = (0.0,) * (3 - len(self.powers))  # quadratics have three coefficients, also those that are lines
        derived: dict[str, Any] = {
            "_quadratic": len(self.powers) <= 3,
            "_limit": inf if self.largest_size is None else self.largest_size,
            "_simple": costs.dimensions == 1,
            "_breaks": self.sizes.data,
            "_offsets": self.offsets.data,
            "_members": self.members.data,
            "_curves": curves,
            "_levels": levels,
            "_kept": self._preferred(),
            "_answers": [
                (self._names(mask), accuracy, (*padding, *curve[::-1]))
                for mask, accuracy, curve in zip(
                    self.masks[self.candidates].tolist(), levels.tolist(), curves.tolist(), strict=True
                )
            ],
            "_sequences": self._index_sequences(costs),
        }
        derived["_polynomials"] = [curve for _, _, curve in derived["_answers"]]
        derived["_kept"].flags.writeable = False
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def decide(self, query: IndexQuery) -> IndexDecision:
        """Answer with the feature set for an item of this size within this budget; the empty one always is.

        O(log b + log c) for b breakpoints and skylines of c sets; O(c) for sizes of several dimensions, and O(c t) for
        ``naive``. Raises InvalidRequest if size or budget are not what the plan was built for.
        """
        size = query.size
        if not (self._simple and type(size) is float and 1.0 <= size <= self._limit):
            size = self._checked_size(size)
        budget = query.budget
        if self.fixed_budget is not None and budget != self.fixed_budget:
            asked = f"is {budget:g}, the index was built for {self.fixed_budget:g} {self.unit} only"
            raise InvalidRequest.at(Fault(("budget",), asked))
        method = query.method
        position: int | None
        if query.computed or query.spent is not None:
            return self._go_on(query, size)
        if method == "poly-dom":
            choice, cost, position = self._look_up(size, budget) if type(size) is float else self._scan(size, budget)
        elif method == "naive":
            choice, cost, position = self._naive(size, budget)
        else:
            return self._greedy(method, size, budget)
        features, accuracy, _ = self._answers[choice]
        return _decision(features, accuracy, cost, method, position)

    def skyline(self, size: float | tuple[float, ...] | None = None) -> tuple[SkylineItem, ...]:
        """List the undominated candidates at one size, by rising cost and accuracy, from their costs there."""
        point = self._checked_size(size)
        costs = evaluate(self._curves, self.powers, sizes_of(point))
        return tuple(
            SkylineItem(features=self._answers[i][0], accuracy=self._answers[i][1], cost=float(costs[i]))
            for i in skyline(costs, self._levels)[::-1].tolist()
        )

    def predict(self, chosen: IndexDecision | Sequence[str], items: Sequence[Mapping[str, float]]) -> Predictions:
        """Classify items, given as columns by name, with the model of a decision or of named features.

        Raises InvalidRequest if there is no model of these features, or an item lacks one of their columns.
        """
        names = chosen.features if isinstance(chosen, IndexDecision) else tuple(chosen)
        mask = self._mask(names, "features")
        if mask == 0:
            return self._most_common(len(items))
        columns = [column for f in members_of(mask) for column in self.columns[f]]
        table = self._table(columns, items)
        found = np.flatnonzero(self.masks[self.model_sets] == mask)
        if not len(found):
            raise InvalidRequest.at(Fault(("features",), f"the index keeps no model of {', '.join(names)}"))
        model = int(found[0])
        start, end = self.model_offsets[model : model + 2].tolist()
        if self.model_kind == "skops":
            codes, shares = predict_archived(self.model_bytes[start:end].tobytes(), table, len(self.classes))
        else:
            codes, shares = predict_linear(self.model_numbers[start:end], table, self.model_kind)
        return Predictions(
            tuple(self.classes[code] for code in codes.tolist()),
            None if shares is None else tuple(dict(zip(self.classes, row, strict=True)) for row in shares.tolist()),
        )

    def _look_up(self, size: float, budget: float) -> tuple[int, float, int]:
        """Search twice (Theorem 3.13's index): choice among the candidates, its cost, its place on the skyline."""
        breaks = self._breaks
        segment = bisect_right(breaks, size)
        near = size * (1 + AT)
        if (segment < len(breaks) and breaks[segment] <= near) or (
            segment > 1 and breaks[segment - 1] * (1 + AT) >= size
        ):
            return self._scan(size, budget)
        segment -= 1
        polynomials, members, quadratic = self._polynomials, self._members, self._quadratic
        start = low = self._offsets[segment]
        high = self._offsets[segment + 1]
        cost, above = 0.0, inf  # of the last member that fits, and the first that does not
        low -= 1
        while quadratic and high - low > 1:  # Horner's rule, as below, written out: half the time
            middle = (low + high) >> 1
            two, one, none = polynomials[members[middle]]
            value = (two * size + one) * size + none
            if value <= budget:
                low, cost = middle, value
            else:
                high, above = middle, value
        while high - low > 1:
            middle = (low + high) >> 1
            value = 0.0
            for coefficient in polynomials[members[middle]]:
                value = value * size + coefficient
            if value <= budget:
                low, cost = middle, value
            else:
                high, above = middle, value
        if above <= budget + budget * NEAR or low < start:
            return self._scan(size, budget)
        return members[low], cost, low - start

    def _scan(self, size: float | tuple[float, ...] | None, budget: float) -> tuple[int, float, int]:
        """Look at all candidates: the most accurate that fits, and its place on the skyline at this very size."""
        costs = evaluate(self._curves, self.powers, sizes_of(size))
        found = skyline(costs, self._levels)
        place = int(np.argmax(costs[found] <= budget))
        choice = int(found[place])
        return choice, float(costs[choice]), len(found) - 1 - place

    def _naive(self, size: float | tuple[float, ...] | None, budget: float) -> tuple[int, float, int | None]:
        """Go through all candidates one by one (Naive-Lookup)."""
        if type(size) is not float:
            return self._scan(size, budget)
        best, least, level = 0, inf, -inf
        for choice, (_, accuracy, curve) in enumerate(self._answers):
            value = 0.0
            for coefficient in curve:
                value = value * size + coefficient
            if value <= budget and (accuracy > level or (accuracy == level and value < least)):
                best, least, level = choice, value, accuracy
        return best, least, None

    def _greedy(self, method: Method, size: Any, budget: float) -> IndexDecision:
        """Add features in a sequence's order while they fit (Algorithm 4's retrieval)."""
        sequences = self._sequences
        chosen = sequences.pick(method, budget)
        if type(size) is float:
            count, cost = sequences.reach(chosen, size, budget)
            mask = sequences.masks[chosen][count]
        else:
            mask, cost, count = self._reach_by_terms(chosen, size, budget)
        return self._construct(mask, sequences.accuracies[chosen][count], cost, method)

    def _reach_by_terms(self, chosen: int, size: Any, budget: float) -> tuple[int, float, int]:
        curves = np.array(self._sequences.curves[chosen])[:, ::-1]
        costs = evaluate(curves, self.powers, sizes_of(size))
        count = int(np.argmax(np.append(costs > budget, True))) - 1
        return self._sequences.masks[chosen][count], float(costs[count]), count

    def _go_on(self, query: IndexQuery, size: Any) -> IndexDecision:
        """Find the best set that can still be reached, with some features computed and some of the budget spent.

        Of all sets whose model is kept: of candidates and sequences, not of those that only what was paid already for
        them would make worth their cost.
        """
        mask = self._mask(query.computed, "computed")
        prices = evaluate(self.coefficients, self.powers, sizes_of(size))
        spent = query.spent
        if spent is None:
            spent = float(sum(prices[members_of(mask)].tolist()))
        left = max(query.budget - spent, 0.0)
        if query.method in ("poly-dom", "naive"):
            places = self._kept
            sets, levels = self.masks[places], self.accuracies[places]
            missing = (sets[:, None] >> np.arange(len(prices)) & 1).astype(bool) & ~self._bits(mask)
            costs = np.where(missing, prices, 0.0).sum(axis=1)
            found = skyline(costs, levels)
            choice = int(found[np.argmax(costs[found] <= left)])
            return self._construct(int(sets[choice]), float(levels[choice]), float(costs[choice]), query.method)
        reached = [self._walk(chosen, mask, prices.tolist(), left) for chosen in self._followed(query.method, mask)]
        accuracy, paid, _, best = max(reached)
        return self._construct(best, accuracy, -paid, query.method)

    def _preferred(self) -> Ints:
        """Order the sets that can be predicted with: by falling accuracy, then fewer features, candidates first."""
        places = np.unique(np.concatenate((self.candidates, self.model_sets)).astype(np.int64))
        counts = np.array([mask.bit_count() for mask in self.masks[places].tolist()])
        beside = ~np.isin(places, self.candidates)
        return places[np.lexsort((places, beside, counts, -self.accuracies[places]))]

    def _followed(self, method: str, mask: int) -> list[int]:
        """List the sequences that go on from a set: the method's own, or those it begins, or all if it begins none."""
        sequences = self._sequences
        if method != "greedy":
            return [sequences.pick(method, 0.0)]
        following = [i for i, prefixes in enumerate(sequences.masks) if mask in prefixes]
        return following or list(range(len(sequences.masks)))

    def _walk(self, chosen: int, mask: int, prices: list[float], left: float) -> tuple[float, float, int, int]:
        reached, paid = walk(self.orders[chosen].tolist(), mask, prices, left)
        return self._sequences.accuracies[chosen][reached.bit_count()], -paid, -chosen, reached

    def _construct(self, mask: int, accuracy: float, cost: float, method: Any) -> IndexDecision:
        return _decision(self._names(mask), accuracy, cost, method, None)

    def _checked_size(self, size: Any) -> Any:
        """Refuse a size that the plan cannot answer for; gives a float for costs of at most one dimension."""
        parts = sizes_of(size)
        dimensions = len(self.fixed_size) or self.powers.shape[1]
        if self.fixed_size:
            if size is not None and parts != self.fixed_size:
                only = " x ".join(f"{part:g}" for part in self.fixed_size)
                asked = " x ".join(f"{part:g}" for part in parts)
                raise InvalidRequest.at(Fault(("size",), f"is {asked}, the index was built for {only} only"))
            return 1.0
        if size is None and dimensions:
            raise InvalidRequest.at(Fault(("size",), f"is missing, costs depend on it ({dimensions} numbers)"))
        if dimensions and len(parts) != dimensions:
            raise InvalidRequest.at(Fault(("size",), f"has {len(parts)} numbers, the costs' sizes have {dimensions}"))
        if parts and not min(parts) >= 1:
            raise InvalidRequest.at(Fault(("size",), f"is {min(parts):g}, must be at least 1"))
        if dimensions == 1 and parts[0] > self._limit:
            raise InvalidRequest.at(Fault(("size",), f"is {parts[0]:g}, the index goes up to {self._limit:g}"))
        return parts if dimensions > 1 else (parts[0] if dimensions else 1.0)

    def _mask(self, names: Sequence[str], where: str) -> int:
        mask = 0
        for name in names:
            if name not in self.features:
                known = ", ".join(self.features)
                raise InvalidRequest.at(Fault((where,), f"names {name!r}, the features are {known}"))
            mask |= 1 << self.features.index(name)
        return mask

    def _names(self, mask: int) -> tuple[str, ...]:
        return tuple(self.features[f] for f in members_of(mask))

    def _bits(self, mask: int) -> NDArray[np.bool_]:
        return (mask >> np.arange(len(self.features)) & 1).astype(bool)

    def _table(self, columns: list[str], items: Sequence[Mapping[str, float]]) -> Floats:
        table = np.empty((len(items), len(columns)))
        for i, item in enumerate(items):
            for j, column in enumerate(columns):
                if column not in item:
                    raise InvalidRequest.at(Fault(("items", i, column), "is missing, the chosen features need it"))
                table[i, j] = item[column]
        return table

    def _most_common(self, count: int) -> Predictions:
        shares = dict(zip(self.classes, self.class_shares.tolist(), strict=True))
        common = self.classes[int(np.argmax(self.class_shares))]
        return Predictions((common,) * count, tuple(dict(shares) for _ in range(count)))

    def _index_sequences(self, costs: Costs) -> Sequences:
        bits = np.insert(1 << self.orders.astype(np.int64), 0, 0, axis=1)
        prefixes = np.cumsum(bits, axis=1)
        accuracies = self.accuracies[np.searchsorted(self.masks, prefixes)]
        return Sequences.of(costs, self.lambdas, self.orders.astype(np.int64), accuracies, self.median_size)


_FIELDS = set(IndexDecision.model_fields)


def _decision(
    features: tuple[str, ...], accuracy: float, cost: float, method: Method, position: int | None
) -> IndexDecision:
    """Make a decision as ``model_construct`` does, without its going through the fields: a third of its time."""
    decision = IndexDecision.__new__(IndexDecision)
    put = object.__setattr__
    put(
        decision,
        "__dict__",
        {"features": features, "accuracy": accuracy, "cost": cost, "method": method, "skyline_position": position},
    )
    put(decision, "__pydantic_fields_set__", _FIELDS)
    put(decision, "__pydantic_extra__", None)
    put(decision, "__pydantic_private__", None)
    return decision
