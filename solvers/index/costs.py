"""Costs of feature sets: cost polynomials over common terms, and their sums (Equation 1).

The cost of a set is the sum over its features and over the set-up groups that it touches (``solvers.setup_groups``).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest, Timings
from models.arrays import Floats, Int64s
from models.cost import CostFunction, Residuals, cost_function
from models.index import IndexOptions, size_to_tuple
from solvers.setup_groups import NO_GROUPS, SetupGroups


@dataclass(frozen=True, slots=True, eq=False)
class SetCosts:
    """Cost polynomials of the features, and of G set-up groups, over common terms.

    Attributes:
        powers: (t, k), powers of the terms.
        coefficients: (F + G, t), of features, then of groups.
        largest: the largest size.
        groups: the features of each group.
    """

    powers: Int64s
    coefficients: Floats
    largest: float = math.inf
    groups: SetupGroups = NO_GROUPS

    @classmethod
    def from_functions(
        cls, functions: Sequence[CostFunction], largest: float = math.inf, groups: SetupGroups = NO_GROUPS
    ) -> "SetCosts":
        """Express cost functions, of features and then of groups, over common terms.

        >>> functions = [CostFunction.from_constant(3.0), CostFunction.from_polynomial([1.0, 2.0])]
        >>> SetCosts.from_functions(functions).coefficients.tolist()
        [[3.0, 0.0], [1.0, 2.0]]
        """
        every = CostFunction.sum_of(functions)
        nothing = replace(every, coefficients=np.zeros_like(every.coefficients))
        rows = [CostFunction.sum_of([function, nothing]).coefficients for function in functions]
        return cls(every.powers, np.array(rows).reshape(len(functions), len(every.powers)), largest, groups)

    @property
    def features(self) -> int:
        """The number of features."""
        return len(self.coefficients) - len(self.groups)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of sizes; 0 if no cost depends on size."""
        return int(self.powers.shape[1])

    def sum_features(self, masks: Int64s, excluded_groups: Collection[int] = ()) -> Floats:
        """Return the coefficients of each set, (m, t), as correctly rounded sums.

        The order of features does not matter, and a superset's coefficients are never smaller.

        Args:
            masks: (m,), features of the sets.
            excluded_groups: set-up groups that do not count, for example because they are paid for.

        >>> costs = SetCosts.from_functions([CostFunction.from_constant(3.0), CostFunction.from_constant(0.5)])
        >>> costs.sum_features(np.array([0, 3])).tolist()
        [[0.0], [3.5]]
        """
        columns = self.coefficients.T.tolist()
        groups = [(self.features + g, own) for g, own in enumerate(self.groups.masks) if g not in excluded_groups]
        rows = []
        for mask in masks.tolist():
            members = list_members(mask) + [place for place, own in groups if own & mask]
            rows.append([math.fsum([column[f] for f in members]) for column in columns])
        return np.array(rows, dtype=np.float64).reshape(len(masks), len(columns))

    def evaluate(self, curves: Floats, size: Sequence[float]) -> Floats:
        """Return the values, (m,), of curves (m, t) at one size."""
        return evaluate_curves(curves, self.powers, size)

    def find_affordable_sizes(self, curves: Floats, budget: float) -> Floats:
        """Return the largest size at which each curve is within the budget, (m,); -∞: none.

        It requires 0 or 1 dimensions. Horner's rule is monotone in floating point, so bisection over floating-point
        numbers, by their bits, is exact.

        >>> costs = SetCosts.from_functions([CostFunction.from_polynomial([1.0, 2.0])])
        >>> costs.find_affordable_sizes(np.array([[1.0, 2.0]]), 9.0).tolist()
        [4.0]
        """
        top = min(self.largest, float(np.finfo(np.float64).max))
        low = np.full(len(curves), np.array([1.0]).view(np.int64)[0])
        high = np.full(len(curves), np.array([top]).view(np.int64)[0] + 1)
        while np.any(high - low > 1):
            middle = low + (high - low) // 2
            fits = evaluate_horner(curves, middle.view(np.float64)) <= budget
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return np.where(evaluate_horner(curves, np.ones(len(curves))) <= budget, low.view(np.float64), -np.inf)


def list_members(mask: int) -> list[int]:
    """Return the feature indices of a set's bit mask.

    >>> list_members(0b1011)
    [0, 1, 3]
    """
    return [f for f in range(mask.bit_length()) if mask >> f & 1]


def evaluate_horner(curves: Floats, sizes: Floats | float) -> Floats:
    """Return the values of curves (m, d + 1) at one size, or each at its own size, (m,)."""
    value = np.zeros(len(curves))
    with np.errstate(over="ignore"):
        for column in curves.T[::-1]:
            value = value * sizes + column
    return value


