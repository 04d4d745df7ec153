"""Which cascades are worth keeping: both families, the one that the rows can carry, and the hull for every deadline."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats
from solvers.budget_mixture import lower_hull
from solvers.cascade.frontier.acceptance_levels import (
    Report,
    choose_prices,
    find_best_per_price,
    find_candidates,
    ignore_report,
)
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.frontier.separate_thresholds import RankedRows, list_neighbors
from solvers.item_splits import ItemRows, effective_rows

FOLDS, COMPARED_PRICES = 3, 8
"""Parts of the rows and prices by which the family is chosen."""
PRICE_STRIDE = 2
"""Every so many prices cascades are improved from their thresholds on."""
MAX_DEADLINES = 12
"""Worst-case times, of all that there are, under which a hull is kept."""
PENALTY_ROWS = 2.0
"""CalibratedRows that a further classifier has to set right before it counts."""
MIN_SEPARATE_ROWS = 200
"""With fewer, one level is all that is learned."""


@dataclass(frozen=True, slots=True, eq=False)
class SelectedCascades:
    """Cascades that are worth keeping, by rising cost; and whether their thresholds are their own."""

    cascades: tuple[ThresholdCascade, ...]
    separate: bool


def search_frontier(rows: CalibratedRows, report: Report = ignore_report) -> SelectedCascades:
    """Find the cascades of least error for every cost, within every worst-case time; ``report`` hears how far that is.

    O(L (N n + n² 2^n P)) of ``acceptance_levels``, and O(P n² N) of ``separate_thresholds`` for each sweep.
    """
    prices = choose_prices(rows)
    every = find_candidates(rows, prices, report)
    singles = {ThresholdCascade((k,), ()) for k in range(rows.costs.shape[1])}
    kept = select_cascades(rows, sorted(every | singles, key=_sort_key))
    separate = len(rows.wrong) >= MIN_SEPARATE_ROWS and _supports_separate(rows, prices, report)
    if separate:
        improved = _improve(RankedRows.from_rows(rows), kept, prices, report)
        kept = select_cascades(rows, sorted({*kept, *improved}, key=_sort_key))
    return SelectedCascades(tuple(kept), separate)


def _sort_key(cascade: ThresholdCascade) -> tuple[int, tuple[int, ...], tuple[float, ...]]:
    return len(cascade.members), cascade.members, cascade.thresholds


def select_cascades(rows: CalibratedRows, cascades: list[ThresholdCascade]) -> list[ThresholdCascade]:
    """Take those that are on the hull of cost and error among all within some worst-case time; by rising cost. Errors
    have what ``charge`` adds. Each classifier alone stays, and its time is among the limits, so that something answers
    where one just fits and where others are left out."""
    measured = np.array([rows.means(one) for one in cascades])
    independent = effective_rows(rows.items)
    measured[:, 1] += [complexity_penalty(one, independent) for one in cascades]
    longest = np.array([rows.maximum_duration(one.members) for one in cascades])
    alone = np.array([len(one.members) == 1 for one in cascades])
    chosen = set(np.flatnonzero(alone).tolist())
    for limit in np.union1d(_sample_limits(longest), longest[alone]):
        within = np.flatnonzero(longest <= limit)
        hull = lower_hull(measured[within, 0], measured[within, 1])
        chosen |= {int(within[i]) for i in hull}
    return [cascades[i] for i in sorted(chosen, key=lambda i: (measured[i, 0], -measured[i, 1], longest[i]))]


def complexity_penalty(cascade: ThresholdCascade, rows: int) -> float:
    """Reckon what a cascade owes its fit to the rows: a further classifier, with its threshold, is chosen among so many
    that it sets some of them right by chance."""
    return PENALTY_ROWS * (len(cascade.members) - 1) / rows


def _sample_limits(longest: Floats) -> Floats:
    """Take the worst-case times under which hulls are kept: the least and the largest, and some between."""
    distinct = np.unique(longest)
    places = np.unique(np.linspace(0, len(distinct) - 1, MAX_DEADLINES).round().astype(np.int64))
    return np.asarray(distinct[places])


def _improve(ranked: RankedRows, kept: list[ThresholdCascade], prices: Floats, report: Report) -> set[ThresholdCascade]:
    """Improve what one level has found: at each price the best, with its neighbours; and all that are kept for some
    deadline with their own thresholds, as far as their classifiers go."""
    measured = np.array([ranked.rows.means(one) for one in kept])
    starts = [(kept[int((measured @ (price, 1.0)).argmin())], price) for price in prices[::PRICE_STRIDE].tolist()]
    best = set[ThresholdCascade]()
    for at, (one, price) in enumerate(starts):
        report(f"thresholds of their own: {at} of {len(starts)} prices are done")
        best.add(_descend(ranked, one, price))
    return best | {ranked.improve(one, price) for one, price in zip(kept, _hull_slopes(measured), strict=True)}


def _hull_slopes(measured: Floats) -> list[float]:
    """Tell at about what price each cascade is the best, by the line to the next on the hull of all: from mean costs
    and errors, (n, 2)."""
    hull = lower_hull(measured[:, 0], measured[:, 1])
    ends = measured[hull]
    rise = np.append(-np.diff(ends[:, 1]) / np.maximum(np.diff(ends[:, 0]), 1e-300), 0.0)
    place = np.minimum(np.searchsorted(ends[:, 0], measured[:, 0]), len(hull) - 1)
    slopes: list[float] = rise[place].tolist()
    return slopes


def _descend(ranked: RankedRows, start: ThresholdCascade, price: float) -> ThresholdCascade:
    """Improve a cascade at a price, then by its neighbours, as long as that helps."""
    best = ranked.improve(start, price)
    value = ranked.objective(best, price)
    while True:
        near = [ranked.improve(one, price) for one in list_neighbors(best, ranked.rows)]
        values = [ranked.objective(one, price) for one in near]
        if not near or min(values) >= value - 1e-9:
            return best
        best, value = near[int(np.argmin(values))], min(values)


def _supports_separate(rows: CalibratedRows, prices: Floats, report: Report) -> bool:
    """Tell whether thresholds of their own do better on rows that they were not learned from (three folds)."""
    part = ItemRows.from_codes(rows.items).place % FOLDS

    def asking(_: str) -> None:
        report("asking whether the rows carry thresholds of their own")

    tried = prices[np.linspace(0, len(prices) - 1, COMPARED_PRICES).round().astype(np.int64)]
    gained = 0.0
    for fold in range(FOLDS):
        learned, fresh = rows.take(np.flatnonzero(part != fold)), rows.take(np.flatnonzero(part == fold))
        ranked = RankedRows.from_rows(learned)
        for one, price in zip(find_best_per_price(learned, tried, asking), tried.tolist(), strict=True):
            own = _descend(ranked, one, price)
            before, after = (np.dot(fresh.means(each), (price, 1.0)) for each in (one, own))
            gained += float(before - after) / max(float(before), 1e-12)
    return gained > 0.0
