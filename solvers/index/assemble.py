"""The last steps of a build: from expanded sets to candidates and their index, and all of it into a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np

from models.arrays import Floats, Int32s, Int64s
from models.index import IndexOptions, sizes_of
from solvers.cell_encoding import CellEncoding
from solvers.index.candidates import choose_candidates, preference
from solvers.index.costs import Costs
from solvers.index.crossings import Index, build_index, index_affordable
from solvers.index.lattice import Expanded
from solvers.index.plan import IndexPlan
from solvers.index.size_curves import SizeRegions

MAX_REGION_SETS = 3000
"""Expanded sets that the candidates of a region are chosen from: of more, those that come nearest to the best."""
RELATIVE_LAMBDAS = (0.01, 0.1, 1.0, 10.0)
"""The greedy weights of cost if none are given, in accuracy per cost of all features."""


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """What the numbers mean: the features, the columns of each, the classes with their shares, the unit of costs; of
    how many rows accuracies are, 0 if of none; the features that were not looked at, and their costs; how cells become
    numbers."""

    features: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    class_shares: Floats
    unit: str
    rows: int = 0
    left_out: tuple[str, ...] = ()
    left_out_costs: Costs | None = None
    encoding: CellEncoding | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """What the lattice search and the sequences found. alpha: the smallest that could be afforded; accuracies: of every
    set by mask; lambdas (q,), orders (q, l): the sequences; median_size: where they weighed cost."""

    expanded: Expanded
    alpha: float
    accuracies: dict[int, float]
    lambdas: Floats
    orders: Int32s
    median_size: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """Trained models: kind as of ``learners``, and the bytes of each by mask."""

    kind: str
    of: dict[int, bytes]


def lambdas_of(given: Sequence[float] | None, feature_costs: Floats) -> Floats:
    """List the weights of cost: 0, those given or relative to the cost of all features, and infinity.

    >>> lambdas_of([2.0, 0.5], np.array([1.0])).tolist()
    [0.0, 0.5, 2.0, inf]
    """
    whole = float(feature_costs.sum())
    if given is None:
        given = [weight / whole for weight in RELATIVE_LAMBDAS] if 0 < whole < inf else []
    return np.array([0.0, *sorted({weight for weight in given if weight > 0}), inf])


def index_sets(
    expanded: Expanded,
    costs: Costs,
    names: Sequence[str],
    *,
    alpha: float = 0.0,
    own_alpha: float = inf,
    budget: float | None = None,
) -> tuple[Int64s, Index]:
    """Choose the candidates and index them over all sizes: their places in ``expanded`` by preference, and the index.

    alpha, own_alpha: as of ``choose_candidates``.

    With a budget (Problem 3) sets that are within it at no size go, and a set is as good as cheaper if it is within it
    up to a larger size. Sizes of several dimensions have no index.
    """
    curves = costs.of_sets(expanded.masks)
    if budget is not None and costs.dimensions <= 1:
        reach = costs.affordable_sizes(curves, budget)
        able = np.flatnonzero(np.isfinite(reach))
        constant = np.zeros((1, 0), dtype=np.int64)
        factors = {"alpha": alpha, "own_alpha": own_alpha}
        chosen = choose_candidates(expanded.only(able), -reach[able][:, None], constant, names, **factors)
        empty = np.flatnonzero(expanded.masks == 0)  # it stays for when part of the budget is spent
        places = np.union1d(able[chosen], empty)
        places = places[np.argsort(preference(expanded.masks[places], expanded.accuracies[places], names))]
        return places, index_affordable(reach[places], expanded.accuracies[places])
    able = np.arange(len(curves))
    if budget is not None:
        able = np.flatnonzero(costs.at(curves, (1.0,) * costs.dimensions) <= budget)
    sets = expanded.only(able)
    factors = {"alpha": alpha, "own_alpha": own_alpha, "largest": costs.largest}
    places = able[choose_candidates(sets, curves[able], costs.powers, names, **factors)]
    if costs.dimensions > 1:
        return places, Index(np.zeros(0), np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), 0, 0)
    return places, build_index(curves[places], expanded.accuracies[places], costs.largest)


def index_regions(
    expanded: Expanded,
    costs: Costs,
    names: Sequence[str],
    pooled: Int64s,
    regions: SizeRegions,
    levels: Floats,
    *,
    alpha: float = 0.0,
    own_alpha: float = inf,
) -> tuple[Int64s, Index]:
    """Choose candidates for each region of sizes and index them: as ``index_sets``, by the accuracies there, (R, m).

    pooled: the candidates by accuracies over all sizes, which stay.
    """
    curves = costs.of_sets(expanded.masks)
    factors = {"alpha": alpha, "own_alpha": own_alpha, "largest": costs.largest}
    chosen = [pooled]
    for own, extents in zip(levels, _region_ranges(regions), strict=True):
        near = _near_the_best(curves, costs, own, extents)
        sets = Expanded(expanded.features, expanded.masks[near], own[near], own[near])
        chosen.append(near[choose_candidates(sets, curves[near], costs.powers, names, **factors)])
    places = np.unique(np.concatenate(chosen))
    places = places[np.argsort(preference(expanded.masks[places], expanded.accuracies[places], names))]
    if costs.dimensions > 1:
        return places, Index(np.zeros(0), np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), 0, 0)
    orders = [np.argsort(-own[places], kind="stable") for own in levels]  # as a look-up orders them
    indexes = [
        build_index(curves[places[order]], own[places[order]], costs.largest)
        for order, own in zip(orders, levels, strict=True)
    ]
    return places, join_indexes(indexes, orders, regions.edges)


def _region_ranges(regions: SizeRegions) -> list[tuple[float, float, float]]:
    """Give for each region an extent where it begins, one in the middle, and one where it ends."""
    middles = np.exp(regions.centers)
    starts = np.concatenate(([1.0], regions.edges))
    ends = np.append(regions.edges, middles[-1] ** 2 / starts[-1])
    return list(zip(starts.tolist(), middles.tolist(), ends.tolist(), strict=True))


def _near_the_best(curves: Floats, costs: Costs, levels: Floats, extents: Sequence[float]) -> Int64s:
    """List the sets that come nearest to the best that costs no more at sizes of a region: where there are many, the
    others are never chosen."""
    if len(curves) <= MAX_REGION_SETS:
        return np.arange(len(curves))
    near = [np.flatnonzero(np.all(curves == 0, axis=1))]
    for extent in extents:
        at = costs.at(curves, (extent ** (1 / costs.dimensions),) * costs.dimensions)
        order = np.lexsort((-levels, at))
        behind = np.maximum.accumulate(levels[order]) - levels[order]
        near.append(order[np.argsort(behind, kind="stable")[: MAX_REGION_SETS // len(extents)]])
    return np.unique(np.concatenate(near))


def join_indexes(indexes: Sequence[Index], orders: Sequence[Int64s], edges: Floats) -> Index:
    """Take each region's part of its index over all sizes, from one edge to the next.

    orders: for each region the places of its curves among those of the whole.
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
    return Index(np.array(sizes), offsets, np.concatenate(skylines).astype(np.int32), crossings, entries)


