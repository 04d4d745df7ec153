"""Stored arrays of an index plan, and validation of their invariants: a plan may come from untrusted bytes."""

from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from models import InvalidRequest
from models.arrays import Amounts, Bools, Floats, Int32s, Int64s, Probabilities, UInt8s
from models.losses import Losses
from solvers.base import check_array_ranges
from solvers.cell_encoding import CellEncoding
from solvers.index.cells import list_column_owners
from solvers.index.costs import SetCosts, list_members
from solvers.index.size_curves import spline_basis
from solvers.learners.linear import count_linear_numbers
from solvers.setup_groups import NO_GROUPS, SetupGroups, is_consistent_setup

KINDS = ("none", "skops", "softmax")
MAX_POWER = 15
"""Same as in ``models.cost``."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexContents:
    """Arrays of an index plan over F features. Costs are in ``unit``."""

    features: tuple[str, ...]
    """F names."""
    columns: tuple[tuple[str, ...], ...]
    """The columns of each feature."""
    classes: tuple[str, ...]
    """C names; a label's code is its place."""
    unit: str
    """The unit of costs and budgets."""
    alpha: float
    """A decision's accuracy, times 1 + alpha, is at least that of every set within the budget."""
    powers: Int64s
    """(t, k), powers of the terms of the cost polynomials, for sizes of k dimensions."""
    coefficients: Amounts
    """(F, t), coefficients of each feature's cost polynomial, at least 0."""
    masks: Int64s
    """(m,), all feature sets with a known accuracy, as bit masks over the features, rising."""
    accuracies: Probabilities
    """(m,), cross-validated accuracies, from 0 to 1."""
    candidates: Int32s
    """(c,), places in ``masks`` of the sets to choose from, the most accurate first."""
    sizes: Amounts
    """(b,), breakpoints: where each skyline begins, rising from 1; (0,) for sizes of several dimensions."""
    offsets: Int64s
    """(b + 1,), where each skyline begins in ``members``."""
    members: Int32s
    """Skylines by rising cost and accuracy, as places in ``candidates``."""
    lambdas: Floats
    """(q,), weights of cost of the greedy sequences: 0 first, infinity last."""
    orders: Int32s
    """(q, l), greedy sequences of l ≤ F features each."""
    median_size: tuple[float, ...]
    """k numbers: the size at which greedy sequences weigh cost."""
    model_kind: str
    """Format of the models: ``softmax`` (numbers, with probabilities), ``none`` (numbers, without), ``skops`` (bytes).
    """
    model_sets: Int32s
    """(p,), places in ``masks`` of the sets that have a model, rising."""
    model_offsets: Int64s
    """(p + 1,), where each model begins in ``model_numbers`` or ``model_bytes``."""
    model_numbers: Floats
    """Parameters of linear models."""
    model_bytes: UInt8s
    """Archives of other models."""
    class_shares: Probabilities
    """(C,), share of each class: the prediction of the empty set."""
    largest_size: float | None
    """Largest supported size; None: unlimited."""
    fixed_size: tuple[float, ...]
    """The only supported size; empty: all sizes."""
    fixed_budget: float | None
    """The only supported budget; None: all budgets."""
    rows: int = 0
    """Number of rows of the accuracies; 0 in older artifacts."""
    reached: Probabilities = field(default_factory=lambda: np.empty((0, 3)))
    """(m, 3), for each set: accuracy on validation rows, accuracy on holdout rows, and standard deviation of the
    choice.

    Accuracies are corrected for the optimism of choosing the best set within a cost at the median size
    (``selection_bias``). (0, 3) in older artifacts.
    """
    choosing: int = 0
    """Number of validation rows."""
    size_knots: Floats = field(default_factory=lambda: np.empty(0))
    """(K,), logarithms of extents (products of a size's numbers) between which accuracies are linear, rising.

    (0,): accuracies do not depend on size. See ``size_curves``.
    """
    size_edges: Floats = field(default_factory=lambda: np.empty(0))
    """(R - 1,), extents where regions of sizes with their own accuracies and skylines begin."""
    size_centers: Floats = field(default_factory=lambda: np.empty(0))
    """(R,), logarithms of the extents at which accuracies of regions are evaluated; (0,) without knots."""
    size_levels: Floats = field(default_factory=lambda: np.empty((3, 0, 0)))
    """(3, K, m), accuracies at the knots: on validation rows, on holdout rows, and on all rows."""
    size_covariance: Floats = field(default_factory=lambda: np.empty((3, 0, 0)))
    """(3, K, K), covariance of the levels, for outcomes of variance 1."""
    size_optimism: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(R, m), optimism of each set's accuracy from being chosen as the best of a region."""
    size_spread: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(R, m), standard deviation of that choice."""
    left_out: tuple[str, ...] = ()
    """Features of the table that preselection excluded (``preselection``)."""
    left_out_powers: Int64s = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    """(t', k), powers of the terms of their cost polynomials; (0, 0): none, or an older artifact."""
    left_out_coefficients: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(G, t'), coefficients of their cost polynomials."""
    setup_names: tuple[str, ...] = ()
    """Names of the H set-up groups: work that features share and an item pays for once (``solvers.setup_groups``)."""
    setup_members: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))
    """(H, F + G), the features of each group, then those of ``left_out``; (0, 0) without groups."""
    setup_coefficients: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(H, t), coefficients of each group's cost polynomial over ``powers``."""
    cell_owners: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(d,), feature of each column if some have categories or missing cells (``CellEncoding``); else (0,)."""
    cell_fills: Floats = field(default_factory=lambda: np.empty(0))
    """(d,), imputed value of missing numbers."""
    cell_marks: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    """(d,), whether the column has a missing indicator."""
    cell_offsets: Int64s = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(d + 1,), where each column's categories begin in ``cell_categories``; numbers have none."""
    cell_categories: tuple[str, ...] = ()
    """Categories known to the models."""
    cells_missing: bool = False
    """Whether cells may be missing."""
    loss_matrix: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(C, A), loss of each answer for each true class, in ``unit``; with A = C + 1 the last answer is to reject
    (``Losses``). (0, 0): all errors are equal.
    """

    @property
    def losses(self) -> Losses | None:
        """The loss matrix; None if all errors are equal."""
        return Losses.from_matrix(self.loss_matrix)

    @cached_property
    def setup(self) -> SetupGroups:
        """The indexed features of each set-up group."""
        return SetupGroups(self.setup_members[:, : len(self.features)]) if self.setup_names else NO_GROUPS

    @cached_property
    def set_costs(self) -> SetCosts:
        """Cost polynomials of the features and of the set-up groups."""
        if not self.setup_names:
            return SetCosts(self.powers, self.coefficients)
        coefficients = np.concatenate((self.coefficients, self.setup_coefficients))
        return SetCosts(self.powers, coefficients, groups=self.setup)

    def choose_answers(self, probabilities: Floats) -> Int64s:
        """Return the codes of the answers, (n,), for probabilities, (n, C); C rejects."""
        losses = self.losses
        return np.asarray(probabilities.argmax(axis=1)) if losses is None else losses.choose(probabilities)[0]

    @property
    def encoding(self) -> CellEncoding | None:
        """Numerical encoding of categories and missing cells; None if there are none."""
        if not len(self.cell_owners):
            return None
        return CellEncoding.from_plan(self)

    @property
    def candidate_levels(self) -> Floats:
        """(R, c), accuracies of candidates in each region of sizes."""
        if not len(self.size_edges):
            return self.accuracies[self.candidates][None]
        basis = spline_basis(self.size_knots, self.size_centers)
        return np.asarray(basis @ self.size_levels[2][:, self.candidates])

    def list_names(self, mask: int) -> tuple[str, ...]:
        """Return the names of a set's features."""
        return tuple(self.features[f] for f in list_members(mask))

    @property
    def widths(self) -> Int64s:
        """(F,), number of encoded columns of each feature."""
        encoding = self.encoding
        if encoding is None:
            return np.array([len(columns) for columns in self.columns], dtype=np.int64)
        return np.bincount(encoding.owners, weights=encoding.widths, minlength=len(self.features)).astype(np.int64)

    def check(self) -> None:
        """Raise InvalidRequest if the arrays violate an invariant."""
        check_array_ranges(self)
        for group in (
            _dimensions,
            _shapes,
            _cells,
            _sets,
            _size_curves,
            _index,
            _greedy,
            _models,
        ):  # each group relies on the ones before it
            broken = [invariant for invariant, holds in group(self).items() if not holds]
            if broken:
                raise InvalidRequest(f"invalid index plan; violated: {', '.join(broken)}")


