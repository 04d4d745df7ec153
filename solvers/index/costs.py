"""What feature sets cost: the features' cost functions over common terms, and their sums (Equation 1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest, Timings
from models.arrays import Floats, Int64s
from models.cost import CostFunction, Residuals, cost_function
from models.index import IndexOptions, sizes_of


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """The features' costs over common terms. powers: (t, k), coefficients: (F, t); largest: sizes go up to this."""

    powers: Int64s
    coefficients: Floats
    largest: float = math.inf

    @classmethod
    def of(cls, functions: Sequence[CostFunction], largest: float = math.inf) -> "Costs":
        """Put cost functions over common terms.

        >>> Costs.of([CostFunction.constant(3.0), CostFunction.polynomial([1.0, 2.0])]).coefficients.tolist()
        [[3.0, 0.0], [1.0, 2.0]]
        """
        every = CostFunction.total(functions)
        nothing = replace(every, coefficients=np.zeros_like(every.coefficients))
        rows = [CostFunction.total([function, nothing]).coefficients for function in functions]
        return cls(every.powers, np.array(rows).reshape(len(functions), len(every.powers)), largest)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the size; 0 if no cost depends on it."""
        return int(self.powers.shape[1])

    def of_sets(self, masks: Int64s) -> Floats:
        """Add up the features of each set, correctly rounded, so that no order matters: (m, t).

        A superset's coefficients are never below, also in floating point.

        >>> Costs.of([CostFunction.constant(3.0), CostFunction.constant(0.5)]).of_sets(np.array([0, 3])).tolist()
        [[0.0], [3.5]]
        """
        columns = self.coefficients.T.tolist()
        rows = []
        for mask in masks.tolist():
            members = members_of(mask)
            rows.append([math.fsum([column[f] for f in members]) for column in columns])
        return np.array(rows, dtype=np.float64).reshape(len(masks), len(columns))

    def at(self, curves: Floats, size: Sequence[float]) -> Floats:
        """Evaluate curves (m, t) at one size: (m,). One dimension by Horner's rule, in the order of ``horner``."""
        return evaluate(curves, self.powers, size)

    def affordable_sizes(self, curves: Floats, budget: float) -> Floats:
        """Find the largest size at which each curve is within the budget: (m,), -∞ if none is, for 0 or 1 dimensions.

        Horner's rule never falls with size in floating point, so bisection over the floating-point numbers, which order
        as their bits do, is exact.

        >>> Costs.of([CostFunction.polynomial([1.0, 2.0])]).affordable_sizes(np.array([[1.0, 2.0]]), 9.0).tolist()
        [4.0]
        """
        top = min(self.largest, float(np.finfo(np.float64).max))
        low = np.full(len(curves), np.array([1.0]).view(np.int64)[0])
        high = np.full(len(curves), np.array([top]).view(np.int64)[0] + 1)
        while np.any(high - low > 1):
            middle = low + (high - low) // 2
            fits = horner(curves, middle.view(np.float64)) <= budget
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return np.where(horner(curves, np.ones(len(curves))) <= budget, low.view(np.float64), -np.inf)


def members_of(mask: int) -> list[int]:
    """List the features of a set.

    >>> members_of(0b1011)
    [0, 1, 3]
    """
    return [f for f in range(mask.bit_length()) if mask >> f & 1]


def horner(curves: Floats, sizes: Floats | float) -> Floats:
    """Evaluate curves (m, d + 1) at one size, or each at its own (m,)."""
    value = np.zeros(len(curves))
    with np.errstate(over="ignore"):
        for column in curves.T[::-1]:
            value = value * sizes + column
    return value


MOST_TERMS = 4096


def _refuse_too_many_terms(functions: Sequence[CostFunction]) -> None:
    """Comparing costs multiplies out all powers up to the largest in each dimension: no more than so many."""
    powers = [function.powers for function in functions if function.dimensions > 1]
    if powers:
        terms = prod(int(top) + 1 for top in np.concatenate(powers).max(axis=0))
        if terms > MOST_TERMS:
            fault = f"their powers multiply out to {terms} terms, at most {MOST_TERMS} can be compared"
            raise InvalidRequest.at(Fault(("dataset", "features"), fault))


LARGEST_TERM = 1e200
"""Beyond it a product of powers stays finite, so that a coefficient of 0 takes it away."""


def evaluate(curves: Floats, powers: Int64s, size: Sequence[float]) -> Floats:
    """Evaluate curves (m, t) at one size: (m,)."""
    if powers.shape[1] <= 1:
        return horner(curves, size[0] if powers.shape[1] else 1.0)
    with np.errstate(over="ignore"):
        terms = np.prod(np.asarray(size) ** powers, axis=1)
    return np.asarray(curves @ np.minimum(terms, LARGEST_TERM))


def read_costs(dataset: FeatureTable, options: IndexOptions) -> tuple[Costs, dict[str, Residuals]]:
    """Make the cost functions that the dataset's spec describes; timings are fitted, and their residuals told.

    With a fixed size every cost is the constant that it is there (Problem 2). Raises InvalidRequest if the dimensions
    of costs, size columns and sizes in the options do not agree.
    """
    spec = dataset.spec
    functions, residuals = [], {}
    for feature in spec.features:
        function, off = cost_function(feature.cost)
        functions.append(function)
        if off is not None:
            residuals[feature.name] = off
    dimensions = _dimensions(spec, functions)
    _refuse_too_many_terms(functions)
    if options.fixed_size is not None:
        size = check_dimensions(sizes_of(options.fixed_size), dimensions, "fixed_size")
        return Costs.of([function.at(size) for function in functions]), residuals
    if options.max_size is not None and dimensions != 1:
        fault = f"is for sizes of one number, the costs' sizes have {dimensions}"
        raise InvalidRequest.at(Fault(("max_size",), fault))
    return Costs.of(functions, options.max_size or math.inf), residuals


def _dimensions(spec: FeaturesSpec, functions: Sequence[CostFunction]) -> int:
    example = {f.dimensions: feature.name for feature, f in zip(spec.features, functions, strict=True) if f.dimensions}
    wanted = max(example, default=0)
    for dimensions, name in example.items():
        other = len(spec.size_columns) or wanted
        if dimensions != other:
            fault = f"the cost of {name!r} is for sizes of {dimensions} numbers, others for {other}"
            raise InvalidRequest.at(Fault(("dataset", "features"), fault))
    return wanted


def check_dimensions(size: tuple[float, ...], dimensions: int, where: str) -> tuple[float, ...]:
    """Refuse a size of another number of dimensions than the costs have; costs of 0 dimensions take any."""
    if dimensions and len(size) != dimensions:
        raise InvalidRequest.at(Fault((where,), f"has {len(size)} numbers, the costs' sizes have {dimensions}"))
    return size


def median_size(dataset: FeatureTable, options: IndexOptions, dimensions: int) -> tuple[float, ...]:
    """Find the size at which greedy sequences weigh cost; () if costs do not depend on size."""
    if not dimensions:
        return ()
    if options.median_size is not None:
        return check_dimensions(sizes_of(options.median_size), dimensions, "median_size")
    if dataset.sizes.shape[1] == dimensions:
        return tuple(np.median(dataset.sizes, axis=0).tolist())
    timings = [feature.cost for feature in dataset.spec.features if isinstance(feature.cost, Timings)]
    measured = sorted({row[:-1] for each in timings for row in each.timings})
    return tuple(np.median(measured, axis=0).tolist()) if measured else (1.0,) * dimensions
