"""Last steps of a build: choose candidates, index them over sizes, and assemble the plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s
from models.index import IndexOptions, size_to_tuple
from solvers.cell_encoding import CellEncoding
from solvers.index.candidates import choose_candidates, rank_by_preference
from solvers.index.costs import SetCosts
from solvers.index.crossings import SkylineIndex, build_budget_index, build_index
from solvers.index.lattice import ExpandedSets
from solvers.index.plan import IndexPlan
from solvers.index.size_curves import SizeRegions

MAX_REGION_SETS = 3000
"""Expanded sets that a region's candidates are chosen from: those nearest to the best."""
RELATIVE_LAMBDAS = (0.01, 0.1, 1.0, 10.0)
"""Default greedy weights of cost, in accuracy per cost of all features."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanSchema:
    """Names of the features, columns, and classes of a plan, with the unit and the number of rows.

    Attributes:
        features: F names.
        columns: the columns of each feature.
        classes: C names.
        class_shares: (C,), share of each class.
        unit: the unit of costs.
        rows: number of rows of the accuracies; 0: none.
        left_out: features excluded by preselection.
        left_out_costs: costs of the excluded features.
        setup: names of the set-up groups.
        setup_members: (H, F + G), features of each group, then excluded ones; (0, 0) without groups.
        encoding: numerical encoding of the cells.
        loss_matrix: (C, A), losses; (0, 0) if all errors are equal.
    """

    features: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    class_shares: Floats
    unit: str
    rows: int = 0
    left_out: tuple[str, ...] = ()
    left_out_costs: SetCosts | None = None
    encoding: CellEncoding | None = None
    loss_matrix: Floats = field(default_factory=lambda: np.empty((0, 0)))
    setup: tuple[str, ...] = ()
    setup_members: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """Result of the lattice search and the greedy sequences.

    Attributes:
        expanded: the expanded sets.
        alpha: the smallest affordable alpha.
        accuracies: accuracy of every set, by mask.
        lambdas: (q,), weight of cost of each greedy sequence.
        orders: (q, l), features of each greedy sequence, in order.
        median_size: the size at which greedy sequences compare costs.
    """

    expanded: ExpandedSets
    alpha: float
    accuracies: dict[int, float]
    lambdas: Floats
    orders: Int32s
    median_size: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModels:
    """Trained models. kind: format of the models (``learners``); by_mask: bytes of each set's model."""

    kind: str
    by_mask: dict[int, bytes]


def choose_cost_weights(given: Sequence[float] | None, feature_costs: Floats) -> Floats:
    """Return the weights of cost: 0, the given or default weights, and infinity.

    >>> choose_cost_weights([2.0, 0.5], np.array([1.0])).tolist()
    [0.0, 0.5, 2.0, inf]
    """
    whole = float(feature_costs.sum())
    if given is None:
        given = [weight / whole for weight in RELATIVE_LAMBDAS] if 0 < whole < inf else []
    return np.array([0.0, *sorted({weight for weight in given if weight > 0}), inf])


def build_set_index(
    expanded: ExpandedSets,
    costs: SetCosts,
    names: Sequence[str],
    *,
    alpha: float = 0.0,
    requested_alpha: float = inf,
    budget: float | None = None,
) -> tuple[Int64s, SkylineIndex]:
    """Choose the candidates and index them over all sizes.

    With a fixed budget (Problem 3), sets that never fit the budget are dropped. Of two sets, the one that fits up to a
    larger size counts as cheaper. Sizes of several dimensions have no index.

    Args:
        alpha, requested_alpha: as in ``choose_candidates``.
    Returns:
        The indices of the candidates in ``expanded``, by preference, and the index over sizes.
    """
    curves = costs.sum_features(expanded.masks)
    if budget is not None and costs.dimensions <= 1:
        reach = costs.find_affordable_sizes(curves, budget)
        able = np.flatnonzero(np.isfinite(reach))
        constant = np.zeros((1, 0), dtype=np.int64)
        factors = {"alpha": alpha, "requested_alpha": requested_alpha}
        chosen = choose_candidates(expanded.select(able), -reach[able][:, None], constant, names, **factors)
        empty = np.flatnonzero(expanded.masks == 0)  # needed when part of the budget is spent
        places = np.union1d(able[chosen], empty)
        places = places[np.argsort(rank_by_preference(expanded.masks[places], expanded.accuracies[places], names))]
        return places, build_budget_index(reach[places], expanded.accuracies[places])
    able = np.arange(len(curves))
    if budget is not None:
        able = np.flatnonzero(costs.evaluate(curves, (1.0,) * costs.dimensions) <= budget)
    sets = expanded.select(able)
    factors = {"alpha": alpha, "requested_alpha": requested_alpha, "largest": costs.largest}
    places = able[choose_candidates(sets, curves[able], costs.powers, names, **factors)]
    if costs.dimensions > 1:
        return places, SkylineIndex(np.zeros(0), np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), 0, 0)
    return places, build_index(curves[places], expanded.accuracies[places], costs.largest)