def _dimensions(plan: IndexContents) -> dict[str, bool]:
    matrices = {"powers", "coefficients", "orders", "reached", "left_out_powers", "left_out_coefficients"}
    matrices |= {"setup_members", "setup_coefficients"}
    dimensions = dict.fromkeys((*matrices, "size_optimism", "size_spread", "loss_matrix"), 2)
    dimensions |= {"size_levels": 3, "size_covariance": 3}
    arrays = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init}
    arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    right = all(array.ndim == dimensions.get(name, 1) for name, array in arrays.items())
    return {
        "arrays of the correct dimensions": right,
        "different features and classes": len({*plan.features, *plan.left_out}) == len(plan.features + plan.left_out)
        and len(set(plan.classes)) == len(plan.classes),
        "an alpha, a budget and sizes in range": plan.alpha >= 0
        and (plan.fixed_budget is None or plan.fixed_budget >= 0)
        and (plan.largest_size is None or plan.largest_size >= 1)
        and all(size > 0 for size in (*plan.median_size, *plan.fixed_size)),
    }


def _shapes(plan: IndexContents) -> dict[str, bool]:
    n, m, c = len(plan.features), len(plan.masks), len(plan.candidates)
    powers = plan.powers
    return {
        "features, each with its columns": 0 < n <= 62 and len(plan.columns) == n and all(map(len, plan.columns)),
        "two classes or more, with their shares": len(plan.classes) > 1
        and plan.class_shares.shape == (len(plan.classes),),
        "costs for each feature": powers.ndim == 2
        and len(powers) > 0
        and plan.coefficients.shape == (n, len(powers))
        and _are_powers(powers),
        "powers from 0 on where sizes are one number": powers.shape[-1] != 1
        or bool(np.all(powers.reshape(-1) == np.arange(len(powers)))),
        "finite numbers": bool(np.all(np.isfinite(plan.model_numbers))),
        "accuracies for each set": plan.masks.shape == plan.accuracies.shape == (m,) and m > 0,
        "a number of rows of at least 0": plan.rows >= 0,
        "reached accuracies of all sets or none": plan.reached.shape in ((0, 3), (m, 3))
        and (0 < plan.choosing < plan.rows if len(plan.reached) else plan.choosing == 0),
        "candidates": plan.candidates.shape == (c,) and c > 0,
        "costs of at least 0 for each feature left out, or of none": _left_out_costs(plan),
        "features and a cost for each set-up group, or no groups": _setup(plan),
        "losses of each answer for each class, and probabilities, or no losses": plan.loss_matrix.shape == (0, 0)
        or (
            plan.loss_matrix.shape in tuple((len(plan.classes), len(plan.classes) + more) for more in (0, 1))
            and bool(plan.loss_matrix.any())
            and plan.model_kind != "none"
        ),
        "no fixed size with costs that depend on size": not plan.fixed_size or powers.shape[-1] == 0,
    }


