"""Cost specs and cost functions: a constant, or a polynomial in the item's size.

A *spec* declares the cost of a feature: ``Amount``, ``Polynomial``, ``Terms`` (sizes of several dimensions), or
``Timings`` (measurements to fit). ``CostFunction`` evaluates it. Its coefficients are non-negative, so cost never falls
with size. The cost of a set of features is the sum of their costs (Equation 1 of *Indexing Cost Sensitive Prediction*),
and of the set-up groups that they touch (``setup_spec``).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Discriminator, Field, Tag, model_validator

from models.arrays import Floats, Int64s
from models.base import LARGEST, Items, Value
from models.errors import InvalidRequest

Amount = Annotated[float, Field(ge=0, le=LARGEST)]
Power = Annotated[int, Field(ge=0, le=15)]


class Polynomial(Value):
    """Coefficients of 1, s, s², … in the item size s, each at least 0.

    >>> Polynomial(polynomial=(0.2, 0.01)).polynomial
    (0.2, 0.01)
    """

    polynomial: Annotated[Items[Amount], Field(min_length=1, max_length=16)] = Field(
        description="coefficients of 1, s, s², … in the item size s; each at least 0, in the dataset's unit"
    )


class Term(Value):
    """One term of a polynomial in several sizes: coefficient · ∏ size_i ^ power_i."""

    coefficient: Amount = Field(description="the term's coefficient, at least 0, in the dataset's unit")
    powers: Annotated[Items[Power], Field(min_length=1, max_length=8)] = Field(
        description="the power of each dimension of the size, in the order of the dataset's size columns"
    )


class Terms(Value):
    """A polynomial in a size of several dimensions, for example length and width.

    >>> Terms.model_validate({"terms": [{"coefficient": 0.5, "powers": [1, 1]}]}).dimensions
    2
    """

    terms: Annotated[Items[Term], Field(min_length=1, max_length=100)] = Field(
        description="the terms whose sum is the cost, in the dataset's unit"
    )

    @model_validator(mode="after")
    def _dimensions_agree(self) -> "Terms":
        dimensions = sorted({len(term.powers) for term in self.terms})
        if len(dimensions) > 1:
            raise ValueError(f"terms must have one power per dimension, got {dimensions[0]} and {dimensions[1]} powers")
        return self

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the size."""
        return len(self.terms[0].powers)


class Timings(Value):
    """Measured costs at several item sizes; index builds fit a polynomial to them."""

    timings: Annotated[Items[Annotated[Items[Amount], Field(min_length=2, max_length=9)]], Field(min_length=1)] = Field(
        description="rows of item size (one number per dimension) and measured cost, in the dataset's unit"
    )
    degree: int = Field(default=2, ge=0, le=15, description="degree of the fitted polynomial")
    quantile: float = Field(
        default=0.95,
        gt=0,
        le=1,
        description="the quantile of the measured costs at each size that the fitted cost must cover",
    )

    @model_validator(mode="after")
    def _can_be_fitted(self) -> "Timings":
        lengths = sorted({len(row) for row in self.timings})
        if len(lengths) > 1:
            raise ValueError(f"rows must have equal lengths, got {lengths[0]} and {lengths[1]} numbers")
        smallest = min(min(row[:-1]) for row in self.timings)
        if smallest < 1:
            raise ValueError(f"sizes must be at least 1, got {smallest:g}")
        sizes = len({row[:-1] for row in self.timings})
        needed = math.comb(self.degree + self.dimensions, self.dimensions)
        if sizes < needed:
            raise ValueError(f"degree {self.degree} requires timings at {needed} or more sizes, got {sizes}")
        return self

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the size."""
        return len(self.timings[0]) - 1


def choose_by_field(kinds: Mapping[str, type[Value]]) -> Discriminator:
    """Return a Pydantic discriminator of cost specs, by the field that only one has.

    Validation errors then concern only the kind of cost that was sent.
    """

    def kind_of(cost: Any) -> str | None:
        if isinstance(cost, Value):
            return next((name for name, kind in kinds.items() if isinstance(cost, kind)), None)
        if isinstance(cost, dict):
            return next((name for name in kinds if name in cost), None)
        return "amount" if isinstance(cost, int | float) else None

    *others, last = kinds
    named = f"{', '.join(others)} or {last}" if others else last
    message = f"must be a number, or have {named}"
    return Discriminator(kind_of, custom_error_type="cost", custom_error_message=message)


def size_columns_of(size: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the dataset columns of an item's size: none, one, or one per dimension."""
    if size is None:
        return ()
    return (size,) if isinstance(size, str) else size