def build_region_index(
    expanded: ExpandedSets,
    costs: SetCosts,
    names: Sequence[str],
    pooled: Int64s,
    regions: SizeRegions,
    levels: Floats,
    *,
    alpha: float = 0.0,
    requested_alpha: float = inf,
) -> tuple[Int64s, SkylineIndex]:
    """Choose candidates for each region of sizes, by the region's accuracies, and index them.

    Args:
        pooled: indices in ``expanded`` of the candidates for all sizes, which are kept in every region.
        levels: (R, m), accuracies in each region.
        alpha, requested_alpha: as in ``choose_candidates``.
    """
    curves = costs.sum_features(expanded.masks)
    factors = {"alpha": alpha, "requested_alpha": requested_alpha, "largest": costs.largest}
    chosen = [pooled]
    for own, extents in zip(levels, _region_ranges(regions), strict=True):
        near = _near_the_best(curves, costs, own, extents)
        sets = ExpandedSets(expanded.features, expanded.masks[near], own[near], own[near])
        chosen.append(near[choose_candidates(sets, curves[near], costs.powers, names, **factors)])
    places = np.unique(np.concatenate(chosen))
    places = places[np.argsort(rank_by_preference(expanded.masks[places], expanded.accuracies[places], names))]
    if costs.dimensions > 1:
        return places, SkylineIndex(np.zeros(0), np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), 0, 0)
    orders = [np.argsort(-own[places], kind="stable") for own in levels]  # same order as in the look-up
    indexes = [
        build_index(curves[places[order]], own[places[order]], costs.largest)
        for order, own in zip(orders, levels, strict=True)
    ]
    return places, join_region_indexes(indexes, orders, regions.edges)


def _region_ranges(regions: SizeRegions) -> list[tuple[float, float, float]]:
    """Return an extent at the start, in the middle, and at the end of each region."""
    middles = np.exp(regions.centers)
    starts = np.concatenate(([1.0], regions.edges))
    ends = np.append(regions.edges, middles[-1] ** 2 / starts[-1])
    return list(zip(starts.tolist(), middles.tolist(), ends.tolist(), strict=True))


