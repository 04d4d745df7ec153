"""What an index plan keeps, and what its arrays promise each other: a plan may come from anybody's bytes."""

from dataclasses import dataclass, field, fields

import numpy as np

from models import InvalidRequest
from models.arrays import Amounts, Bools, Floats, Int32s, Int64s, Probabilities, UInt8s
from solvers.base import refuse_out_of_range
from solvers.cell_encoding import CellEncoding
from solvers.index.cells import owners_of
from solvers.index.costs import members_of
from solvers.index.size_curves import spline_basis
from solvers.learners.linear import linear_length

KINDS = ("none", "skops", "softmax")
MOST_POWER = 15
"""As in ``models.cost``."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexContents:
    """Feature sets for every size and budget, over F features. Costs are in ``unit``."""

    features: tuple[str, ...]
    """F names."""
    columns: tuple[tuple[str, ...], ...]
    """The columns of each feature."""
    classes: tuple[str, ...]
    """C names, in whose order labels are coded."""
    unit: str
    """The unit of costs and budgets."""
    alpha: float
    """An answer's accuracy, times 1 + alpha, is at least that of every set within the budget."""
    powers: Int64s
    """(t, k) the powers of each term of the cost polynomials, for sizes of k dimensions."""
    coefficients: Amounts
    """(F, t) what each feature costs: the factor of each term, at least 0."""
    masks: Int64s
    """(m,) every feature set whose accuracy is known, as bits over the features, rising."""
    accuracies: Probabilities
    """(m,) their cross-validated accuracies, from 0 to 1."""
    candidates: Int32s
    """(c,) places in masks of the sets to choose from, the preferred first."""
    sizes: Amounts
    """(b,) the index over one size: where each skyline begins, rising from 1; (0,) for sizes of several dimensions."""
    offsets: Int64s
    """(b + 1,) cuts ``members`` into skylines."""
    members: Int32s
    """The skylines by rising cost and accuracy, as places in ``candidates``."""
    lambdas: Floats
    """(q,) what greedy sequences weighed cost by: 0 first, infinity last."""
    orders: Int32s
    """(q, l) the sequences: l ≤ F features each."""
    median_size: tuple[float, ...]
    """k numbers: the size at which they weighed cost."""
    model_kind: str
    """How models are kept: as numbers, giving probabilities (softmax) or none, or as bytes (skops)."""
    model_sets: Int32s
    """(p,) places in masks of the sets that have a model, rising."""
    model_offsets: Int64s
    """(p + 1,) cuts ``model_numbers``, or ``model_bytes``, into models."""
    model_numbers: Floats
    """The models that are linear."""
    model_bytes: UInt8s
    """The models that are archives."""
    class_shares: Probabilities
    """(C,) the share of each class, which the empty set predicts by."""
    largest_size: float | None
    """The largest size that the plan was built for, if it was not for all."""
    fixed_size: tuple[float, ...]
    """The only size that it was built for; empty if it was not for one."""
    fixed_budget: float | None
    """The only budget that it was built for, if it was for one."""
    rows: int = 0
    """How many rows the accuracies are of; 0: built before that was kept."""
    reached: Probabilities = field(default_factory=lambda: np.empty((0, 3)))
    """(m, 3) what each set reaches, less what being the best within its cost at the median size makes that too high by:
    on the rows that choose who reaches an accuracy, and on the others; and how far other rows would have chosen a
    better or a worse one, by a standard deviation (``selection_bias``); (0, 3): built before that was kept."""
    choosing: int = 0
    """How many of the rows those are that choose."""
    size_knots: Floats = field(default_factory=lambda: np.empty(0))
    """(K,) logarithms of extents (products of a size's numbers) between which accuracies are linear, rising
    (``size_curves``); (0,): accuracies do not depend on the size."""
    size_edges: Floats = field(default_factory=lambda: np.empty(0))
    """(R - 1,) extents where the regions of sizes begin that have accuracies and skylines of their own."""
    size_centers: Floats = field(default_factory=lambda: np.empty(0))
    """(R,) logarithms of the extents at which the accuracies of regions are taken; (0,) without knots."""
    size_levels: Floats = field(default_factory=lambda: np.empty((3, 0, 0)))
    """(3, K, m) accuracies at the knots: on the rows that choose, on the others, and on all."""
    size_covariance: Floats = field(default_factory=lambda: np.empty((3, 0, 0)))
    """(3, K, K) the covariance of these, for outcomes of variance 1."""
    size_optimism: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(R, m) what being the best of its region makes each set's accuracy too high by."""
    size_spread: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(R, m) how far other rows would have chosen a better or a worse one there, by a standard deviation."""
    left_out: tuple[str, ...] = ()
    """The features of the table that were not looked at, for there were too many (``preselection``)."""
    left_out_powers: Int64s = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    """(t', k) the powers of sizes in the terms of their costs; (0, 0): built before these were kept, or none is left
    out."""
    left_out_coefficients: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(G, t') their costs, over those terms."""
    cell_owners: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(d,) the feature of each column of the table where some have categories or missing cells (``CellEncoding``);
    (0,): none has."""
    cell_fills: Floats = field(default_factory=lambda: np.empty(0))
    """(d,) what stands for a missing number."""
    cell_marks: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    """(d,) whether a second number tells that it was missing."""
    cell_offsets: Int64s = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(d + 1,) where the categories of each column stand in ``cell_categories``, none for numbers."""
    cell_categories: tuple[str, ...] = ()
    """Those that models see."""
    cells_missing: bool = False
    """Whether cells may be missing."""

    @property
    def encoding(self) -> CellEncoding | None:
        """How categories and missing cells become numbers; None where there are none."""
        if not len(self.cell_owners):
            return None
        return CellEncoding.kept_in(self)

    @property
    def candidate_levels(self) -> Floats:
        """The accuracies by which candidates are chosen, in each region of sizes: (R, c)."""
        if not len(self.size_edges):
            return self.accuracies[self.candidates][None]
        basis = spline_basis(self.size_knots, self.size_centers)
        return np.asarray(basis @ self.size_levels[2][:, self.candidates])

    def names_of(self, mask: int) -> tuple[str, ...]:
        """Name the features of a set."""
        return tuple(self.features[f] for f in members_of(mask))

    @property
    def widths(self) -> Int64s:
        """How many numbers models see of each feature: (F,)."""
        encoding = self.encoding
        if encoding is None:
            return np.array([len(columns) for columns in self.columns], dtype=np.int64)
        return np.bincount(encoding.owners, weights=encoding.widths, minlength=len(self.features)).astype(np.int64)

    def check(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other."""
        refuse_out_of_range(self)
        for group in (
            _dimensions,
            _shapes,
            _cells,
            _sets,
            _size_curves,
            _index,
            _greedy,
            _models,
        ):  # a later group relies on those before it
            broken = [promise for promise, kept in group(self).items() if not kept]
            if broken:
                raise InvalidRequest(f"this is no index plan: it lacks {', '.join(broken)}")


def _dimensions(plan: IndexContents) -> dict[str, bool]:
    matrices = {"powers", "coefficients", "orders", "reached", "left_out_powers", "left_out_coefficients"}
    dimensions = dict.fromkeys((*matrices, "size_optimism", "size_spread"), 2)
    dimensions |= {"size_levels": 3, "size_covariance": 3}
    arrays = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init}
    arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    right = all(array.ndim == dimensions.get(name, 1) for name, array in arrays.items())
    return {
        "arrays of the right dimensions": right,
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
        "what all sets reach or none": plan.reached.shape in ((0, 3), (m, 3))
        and (0 < plan.choosing < plan.rows if len(plan.reached) else plan.choosing == 0),
        "candidates": plan.candidates.shape == (c,) and c > 0,
        "costs of at least 0 for each feature left out, or of none": _left_out_costs(plan),
        "a fixed size that costs do not depend on any more": not plan.fixed_size or powers.shape[-1] == 0,
    }


def _left_out_costs(plan: IndexContents) -> bool:
    powers, coefficients = plan.left_out_powers, plan.left_out_coefficients
    if powers.shape == coefficients.shape == (0, 0):
        return True
    return len(powers) == coefficients.shape[1] > 0 and len(coefficients) == len(plan.left_out) and _are_powers(powers)


def _are_powers(powers: Int64s) -> bool:
    return bool(np.all((powers >= 0) & (powers <= MOST_POWER)))


def _cells(plan: IndexContents) -> dict[str, bool]:
    encoding = CellEncoding.kept_in(plan)
    if not encoding.fits(len(plan.features)):
        return {"an encoding of each column": False}
    encodes = len(plan.cell_owners) > 0
    return {"columns that encode cells": not encodes or np.array_equal(plan.cell_owners, owners_of(plan.columns))}


def _sets(plan: IndexContents) -> dict[str, bool]:
    masks, candidates = plan.masks, plan.candidates
    inside = bool(np.all((candidates >= 0) & (candidates < len(masks))))
    levels = plan.accuracies[candidates] if inside else np.zeros(0)
    free = ~np.any(plan.coefficients > 0, axis=1)
    dear = sum(1 << f for f in np.flatnonzero(~free).tolist())
    return {
        "sets of its features, rising": bool(np.all(np.diff(masks) > 0))
        and masks[0] == 0
        and int(masks[-1]) < 1 << len(plan.features),
        "candidates among its sets, the most accurate first": inside and bool(np.all(np.diff(levels) <= 0)),
        "a candidate that costs nothing": inside and bool(np.any(masks[candidates] & dear == 0)),
    }


def _size_curves(plan: IndexContents) -> dict[str, bool]:
    """Check the accuracies over size."""
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
        wanted = [linear_length(width, len(plan.classes)) for width in (bits @ widths).tolist()]
        whole = np.diff(ends).tolist() == wanted
    return {
        "models of a known kind": kind in KINDS,
        "models of its sets": fits,
        "as many numbers as its models have": whole,
    }