def kept_sets(searched: Searched, candidates: Int64s) -> Int64s:
    """List the sets that need a model: candidates, and all parts of sequences, but not the empty set."""
    prefixes = np.cumsum(1 << searched.orders.astype(np.int64), axis=1).ravel()
    kept = np.unique(np.concatenate((candidates, prefixes)))
    return kept[kept > 0]


def known_masks(searched: Searched) -> Int64s:
    """List every set whose accuracy the plan keeps, rising; the empty set first."""
    return np.concatenate((np.zeros(1, dtype=np.int64), kept_sets(searched, searched.expanded.masks)))


def assemble(
    names: Names,
    options: IndexOptions,
    costs: Costs,
    searched: Searched,
    indexed: tuple[Int64s, Index],
    models: Models,
    reaching: Mapping[str, Any] = MappingProxyType({}),
) -> IndexPlan:
    """Put everything into arrays.

    indexed: the candidates' places among the expanded sets, and the index over them. reaching: the plan's fields of
    what sets reach.
    """
    places, index = indexed
    masks = known_masks(searched)
    held = sorted(models.of)
    flat = b"".join(models.of[mask] for mask in held)
    archived = models.kind == "skops"
    return IndexPlan(
        features=names.features,
        columns=names.columns,
        classes=names.classes,
        unit=names.unit,
        alpha=searched.alpha,
        powers=costs.powers,
        coefficients=costs.coefficients,
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
            [0, *(len(models.of[mask]) // (1 if archived else 8) for mask in held)], dtype=np.int64
        ),
        model_numbers=np.frombuffer(b"" if archived else flat, dtype=np.float64).copy(),
        model_bytes=np.frombuffer(flat if archived else b"", dtype=np.uint8).copy(),
        class_shares=names.class_shares,
        largest_size=options.max_size,
        fixed_size=sizes_of(options.fixed_size),
        fixed_budget=options.fixed_budget,
        rows=names.rows,
        **reaching,
        left_out=names.left_out,
        **_left_out_costs(names.left_out_costs),
        **({} if names.encoding is None else names.encoding.kept()),
    )


def _left_out_costs(costs: Costs | None) -> dict[str, Any]:
    if costs is None:
        return {}
    return {"left_out_powers": costs.powers, "left_out_coefficients": costs.coefficients}