def _left_out_costs(plan: IndexContents) -> bool:
    powers, coefficients = plan.left_out_powers, plan.left_out_coefficients
    if powers.shape == coefficients.shape == (0, 0):
        return True
    return len(powers) == coefficients.shape[1] > 0 and len(coefficients) == len(plan.left_out) and _are_powers(powers)


def _setup(plan: IndexContents) -> bool:
    names, coefficients = plan.setup_names, plan.setup_coefficients
    width = len(plan.powers) if names else 0
    return coefficients.shape == (len(names), width) and is_consistent_setup(
        names, plan.setup_members, coefficients, (*plan.features, *plan.left_out)
    )


def _are_powers(powers: Int64s) -> bool:
    return bool(np.all((powers >= 0) & (powers <= MAX_POWER)))


def _cells(plan: IndexContents) -> dict[str, bool]:
    encoding = CellEncoding.from_plan(plan)
    if not encoding.is_consistent(len(plan.features)):
        return {"an encoding of each column": False}
    encodes = len(plan.cell_owners) > 0
    return {
        "columns that encode cells": not encodes or np.array_equal(plan.cell_owners, list_column_owners(plan.columns))
    }


def _sets(plan: IndexContents) -> dict[str, bool]:
    masks, candidates = plan.masks, plan.candidates
    inside = bool(np.all((candidates >= 0) & (candidates < len(masks))))
    levels = plan.accuracies[candidates] if inside else np.zeros(0)
    free = ~np.any(plan.set_costs.coefficients > 0, axis=1)
    paying = ~plan.setup.append_groups(np.eye(len(plan.features), dtype=np.bool_)) | free
    paid = sum(1 << f for f in np.flatnonzero(~paying.all(axis=1)).tolist())
    return {
        "sets of its features, rising": bool(np.all(np.diff(masks) > 0))
        and masks[0] == 0
        and int(masks[-1]) < 1 << len(plan.features),
        "candidates among its sets, the most accurate first": inside and bool(np.all(np.diff(levels) <= 0)),
        "a candidate that costs nothing": inside and bool(np.any(masks[candidates] & paid == 0)),
    }


