"""Search for the frontier of cascades.

Cross-validation chooses between one acceptance level and separate thresholds. Then, for each deadline, the points on
the cost-error hull of the cascades within it are kept.
"""

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
from solvers.item_splits import GroupedRows, effective_rows

FOLDS, COMPARED_PRICES = 3, 8
"""Number of folds, and of prices, in the cross-validation of separate thresholds."""
PRICE_STRIDE = 2
"""Thresholds are improved at every so many prices."""
MAX_DEADLINES = 12
"""Maximum number of worst-case times for which a hull is kept."""
PENALTY_ROWS = 2.0
"""Number of rows that each further classifier has to correct."""
MIN_SEPARATE_ROWS = 200
"""Minimum number of rows for separate thresholds."""


@dataclass(frozen=True, slots=True, eq=False)
class SelectedCascades:
    """Selected cascades, by rising cost, and whether each classifier has its own threshold."""

    cascades: tuple[ThresholdCascade, ...]
    separate: bool


def search_frontier(
    rows: CalibratedRows, report: Report = ignore_report, *, known: SelectedCascades | None = None
) -> SelectedCascades:
    """Find the cascades of least error for every cost, within every worst-case time.

    Args:
        known: further candidates. Their choice between one level and separate thresholds is reused. None:
            cross-validation chooses.
    Complexity: O(L (N n + n^2 2^n P)) of ``acceptance_levels``, and O(P n^2 N) of ``separate_thresholds`` per sweep.
    """
    prices = choose_prices(rows)
    every = find_candidates(rows, prices, report)
    singles = {ThresholdCascade((k,), ()) for k in range(rows.costs.shape[1])}
    every |= set() if known is None else set(known.cascades)
    kept = select_cascades(rows, sorted(every | singles, key=_sort_key))
    if known is None:
        separate = len(rows.wrong) >= MIN_SEPARATE_ROWS and _supports_separate(rows, prices, report)
    else:
        separate = known.separate
    if separate:
        improved = _improve(RankedRows.from_rows(rows), kept, prices, report)
        kept = select_cascades(rows, sorted({*kept, *improved}, key=_sort_key))
    return SelectedCascades(tuple(kept), separate)


def _sort_key(cascade: ThresholdCascade) -> tuple[int, tuple[int, ...], tuple[float, ...]]:
    return len(cascade.members), cascade.members, cascade.thresholds


def select_cascades(rows: CalibratedRows, cascades: list[ThresholdCascade]) -> list[ThresholdCascade]:
    """Return cascades on the hull of cost and penalized error within worst-case times, by rising cost.

    Single classifiers are always kept, and their times are among the worst-case times. So tight deadlines and
    exclusions stay feasible.
    """
    measured = np.array([rows.mean_outcome(one) for one in cascades])
    independent = effective_rows(rows.items)
    measured[:, 1] += [compute_complexity_penalty(one, independent) for one in cascades]
    longest = np.array([rows.maximum_duration(one.members) for one in cascades])
    alone = np.array([len(one.members) == 1 for one in cascades])
    chosen = set(np.flatnonzero(alone).tolist())
    for limit in np.union1d(_sample_limits(longest), longest[alone]):
        within = np.flatnonzero(longest <= limit)
        hull = lower_hull(measured[within, 0], measured[within, 1])
        chosen |= {int(within[i]) for i in hull}
    return [cascades[i] for i in sorted(chosen, key=lambda i: (measured[i, 0], -measured[i, 1], longest[i]))]


def compute_complexity_penalty(cascade: ThresholdCascade, rows: int) -> float:
    """Return the penalty on training error for the number of classifiers.

    Each further classifier corrects some training rows by chance.
    """
    return PENALTY_ROWS * (len(cascade.members) - 1) / rows


def _sample_limits(longest: Floats) -> Floats:
    """Return the worst-case times for which hulls are computed: the least, the largest, and some between."""
    distinct = np.unique(longest)
    places = np.unique(np.linspace(0, len(distinct) - 1, MAX_DEADLINES).round().astype(np.int64))
    return np.asarray(distinct[places])


def _improve(ranked: RankedRows, kept: list[ThresholdCascade], prices: Floats, report: Report) -> set[ThresholdCascade]:
    """Improve cascades that share one acceptance level.

    The best cascade at each price is improved by neighbors. The others are improved by thresholds alone.
    """
    measured = np.array([ranked.rows.mean_outcome(one) for one in kept])
    starts = [(kept[int((measured @ (price, 1.0)).argmin())], price) for price in prices[::PRICE_STRIDE].tolist()]
    best = set[ThresholdCascade]()
    for at, (one, price) in enumerate(starts):
        report(f"separate thresholds: {at} of {len(starts)} prices done")
        best.add(_descend(ranked, one, price))
    return best | {ranked.improve(one, price) for one, price in zip(kept, _hull_slopes(measured), strict=True)}


def _hull_slopes(measured: Floats) -> list[float]:
    """Return the approximate price at which each cascade is best.

    The prices are slopes of the hull of ``measured``, (n, 2).
    """
    hull = lower_hull(measured[:, 0], measured[:, 1])
    ends = measured[hull]
    rise = np.append(-np.diff(ends[:, 1]) / np.maximum(np.diff(ends[:, 0]), 1e-300), 0.0)
    place = np.minimum(np.searchsorted(ends[:, 0], measured[:, 0]), len(hull) - 1)
    slopes: list[float] = rise[place].tolist()
    return slopes


def _descend(ranked: RankedRows, start: ThresholdCascade, price: float) -> ThresholdCascade:
    best = ranked.improve(start, price)
    value = ranked.evaluate_objective(best, price)
    while True:
        near = [ranked.improve(one, price) for one in list_neighbors(best, ranked.rows)]
        values = [ranked.evaluate_objective(one, price) for one in near]
        if not near or min(values) >= value - 1e-9:
            return best
        best, value = near[int(np.argmin(values))], min(values)


def _supports_separate(rows: CalibratedRows, prices: Floats, report: Report) -> bool:
    part = GroupedRows.from_codes(rows.items).place % FOLDS

    def report_comparison(_: str) -> None:
        report("comparing separate thresholds with one level")

    tried = prices[np.linspace(0, len(prices) - 1, COMPARED_PRICES).round().astype(np.int64)]
    gained = 0.0
    for fold in range(FOLDS):
        learned, fresh = rows.take(np.flatnonzero(part != fold)), rows.take(np.flatnonzero(part == fold))
        ranked = RankedRows.from_rows(learned)
        for one, price in zip(find_best_per_price(learned, tried, report_comparison), tried.tolist(), strict=True):
            own = _descend(ranked, one, price)
            before, after = (np.dot(fresh.mean_outcome(each), (price, 1.0)) for each in (one, own))
            gained += float(before - after) / max(float(before), 1e-12)
    return gained > 0.0