Cost = Annotated[
    Annotated[Amount, Tag("amount")]
    | Annotated[Polynomial, Tag("polynomial")]
    | Annotated[Terms, Tag("terms")]
    | Annotated[Timings, Tag("timings")],
    choose_by_field({"polynomial": Polynomial, "terms": Terms, "timings": Timings}),
]


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals of a fitted cost curve against the measured quantiles.

    Attributes:
        rms: root mean square.
        largest_over: the largest amount by which the curve is above a quantile.
        largest_under: the largest amount by which the curve is below a quantile; 0 if it is never below.
    """

    rms: float
    largest_over: float
    largest_under: float


@dataclass(frozen=True, slots=True, eq=False)
class CostFunction:
    """A polynomial with non-negative coefficients in an item size of k dimensions.

    Attributes:
        powers: (t, k) int64, sorted and unique; with one dimension, all from 0 to the degree. With k = 0, the cost is
            constant.
        coefficients: (t,) float64, at least 0.
    """

    powers: Int64s
    coefficients: Floats

    def __post_init__(self) -> None:
        if self.powers.ndim != 2 or self.coefficients.shape != self.powers.shape[:1] or not len(self.powers):
            shapes = f"{self.powers.shape} and {self.coefficients.shape}"
            raise InvalidRequest(f"powers and coefficients must have shapes (t, k) and (t,) with t > 0, got {shapes}")
        if not np.all(np.isfinite(self.coefficients)) or self.coefficients.min() < 0 or self.powers.min(initial=0) < 0:
            least = min(self.coefficients.min(), self.powers.min(initial=0))
            raise InvalidRequest(f"coefficients must be finite and powers at least 0, got {least:g}")
        self.powers.flags.writeable = False
        self.coefficients.flags.writeable = False

    @classmethod
    def from_constant(cls, amount: float, dimensions: int = 0) -> "CostFunction":
        """Return a cost that is the same for every size.

        >>> float(CostFunction.from_constant(3.0)(()))
        3.0
        """
        return cls(np.zeros((1, dimensions), dtype=np.int64), np.array([float(amount)]))

    @classmethod
    def from_polynomial(cls, coefficients: Sequence[float]) -> "CostFunction":
        """Return a polynomial in one size from the coefficients of 1, s, s², …

        >>> CostFunction.from_polynomial([1.0, 0.5])([[2.0], [4.0]]).tolist()
        [2.0, 3.0]
        """
        return cls(np.arange(len(coefficients))[:, None], np.array(coefficients, dtype=np.float64))

    @classmethod
    def sum_of(cls, functions: Iterable["CostFunction"], dimensions: int = 0) -> "CostFunction":
        """Return the sum of cost functions (Equation 1).

        Sums of coefficients are correctly rounded, so the order does not matter. Functions must have equal numbers of
        dimensions; constants can be added to any function.

        >>> parts = [CostFunction.from_constant(1.0), CostFunction.from_polynomial([0.0, 2.0])]
        >>> CostFunction.sum_of(parts).coefficients.tolist()
        [1.0, 2.0]
        """
        terms: dict[tuple[int, ...], list[float]] = {}
        every = list(functions)
        k = max((function.dimensions for function in every), default=dimensions)
        for function in every:
            if function.dimensions not in (0, k):
                raise InvalidRequest(f"costs must depend on equally many sizes, got {function.dimensions} and {k}")
            for powers, coefficient in zip(function.powers.tolist(), function.coefficients.tolist(), strict=True):
                terms.setdefault(tuple(powers) or (0,) * k, []).append(coefficient)
        if k <= 1:
            degree = max((powers[0] for powers in terms if powers), default=0)
            for i in range(degree + 1):
                terms.setdefault((i,) * k, [])
        ordered = sorted(terms) or [(0,) * k]
        sums = [math.fsum(terms.get(powers, ())) for powers in ordered]
        return cls(np.array(ordered, dtype=np.int64).reshape(len(ordered), k), np.array(sums))

    @classmethod
    def fit(cls, timings: Timings) -> tuple["CostFunction", Residuals]:
        """Fit a curve to the quantile of the costs at each size.

        The fit is non-negative least squares of relative errors, on columns scaled to a maximum of 1. The curve is then
        multiplied by the smallest factor, at least 1, so that it is at or above the quantile at every measured size.

        >>> timings = Timings.model_validate({"timings": [[1, 3.0], [2, 5.0], [4, 9.0]], "degree": 1})
        >>> CostFunction.fit(timings)[0].coefficients.round(6).tolist()
        [1.0, 2.0]
        """
        from scipy.optimize import nnls

        rows = np.array(timings.timings, dtype=np.float64)
        sizes, where = np.unique(rows[:, :-1], axis=0, return_inverse=True)
        which = where.reshape(-1)
        costs = np.array([np.quantile(rows[which == i, -1], timings.quantile) for i in range(len(sizes))])
        k = timings.dimensions
        powers = np.array([p for p in product(range(timings.degree + 1), repeat=k) if sum(p) <= timings.degree])
        columns = _monomials(powers, sizes)
        scale = columns.max(axis=0)
        if not np.all(np.isfinite(scale)):
            raise InvalidRequest(f"size {sizes.max():g} to the power {timings.degree} overflows")
        weights = 1.0 / np.maximum(costs, float(costs.max()) * 1e-9) if costs.max() > 0 else np.ones(len(costs))
        function = cls(powers, nnls(columns / scale * weights[:, None], costs * weights)[0] / scale)
        function = function._lifted(sizes, costs)
        over = function(sizes) - costs
        return function, Residuals(
            float(np.sqrt(np.mean(over**2))), max(0.0, float(over.max())), max(0.0, -float(over.min()))
        )

    def _lifted(self, sizes: Floats, costs: Floats) -> "CostFunction":
        """Multiply by the smallest factor that raises the curve to at least all costs."""
        curve = self(sizes)
        factor = max(1.0, float(np.max(np.divide(costs, curve, out=np.ones_like(costs), where=curve > 0))))
        lifted = CostFunction(self.powers, self.coefficients * factor)
        for _ in range(64):
            if not bool(np.any(lifted(sizes) < costs)):
                break
            factor *= 1 + 4e-16  # what rounding took
            lifted = CostFunction(self.powers, self.coefficients * factor)
        return lifted

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the size; 0 for a constant."""
        return int(self.powers.shape[1])

    @property
    def depends_on_size(self) -> bool:
        """Return whether any term that contains a size is nonzero."""
        return bool(np.any(self.coefficients[self.powers.any(axis=1)] > 0))

    def __add__(self, other: "CostFunction") -> "CostFunction":
        """Add two costs, as of computing both features (Equation 1)."""
        return CostFunction.sum_of([self, other])

    def __call__(self, sizes: ArrayLike) -> Floats:
        """Return the costs at sizes (…, k), as (…).

        One dimension uses Horner's rule. So even in floating point, costs never fall with size or with a coefficient.
        """
        points = np.asarray(sizes, dtype=np.float64)
        if points.shape[-1:] != (self.dimensions,):
            raise InvalidRequest(f"sizes of shape {points.shape} must end in {self.dimensions} dimensions")
        with np.errstate(over="ignore"):
            if self.dimensions == 1:
                return _horner(self.powers[:, 0], self.coefficients, points[..., 0])
            return np.asarray(_monomials(self.powers, points) @ self.coefficients)

    def cost_at(self, size: Sequence[float]) -> "CostFunction":
        """Return the cost at a size as a constant cost function."""
        return CostFunction.from_constant(float(self(np.array(size if self.dimensions else (), dtype=np.float64))))


def cost_function(spec: Cost) -> tuple[CostFunction, Residuals | None]:
    """Return the cost function of a spec, and the residuals if it was fitted.

    >>> cost_function(2.5)[0].dimensions
    0
    """
    match spec:
        case Polynomial():
            return CostFunction.from_polynomial(spec.polynomial), None
        case Terms():
            terms = [CostFunction(np.array([t.powers]), np.array([t.coefficient])) for t in spec.terms]
            return CostFunction.sum_of(terms), None
        case Timings():
            return CostFunction.fit(spec)
        case _:
            return CostFunction.from_constant(spec), None


def _horner(powers: Int64s, coefficients: Floats, points: Floats) -> Floats:
    value = np.zeros_like(points)
    dense = np.zeros(int(powers.max()) + 1)
    dense[powers] = coefficients
    for coefficient in dense[::-1]:
        value = value * points + coefficient
    return value


def _monomials(powers: Int64s, points: Floats) -> Floats:
    """Raise points (…, k) to powers (t, k), giving (…, t)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.prod(points[..., None, :] ** powers, axis=-1))