def _size_curves(plan: IndexContents) -> dict[str, bool]:
    knots, edges, levels = plan.size_knots, plan.size_edges, plan.size_levels
    k, r, m = len(knots), len(edges) + 1 if len(knots) else 0, len(plan.masks) if len(knots) else 0
    arrays = (knots, edges, plan.size_centers, levels, plan.size_covariance, plan.size_optimism, plan.size_spread)
    return {
        "regions of sizes only where accuracies depend on it": k > 1 or k == len(edges) == 0,
        "accuracies at each knot and region": plan.size_centers.shape == (r,)
        and levels.shape == (3, k, m)
        and plan.size_covariance.shape == (3, k, k)
        and plan.size_optimism.shape == plan.size_spread.shape == (r, m),
        "finite accuracies over size": all(bool(np.all(np.isfinite(array))) for array in arrays)
        and bool(np.all((levels >= 0) & (levels <= 1)))
        and bool(np.all(np.abs(plan.size_optimism) <= 1))
        and bool(np.all(plan.size_spread >= 0)),
        "knots and regions that rise": bool(np.all(np.diff(knots) > 0))
        and bool(np.all(np.diff(edges) > 0))
        and bool(np.all(edges > 1)),
        "rows behind accuracies over size": not k or 0 < plan.choosing < plan.rows,
        "covariances of accuracies over size": plan.size_covariance.shape != (3, k, k)
        or not k
        or all(_is_covariance(each) for each in plan.size_covariance),
    }


def _is_covariance(matrix: Floats) -> bool:
    return bool(np.all(np.isfinite(matrix)) and np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix)[0] > 0)


def _index(plan: IndexContents) -> dict[str, bool]:
    sizes, ends, members = plan.sizes, plan.offsets, plan.members
    vector = plan.powers.shape[1] > 1
    fits = (
        sizes.ndim == members.ndim == 1
        and ends.shape == (len(sizes) + 1,)
        and int(ends[0]) == 0
        and int(ends[-1]) == len(members)
        and bool(np.all(np.diff(ends) > 0))
        and bool(np.all((members >= 0) & (members < len(plan.candidates))))
    )
    rising = True
    if fits and len(members):
        inner = np.ones(len(members) - 1, dtype=bool)
        inner[ends[1:-1] - 1] = False
        region = np.repeat(np.searchsorted(plan.size_edges, sizes, side="right"), np.diff(ends))
        levels = plan.candidate_levels[region, members]
        rising = bool(np.all((np.diff(levels) > 0)[inner & (np.diff(region) == 0)]))
    return {
        "breakpoints that rise from 1, unless sizes have several dimensions": (len(sizes) == 0) == vector
        and bool(np.all(np.diff(sizes) > 0))
        and (vector or sizes[0] == 1),
        "offsets that cut the members into skylines": fits,
        "skylines of rising accuracy": rising,
        "skylines that begin with their region": vector or bool(np.all(np.isin(plan.size_edges, sizes))),
    }


def _greedy(plan: IndexContents) -> dict[str, bool]:
    orders, lambdas, n = plan.orders, plan.lambdas, len(plan.features)
    shaped = orders.ndim == 2 and lambdas.shape == orders.shape[:1] and orders.shape[1] <= n and len(orders) > 1
    inside = shaped and bool(np.all((orders >= 0) & (orders < n)))
    each_once = inside and all(len(set(order)) == len(order) for order in orders.tolist())
    known = False
    if each_once:
        prefixes = np.cumsum(1 << orders.astype(np.int64), axis=1).ravel()
        places = np.minimum(np.searchsorted(plan.masks, prefixes), len(plan.masks) - 1)
        known = bool(np.all(plan.masks[places] == prefixes))
    return {
        "sequences that take no feature twice": each_once,
        "the sequences of 0 and of infinity": shaped and lambdas[0] == 0 and lambdas[-1] == np.inf,
        "an accuracy for each part of a sequence": known,
        "a median size of its dimensions": len(plan.median_size) == plan.powers.shape[1],
    }


def _models(plan: IndexContents) -> dict[str, bool]:
    sets, ends, kind = plan.model_sets, plan.model_offsets, plan.model_kind
    held = len(plan.model_bytes) if kind == "skops" else len(plan.model_numbers)
    fits = (
        sets.ndim == 1
        and ends.shape == (len(sets) + 1,)
        and int(ends[0]) == 0
        and int(ends[-1]) == held
        and bool(np.all(np.diff(ends) > 0))
        and bool(np.all(np.diff(sets) > 0))
        and bool(np.all((sets > 0) & (sets < len(plan.masks))))
    )
    whole = fits
    if fits and kind != "skops":
        widths = plan.widths
        bits = plan.masks[sets][:, None] >> np.arange(len(widths)) & 1
        wanted = [count_linear_numbers(width, len(plan.classes)) for width in (bits @ widths).tolist()]
        whole = np.diff(ends).tolist() == wanted
    return {
        "models of a known kind": kind in KINDS,
        "models of its sets": fits,
        "as many numbers as its models have": whole,
    }
