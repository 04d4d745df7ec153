"""Index plan: decide for an item's size and budget, and predict with the chosen set's model."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, prod
from typing import Any

import numpy as np
from pydantic import BaseModel

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Floats, Int64s
from models.errors import Infeasible
from models.index import IndexDecision, IndexQuery, Method, SkylineItem, size_to_tuple
from solvers.base import format_number, prepare_plan, run_in_process
from solvers.index.budget_lookup import BudgetLookup, Choice
from solvers.index.contents import IndexContents
from solvers.index.continuation import ReachableSets
from solvers.index.costs import evaluate_curves, list_members
from solvers.index.crossings import SkylineIndex
from solvers.index.greedy import FeatureSequences, continue_sequence
from solvers.index.predictions import Predictions, classify_rows, encode_features, predict_items
from solvers.index.size_curves import spline_basis
from solvers.index.size_expectations import SizeExpectations
from solvers.statistics import standard_error


@dataclass(frozen=True, eq=False)
class IndexPlan(IndexContents):
    """Poly-Dom index over sizes and budgets, with a model for each feature set."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self)

    @cached_property
    def _max_size(self) -> float:
        return inf if self.largest_size is None else self.largest_size

    @cached_property
    def _group_masks(self) -> list[int]:
        return self.setup.masks

    @cached_property
    def _candidate_features(self) -> list[tuple[str, ...]]:
        return [self.list_names(mask) for mask in self.masks[self.candidates].tolist()]

    @cached_property
    def _look_up(self) -> BudgetLookup:
        curves, levels = self.set_costs.sum_features(self.masks[self.candidates]), self.candidate_levels
        curves.flags.writeable = levels.flags.writeable = False
        index = SkylineIndex(self.sizes, self.offsets, self.members, 0, 0)
        return BudgetLookup.from_curves(curves, self.powers, levels, index, self.size_edges)

    @cached_property
    def _levels(self) -> list[list[float]]:
        """Candidates' accuracies in each region of sizes."""
        levels: list[list[float]] = self.candidate_levels.tolist()
        return levels

    @cached_property
    def _fast_look_up(
        self,
    ) -> tuple[float, Callable[[float, float], Choice], list[tuple[str, ...]], list[list[float]], list[float]]:
        """Inputs of the fast path of ``decide``.

        The largest size is 0 if the fast path does not apply.
        """
        applies = self.set_costs.dimensions == 1 and self.fixed_budget is None
        edges: list[float] = self.size_edges.tolist()
        return (
            self._max_size if applies else 0.0,
            self._look_up.find_choice,
            self._candidate_features,
            self._levels,
            edges,
        )

    @cached_property
    def _reachable_sets(self) -> ReachableSets:
        """Sets with a model; all sets in a plan without models."""
        places = np.concatenate((self.candidates, self.model_sets)) if len(self.model_sets) else slice(None)
        return ReachableSets.from_sets(self.masks[places], self.accuracies[places], len(self.features), self.setup)

    @cached_property
    def _cautious_accuracies(self) -> Floats:
        """(R, c), accuracies of candidates on validation rows minus one standard error.

        Artifacts of older versions have no validation rows; for them, these are the plain accuracies.
        """
        if not len(self.reached):
            return self.candidate_levels
        if not len(self.size_edges):
            levels = self.reached[self.candidates, 0]
            return np.asarray(levels - standard_error(levels, self.choosing))[None]
        basis = spline_basis(self.size_knots, self.size_centers)
        levels = basis @ self.size_levels[0][:, self.candidates] - self.size_optimism[:, self.candidates]
        levels = np.clip(levels, 0.0, 1.0)
        rows = 1 / np.einsum("rk,kl,rl->r", basis, self.size_covariance[0], basis)[:, None]
        return np.asarray(levels - standard_error(levels, rows))

    @cached_property
    def _size_expectations(self) -> SizeExpectations | None:
        return SizeExpectations.from_contents(self) if len(self.size_knots) else None

    @cached_property
    def _set_expectations(self) -> dict[tuple[str, ...], tuple[float, float, int]]:
        """For each set that can be chosen: accuracy on all rows, on holdout rows, and effective rows.

        The effective number of rows accounts for the variance of the choice: on other rows, another set might be
        chosen.
        """
        if not len(self.reached):
            return {}
        places = np.union1d(self.candidates, self.model_sets)
        choosing, others, spread = self.reached[places].T
        of_all = others + self.choosing / self.rows * (choosing - others)
        variance = np.maximum(of_all * (1 - of_all), 1e-9)
        effective_rows = (variance / (variance / self.rows + spread**2)).astype(np.int64)
        named = [self.list_names(mask) for mask in self.masks[places].tolist()]
        return dict(
            zip(named, zip(of_all.tolist(), others.tolist(), effective_rows.tolist(), strict=True), strict=True)
        )

    @cached_property
    def _sequences(self) -> FeatureSequences:
        bits = np.insert(1 << self.orders.astype(np.int64), 0, 0, axis=1)
        accuracies = self.accuracies[np.searchsorted(self.masks, np.cumsum(bits, axis=1))]
        orders = self.orders.astype(np.int64)
        return FeatureSequences.from_orders(self.set_costs, self.lambdas, orders, accuracies, self.median_size)

    def decide(self, query: IndexQuery) -> IndexDecision:
        """Return the best feature set for an item's size and budget.

        Without ``min_accuracy``, it is the most accurate set within the budget; one always exists, because the empty
        set costs nothing. With ``min_accuracy``, it is the cheapest set within the budget that reaches this accuracy.

        Raises:
            Infeasible: no set reaches ``min_accuracy``, or every set within the budget has an excluded feature.
            InvalidRequest: the plan was not built for this size or budget.
        Complexity: O(log b + log c) for b breakpoints and skylines of c sets; O(c) for sizes of several dimensions, and
            O(c t) for ``naive``.
        """
        size = query.size
        plain = (
            query.method == "poly-dom" and query.spent is None and not query.computed and not query.one_standard_error
        )
        budget = query.mean_budget
        if type(size) is float and budget is not None and plain and query.min_accuracy is None and not query.excluded:
            largest, find, answers, levels, edges = self._fast_look_up
            if 1.0 <= size <= largest:
                choice, cost, position = find(size, budget)
                region = bisect_right(edges, size) if edges else 0
                return _decision(answers[choice], levels[region][choice], cost, "poly-dom", position)
        return self._decide_otherwise(query)

    def _decide_otherwise(self, query: IndexQuery) -> IndexDecision:
        """Decide queries outside the fast path, or raise for invalid ones."""
        size, budget, method = self._check_size(query.size), query.mean_budget, query.method
        if budget is None:
            budget = inf if self.fixed_budget is None else self.fixed_budget
        if self.fixed_budget is not None and budget != self.fixed_budget:
            fault = f"must be {self.fixed_budget:g} {self.unit}, the budget of the build, got {budget:g}"
            raise InvalidRequest.from_faults(Fault(("budget",), fault))
        if query.min_accuracy is not None or query.one_standard_error or query.excluded:
            return self._scan_candidates(query, size, budget)
        if query.spent is not None or query.computed:
            return self._continue(query, size, budget)
        if method not in ("poly-dom", "naive"):
            return self._decide_greedily(method, size, budget)
        look_up = self._look_up
        position: int | None = None
        if type(size) is not float:
            choice, cost, position = look_up.scan(size, budget)
        elif method == "naive":
            choice, cost = look_up.scan_naively(size, budget)
        else:
            choice, cost, position = look_up.find_choice(size, budget)
        return _decision(
            self._candidate_features[choice], self._levels[look_up.find_region(size)][choice], cost, method, position
        )

    def estimate_accuracy(self, query: IndexQuery, decision: IndexDecision) -> tuple[float, int]:
        """Return the chosen model's expected accuracy at the query's size, and the rows behind it.

        With ``min_accuracy``, only holdout rows are used, because the choice was made on validation rows.
        """
        extent = self._extent(query.size)
        if self._size_expectations is not None and extent is not None:
            promised = self._size_expectations.estimate_accuracy(
                decision.features, extent, of_others=query.min_accuracy is not None
            )
            if promised is not None:
                return promised
        plain = decision.accuracy, decision.accuracy, self.rows
        of_all, of_others, effective_rows = self._set_expectations.get(decision.features, plain)
        return (of_all, effective_rows) if query.min_accuracy is None else (of_others, self.rows - self.choosing)

    def list_skyline(self, size: float | tuple[float, ...] | None = None) -> tuple[SkylineItem, ...]:
        """Return the undominated candidates at one size, by rising cost and accuracy."""
        point = self._check_size(size)
        look_up = self._look_up
        region, costs = look_up.find_region(point), evaluate_curves(look_up.curves, self.powers, size_to_tuple(point))
        undominated = look_up.find_skyline(costs, region)[::-1].tolist()
        return tuple(self._item(i, region, float(costs[i]), size) for i in undominated)

    def highest_cost(self, size: float | tuple[float, ...] | None = None) -> float:
        """Return the cost of the most expensive candidate at one size."""
        return float(evaluate_curves(self._look_up.curves, self.powers, size_to_tuple(self._check_size(size))).max())

    def _item(self, candidate: int, region: int, cost: float, size: Any) -> SkylineItem:
        accuracy = self._levels[region][candidate]
        decision = _decision(self._candidate_features[candidate], accuracy, cost, "poly-dom", None)
        expected, _ = self.estimate_accuracy(IndexQuery.model_construct(size=size, budget=inf), decision)
        return SkylineItem(features=decision.features, accuracy=accuracy, expected_accuracy=expected, cost=cost)

    @property
    def default_size(self) -> tuple[float, ...] | None:
        """The fixed size, else the median size in the build; None if costs do not depend on size."""
        if self.fixed_size:
            return self.fixed_size
        return tuple(max(part, 1.0) for part in self.median_size) if self.powers.shape[1] else None

    def _extent(self, size: Any) -> float | None:
        """Return the product of the numbers of a size or of the fixed size; None without either."""
        lengths = size_to_tuple(size) or self.fixed_size
        return prod(lengths) if lengths else None

    def predict(
        self,
        chosen: IndexDecision | Sequence[str],
        items: Sequence[Mapping[str, Any]],
        learner_modules: Sequence[str] = (),
        run_in: Callable[..., Any] = run_in_process,
    ) -> Predictions:
        """Classify items with the model of a decision or of named features.

        Args:
            chosen: a decision, or names of features.
            items: the columns of each item, by name.
            learner_modules: modules that models may be loaded from in addition to scikit-learn.
            run_in: calls a function with its arguments, in another process for untrusted plans: a malicious model may
                crash its process. Linear models run in this process.
        Raises:
            InvalidRequest: the set has no model, or an item lacks a column or has an invalid cell.
            CorruptArtifact: the model cannot be loaded or cannot predict.
        """
        names = chosen.features if isinstance(chosen, IndexDecision) else tuple(chosen)
        return predict_items(self, self._mask(names, "features"), items, learner_modules, run_in)

    def has_model(self, features: Sequence[str]) -> bool:
        """Return whether ``predict`` has a model of these features; the empty set has one."""
        mask = self._mask(features, "features")
        return mask == 0 or bool(np.any(self.masks[self.model_sets] == mask))

    def classify(self, features: Sequence[str], values: Floats, learner_modules: Sequence[str] = ()) -> Int64s:
        """Return the class codes, (n,), of rows (n, D) from ``encode_features``, by the model of some features."""
        return classify_rows(self, self._mask(features, "features"), values, learner_modules)

    def encode_features(self, table: FeatureTable) -> Floats:
        """Return the rows of a table in numerical encoding, as models expect them: (n, D).

        Raises:
            InvalidRequest: the table lacks a feature, or its columns are of other types.
        """
        return encode_features(self, table)

    def _scan_candidates(self, query: IndexQuery, size: Any, budget: float) -> IndexDecision:
        """Return the best candidate within the budget by a linear scan.

        With ``min_accuracy``, the best is the cheapest that reaches it on validation rows minus one standard error.
        Otherwise the best is the most accurate one. Candidates with excluded features are skipped.
        """
        if query.method not in ("poly-dom", "naive") or query.spent is not None or query.computed:
            fault = "is supported only for methods poly-dom and naive, without spent or computed"
            option = "one_standard_error" if query.one_standard_error else "excluded"
            raise InvalidRequest.from_faults(Fault((option if query.min_accuracy is None else "min_accuracy",), fault))
        look_up = self._look_up
        region, costs = look_up.find_region(size), evaluate_curves(look_up.curves, self.powers, size_to_tuple(size))
        accuracies, cautious = look_up.accuracies[region], self._cautious_accuracies[region]
        allowed = self.masks[self.candidates] & self._mask(query.excluded, "excluded") == 0
        within = allowed & (costs <= budget)
        is_close = np.ones(len(costs), dtype=bool)
        wanted = -inf if query.min_accuracy is None else query.min_accuracy
        if query.one_standard_error:
            is_close = accuracies >= self._subtract_standard_error(float(accuracies[within].max(initial=0.0)), size)
        feasible = np.flatnonzero(within & is_close & (cautious >= wanted))
        if not len(feasible):
            raise Infeasible(
                self._describe_infeasible(query, budget, cautious[within], costs[allowed & (cautious >= wanted)])
            )
        orders = -accuracies[feasible], costs[feasible]  # the last one orders first
        wants_cheapest = query.min_accuracy is not None or query.one_standard_error
        choice = int(feasible[np.lexsort(orders if wants_cheapest else orders[::-1])[0]])
        return _decision(
            self._candidate_features[choice], float(accuracies[choice]), float(costs[choice]), query.method, None
        )

    def _describe_infeasible(self, query: IndexQuery, budget: float, reached: Floats, costs: Floats) -> str:
        """Describe the best accuracy within the budget and, if known, the budget that would suffice.

        Args:
            reached: (r,), accuracies within the budget.
            costs: (c,), costs of the sets that are accurate enough.
        """
        if query.min_accuracy is None:
            return f"no feature set within {format_number(budget)} {self.unit} excludes {', '.join(query.excluded)}"
        best = f"{float(reached.max(initial=0.0)):.4g} minus one standard error"
        within = f"within {format_number(budget)} {self.unit} " if budget < inf else ""
        message = f"{within}the highest accuracy is {best}; requested: {query.min_accuracy:g}"
        if query.one_standard_error or query.excluded or self.fixed_budget is not None:
            return message
        enough = (
            f"which needs a budget of {format_number(costs.min())} {self.unit}"
            if len(costs)
            else "which no set reaches"
        )
        return f"{message}, {enough}"

    def _subtract_standard_error(self, best: float, size: Any) -> float:
        """Return an accuracy minus one standard error (one-standard-error rule).

        Source: Hastie, Tibshirani, Friedman, *The Elements of Statistical Learning*, Section 7.10.
        """
        if not self.rows:
            fault = "is not supported for artifacts of older versions: rebuild the artifact"
            raise InvalidRequest.from_faults(Fault(("one_standard_error",), fault))
        rows = self.rows
        if self._size_expectations is not None:
            rows = int(self._size_expectations.count_rows(self._extent(size) or 1.0))
        return best - standard_error(best, rows)

    def _decide_greedily(self, method: Method, size: Any, budget: float) -> IndexDecision:
        """Add features in a sequence's order while they fit (look-up of Algorithm 4)."""
        sequences = self._sequences
        chosen = sequences.choose_sequence(method, budget)
        if type(size) is float:
            count, cost = sequences.count_affordable(chosen, size, budget)
            mask = sequences.masks[chosen][count]
        else:
            mask, cost, count = self._reach_by_terms(chosen, size, budget)
        return self._construct(mask, sequences.accuracies[chosen][count], cost, method)

    def _reach_by_terms(self, chosen: int, size: Any, budget: float) -> tuple[int, float, int]:
        curves = np.array(self._sequences.curves[chosen])[:, ::-1]
        costs = evaluate_curves(curves, self.powers, size_to_tuple(size))
        count = int(np.argmax(np.append(costs > budget, True))) - 1
        return self._sequences.masks[chosen][count], float(costs[count]), count

    def _continue(self, query: IndexQuery, size: Any, budget: float) -> IndexDecision:
        """Return the best set that is still reachable, given computed features and the amount spent."""
        mask, left_out_cost = self._mask(query.computed, "computed"), self._left_out_cost(query)
        own_costs = self.set_costs
        feature_costs, settled = own_costs.evaluate(own_costs.coefficients, size_to_tuple(size)), self._settled(query)
        if settled:
            feature_costs[[len(self.features) + group for group in settled]] = 0.0
        if query.method in ("poly-dom", "naive"):
            exact = partial(self._costs, size, settled)
            within = max(budget - left_out_cost, 0.0)
            continued = self._reachable_sets.find_best(mask, feature_costs, within, query.spent, exact)
            return self._construct(*continued, query.method)
        known = list_members(mask) + [len(self.features) + group for group in self._list_touched(mask)]
        paid = float(sum(feature_costs[known].tolist())) + left_out_cost
        remaining = max(budget - (paid if query.spent is None else query.spent), 0.0)
        reached = [
            self._walk(chosen, mask, feature_costs, remaining) for chosen in self._list_following(query.method, mask)
        ]
        accuracy, paid, _, best = max(reached)
        return self._construct(best, accuracy, -paid, query.method)

    def _left_out_cost(self, query: IndexQuery) -> float:
        """Return the cost of computed features that the index left out; 0 if ``spent`` is given."""
        names = set(query.computed) & set(self.left_out)
        if not names or query.spent is not None:
            return 0.0
        if not len(self.left_out_coefficients):
            fault = f"has {', '.join(sorted(names))}, whose cost this artifact does not store: set spent"
            raise InvalidRequest.from_faults(Fault(("computed",), fault))
        places = [at for at, name in enumerate(self.left_out) if name in names]
        lengths, dimensions = size_to_tuple(query.size), self.left_out_powers.shape[1]
        if len(lengths) != dimensions and dimensions:
            fault = f"must have {dimensions} numbers for the costs of {', '.join(sorted(names))}, got {len(lengths)}"
            raise InvalidRequest.from_faults(Fault(("size",), f"{fault}; or set spent"))
        sizes = lengths if dimensions else ()
        own = float(evaluate_curves(self.left_out_coefficients[places], self.left_out_powers, sizes).sum())
        groups = self.setup_coefficients[list(self._settled(query))]
        return own + float(evaluate_curves(groups, self.powers, size_to_tuple(self._check_size(query.size))).sum())

    def _settled(self, query: IndexQuery) -> tuple[int, ...]:
        """Return the set-up groups that features left out of the index have paid for."""
        if not self.setup_names:
            return ()
        left_out = [len(self.features) + at for at, name in enumerate(self.left_out) if name in query.computed]
        return tuple(np.flatnonzero(self.setup_members[:, left_out].any(axis=1)).tolist())

    def _costs(self, size: Any, settled: tuple[int, ...], masks: Int64s, known: int) -> Floats:
        """Return the cost of each set's features that are not in ``known``, (m,).

        settled: set-up groups that are paid for otherwise.
        """
        curves = self.set_costs.sum_features(masks & ~known, {*settled, *self._list_touched(known)})
        return evaluate_curves(curves, self.powers, size_to_tuple(size))

    def _list_touched(self, mask: int) -> list[int]:
        """Return the set-up groups that the features of a mask touch."""
        return [group for group, own in enumerate(self._group_masks) if own & mask]

    def _list_following(self, method: str, mask: int) -> list[int]:
        """Return the sequences that continue from a set.

        These are the method's own sequence, else those with the set as a prefix, else all.
        """
        sequences = self._sequences
        if method != "greedy":
            return [sequences.choose_sequence(method, 0.0)]
        following = [i for i, prefixes in enumerate(sequences.masks) if mask in prefixes]
        return following or list(range(len(sequences.masks)))

    def _walk(self, chosen: int, mask: int, feature_costs: Floats, remaining: float) -> tuple[float, float, int, int]:
        order = self.orders[chosen].tolist()
        reached, paid = continue_sequence(order, mask, feature_costs, remaining, self.setup)
        return self._sequences.accuracies[chosen][reached.bit_count()], -paid, -chosen, reached

    def _construct(self, mask: int, accuracy: float, cost: float, method: Any) -> IndexDecision:
        return _decision(self.list_names(mask), accuracy, cost, method, None)

    def _check_size(self, size: Any) -> Any:
        """Return a valid size; raise InvalidRequest for others.

        It is a float if costs have at most one dimension.
        """
        lengths = size_to_tuple(size)
        dimensions = len(self.fixed_size) or self.powers.shape[1]
        if self.fixed_size:
            if size is not None and lengths != self.fixed_size:
                only = " x ".join(f"{part:g}" for part in self.fixed_size)
                given = " x ".join(f"{part:g}" for part in lengths)
                raise InvalidRequest.from_faults(
                    Fault(("size",), f"must be {only}, the size of the build, got {given}")
                )
            return 1.0
        if size is None and dimensions:
            raise InvalidRequest.from_faults(
                Fault(("size",), f"is required: costs depend on it ({dimensions} numbers)")
            )
        if dimensions and len(lengths) != dimensions:
            raise InvalidRequest.from_faults(Fault(("size",), f"must have {dimensions} numbers, got {len(lengths)}"))
        if lengths and not min(lengths) >= 1:
            raise InvalidRequest.from_faults(Fault(("size",), f"must be at least 1, got {min(lengths):g}"))
        if dimensions == 1 and lengths[0] > self._max_size:
            raise InvalidRequest.from_faults(
                Fault(("size",), f"must be at most {self._max_size:g}, got {lengths[0]:g}")
            )
        return lengths if dimensions > 1 else (lengths[0] if dimensions else 1.0)

    def _mask(self, names: Sequence[str], where: str) -> int:
        mask = 0
        for name in names:
            if name in self.left_out:
                continue  # no set contains it; its cost is added separately
            if name not in self.features:
                known = ", ".join(self.features)
                raise InvalidRequest.from_faults(Fault((where,), f"feature {name!r} not found; available: {known}"))
            mask |= 1 << self.features.index(name)
        return mask


_FIELDS = set(IndexDecision.model_fields)
_new = object.__new__
_put_values = BaseModel.__dict__["__dict__"].__set__
_put_fields_set = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_put_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_put_private = BaseModel.__dict__["__pydantic_private__"].__set__


def _decision(
    features: tuple[str, ...], accuracy: float, cost: float, method: Method, position: int | None
) -> IndexDecision:
    """Build a decision without validating its fields, four times as fast as ``model_construct``."""
    decision = _new(IndexDecision)
    _put_values(
        decision,
        {"features": features, "accuracy": accuracy, "cost": cost, "method": method, "skyline_position": position},
    )
    _put_fields_set(decision, _FIELDS)
    _put_extra(decision, None)
    _put_private(decision, None)
    return decision