def _near_the_best(curves: Floats, costs: SetCosts, levels: Floats, extents: Sequence[float]) -> Int64s:
    """Return the sets nearest to the best one that costs no more, at sizes of a region."""
    if len(curves) <= MAX_REGION_SETS:
        return np.arange(len(curves))
    near = [np.flatnonzero(np.all(curves == 0, axis=1))]
    for extent in extents:
        at = costs.evaluate(curves, (extent ** (1 / costs.dimensions),) * costs.dimensions)
        order = np.lexsort((-levels, at))
        behind = np.maximum.accumulate(levels[order]) - levels[order]
        near.append(order[np.argsort(behind, kind="stable")[: MAX_REGION_SETS // len(extents)]])
    return np.unique(np.concatenate(near))


def join_region_indexes(indexes: Sequence[SkylineIndex], orders: Sequence[Int64s], edges: Floats) -> SkylineIndex:
    """Join the indexes of the regions; each is valid from its edge to the next edge.

    Args:
        orders: for each region, indices of its curves in the list of all curves.
    """
    bounds = [1.0, *edges.tolist(), inf]
    sizes, skylines = [], []
    for index, order, low, high in zip(indexes, orders, bounds, bounds[1:], strict=False):
        first = int(np.searchsorted(index.sizes, low, side="right")) - 1
        last = int(np.searchsorted(index.sizes, high, side="left"))
        sizes += [low, *index.sizes[first + 1 : last].tolist()]
        skylines += [order[index.members[index.offsets[i] : index.offsets[i + 1]]] for i in range(first, last)]
    offsets = np.cumsum([0, *map(len, skylines)], dtype=np.int64)
    crossings, entries = (sum(getattr(index, name) for index in indexes) for name in ("crossings", "entries_if_all"))
    return SkylineIndex(np.array(sizes), offsets, np.concatenate(skylines).astype(np.int32), crossings, entries)


def list_modeled_sets(searched: SearchResult, candidates: Int64s) -> Int64s:
    """Return the masks of the sets that need a model.

    These are candidates and prefixes of sequences, without the empty set.
    """
    prefixes = np.cumsum(1 << searched.orders.astype(np.int64), axis=1).ravel()
    kept = np.unique(np.concatenate((candidates, prefixes)))
    return kept[kept > 0]


def list_known_masks(searched: SearchResult) -> Int64s:
    """Return the masks of all sets whose accuracy the plan stores, rising."""
    return np.concatenate((np.zeros(1, dtype=np.int64), list_modeled_sets(searched, searched.expanded.masks)))


def assemble_plan(
    names: PlanSchema,
    options: IndexOptions,
    costs: SetCosts,
    searched: SearchResult,
    indexed: tuple[Int64s, SkylineIndex],
    models: TrainedModels,
    reaching: Mapping[str, Any] = MappingProxyType({}),
) -> IndexPlan:
    """Return the plan.

    Args:
        indexed: the indices of the candidates in ``searched.expanded``, and the index over sizes.
        reaching: the plan's fields of bias-corrected accuracies.
    """
    places, index = indexed
    masks = list_known_masks(searched)
    held = sorted(models.by_mask)
    flat = b"".join(models.by_mask[mask] for mask in held)
    archived = models.kind == "skops"
    return IndexPlan(
        features=names.features,
        columns=names.columns,
        classes=names.classes,
        unit=names.unit,
        alpha=searched.alpha,
        powers=costs.powers,
        coefficients=costs.coefficients[: costs.features],
        masks=masks,
        accuracies=np.array([searched.accuracies[mask] for mask in masks.tolist()]),
        candidates=np.searchsorted(masks, searched.expanded.masks[places]).astype(np.int32),
        sizes=index.sizes,
        offsets=index.offsets,
        members=index.members,
        lambdas=searched.lambdas,
        orders=searched.orders,
        median_size=searched.median_size if costs.dimensions else (),
        model_kind=models.kind,
        model_sets=np.searchsorted(masks, np.array(held, dtype=np.int64)).astype(np.int32),
        model_offsets=np.cumsum(
            [0, *(len(models.by_mask[mask]) // (1 if archived else 8) for mask in held)], dtype=np.int64
        ),
        model_numbers=np.frombuffer(b"" if archived else flat, dtype=np.float64).copy(),
        model_bytes=np.frombuffer(flat if archived else b"", dtype=np.uint8).copy(),
        class_shares=names.class_shares,
        loss_matrix=names.loss_matrix,
        largest_size=options.max_size,
        fixed_size=size_to_tuple(options.fixed_size),
        fixed_budget=options.fixed_budget,
        rows=names.rows,
        **reaching,
        left_out=names.left_out,
        **_left_out_costs(names.left_out_costs),
        **_setup_fields(names, costs),
        **({} if names.encoding is None else names.encoding.stored_fields()),
    )


def _setup_fields(names: PlanSchema, costs: SetCosts) -> dict[str, Any]:
    if not names.setup:
        return {}
    coefficients = costs.coefficients[costs.features :]
    return {"setup_names": names.setup, "setup_members": names.setup_members, "setup_coefficients": coefficients}


def _left_out_costs(costs: SetCosts | None) -> dict[str, Any]:
    if costs is None:
        return {}
    return {"left_out_powers": costs.powers, "left_out_coefficients": costs.coefficients}