def evaluate_at_sizes(curve: Floats, powers: Int64s, sizes: Floats) -> Floats:
    """Return the values, (n,), of one curve (t,) at sizes (n, k).

    Sizes of one dimension use Horner's rule.
    """
    if powers.shape[1] <= 1:
        at = sizes[:, 0] if powers.shape[1] else 1.0
        return evaluate_horner(np.broadcast_to(curve, (len(sizes), len(curve))), at)
    return np.asarray(_evaluate_terms(powers, sizes[:, None, :]) @ curve)


MAX_TERMS = 4096
"""Maximum number of terms over which costs of several dimensions are compared."""


def _refuse_too_many_terms(functions: Sequence[CostFunction]) -> None:
    """Raise InvalidRequest if the polynomial would have too many terms.

    The terms are all combinations of powers up to the largest one in each dimension.
    """
    powers = [function.powers for function in functions if function.dimensions > 1]
    if powers:
        terms = prod(int(top) + 1 for top in np.concatenate(powers).max(axis=0))
        if terms > MAX_TERMS:
            fault = f"must have costs of at most {MAX_TERMS} terms in all powers, got {terms}"
            raise InvalidRequest.from_faults(Fault(("dataset", "features"), fault))


MAX_TERM = 1e200
"""Products of powers are clipped to this, so that they stay finite and times 0 are 0."""


def evaluate_curves(curves: Floats, powers: Int64s, size: Sequence[float]) -> Floats:
    """Return the values, (m,), of curves (m, t) at one size.

    A size of one dimension uses Horner's rule.
    """
    if powers.shape[1] <= 1:
        return evaluate_horner(curves, size[0] if powers.shape[1] else 1.0)
    return np.asarray(curves @ _evaluate_terms(powers, np.asarray(size)))


def _evaluate_terms(powers: Int64s, sizes: Floats) -> Floats:
    """Return the products of powers, (..., t), of sizes that broadcast with ``powers``, (t, k)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.prod(sizes**powers, axis=-1), MAX_TERM))


def read_costs(dataset: FeatureTable, options: IndexOptions) -> tuple[SetCosts, dict[str, Residuals]]:
    """Return the costs of features and set-up groups as the spec declares them, and residuals of fitted timings.

    With a fixed size every cost is a constant (Problem 2).

    Raises:
        InvalidRequest: the dimensions of costs, size columns, and sizes in the options differ.
    """
    spec = dataset.spec
    functions, residuals = [], {}
    for each in spec.cost_specs:
        function, off = cost_function(each.cost)
        functions.append(function)
        if off is not None:
            residuals[each.name] = off
    dimensions = _dimensions(spec, functions)
    _refuse_too_many_terms(functions)
    groups = SetupGroups.from_spec(spec)
    if options.fixed_size is not None:
        size = check_dimensions(size_to_tuple(options.fixed_size), dimensions, "fixed_size")
        fixed = [function.cost_at(size) for function in functions]
        return SetCosts.from_functions(fixed, groups=groups), residuals
    if options.max_size is not None and dimensions != 1:
        fault = f"is supported only for sizes of one number; costs have sizes of {dimensions}"
        raise InvalidRequest.from_faults(Fault(("max_size",), fault))
    return SetCosts.from_functions(functions, options.max_size or math.inf, groups), residuals


def _dimensions(spec: FeaturesSpec, functions: Sequence[CostFunction]) -> int:
    named = zip(spec.cost_specs, functions, strict=True)
    example = {function.dimensions: each.name for each, function in named if function.dimensions}
    wanted = max(example, default=0)
    for dimensions, name in example.items():
        other = len(spec.size_columns) or wanted
        if dimensions != other:
            fault = f"must have equal size dimensions: {name!r} has {dimensions}, others {other}"
            raise InvalidRequest.from_faults(Fault(("dataset", "features"), fault))
    return wanted


def check_dimensions(size: tuple[float, ...], dimensions: int, where: str) -> tuple[float, ...]:
    """Raise InvalidRequest if a size has other dimensions than the costs.

    Costs without dimensions accept any size.
    """
    if dimensions and len(size) != dimensions:
        raise InvalidRequest.from_faults(Fault((where,), f"must have {dimensions} numbers, got {len(size)}"))
    return size


def choose_median_size(dataset: FeatureTable, options: IndexOptions, dimensions: int) -> tuple[float, ...]:
    """Return the size at which greedy sequences compare costs; (), if costs do not depend on size."""
    if not dimensions:
        return ()
    if options.median_size is not None:
        return check_dimensions(size_to_tuple(options.median_size), dimensions, "median_size")
    if dataset.sizes.shape[1] == dimensions:
        return tuple(np.median(dataset.sizes, axis=0).tolist())
    timings = [each.cost for each in dataset.spec.cost_specs if isinstance(each.cost, Timings)]
    measured = sorted({row[:-1] for each in timings for row in each.timings})
    return tuple(np.median(measured, axis=0).tolist()) if measured else (1.0,) * dimensions
