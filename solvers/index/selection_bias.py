"""What choosing the most accurate of many feature sets makes its accuracy too high by.

The set that looks best on some rows looks better than it is there. By how much is told by drawing the rows again, with
replacement, and choosing again: what the chosen set is above what it reaches on all rows is the optimism of the choice
(Efron and Tibshirani, *An Introduction to the Bootstrap*, Section 17.6; of many models Tsamardinos, Greasidou and
Borboudakis, *Bootstrapping the out-of-sample predictions*, 2018). Choosing again without parts of the rows, and judging
on them, is as unbiased and scatters by a third more.

Who asks for an accuracy makes a further choice, from two fifths of the rows; then the others report.
"""

from collections.abc import Sequence

import numpy as np

from models.arrays import Bools, Floats, Int64s, Singles
from solvers.item_splits import resampled_counts, split_rows
from solvers.savings import RESAMPLINGS

CHOOSING = 0.4
"""The share of the rows that choose who reaches an accuracy."""
MOST_SETS = 2000
"""Sets, those nearest to being chosen, that are chosen from again."""
_AT_ONCE = 20
"""Resamplings that are reckoned together."""
DRAWN = RESAMPLINGS // 5


def reached(right: Sequence[bytes], items: Int64s, costs: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    """Say what each set reaches on the rows that choose and on those that report, and how far other rows would have
    chosen a better or a worse one, by a standard deviation: (m, 3); and the share of the rows that choose.

    right: of each of m sets the bits of the rows that models that had not seen them are right about;
    items: (n,) equal for rows of one item; costs: (m,). A set
    stands for the choice among all that cost no more, or less than the cheapest more accurate one: it is the best of
    these where it is chosen. O(m n) and, for what is drawn, O(c n) for the c sets that can be chosen.
    """
    choosing = draw_choosing_rows(items, rng)
    parts, rows = [choosing, ~choosing], len(items)
    halves = np.array([[bits[part].mean() for part in parts] for bits in (unpacked(one, rows) for one in right)])
    off, spread = optimism_of_choice(right, items, costs, rng).T
    return np.column_stack((np.clip(halves - off[:, None], 0.0, 1.0), spread)), float(choosing.mean())


def draw_choosing_rows(items: Int64s, rng: np.random.Generator) -> Bools:
    """Draw the rows that choose who reaches an accuracy, whole items: (n,)."""
    choosing = np.zeros(len(items), dtype=bool)
    choosing[split_rows(items, [max(int(CHOOSING * len(items)), 1)], rng)[0]] = True
    return choosing


def optimism_of_choice(
    right: Sequence[bytes],
    items: Int64s,
    costs: Floats,
    rng: np.random.Generator,
    *,
    weights: Floats | None = None,
    most_sets: int = MOST_SETS,
) -> Floats:
    """Estimate by what the choice of each set makes its accuracy too high, and the spread of the choice: (m, 2).

    items: (n,) equal for rows of one item; weights: (n,), of the rows in an accuracy, adding up to 1; None: all the
    same.
    """
    rows = len(items)
    accuracies = np.array([_weighted_mean(unpacked(one, rows), weights) for one in right])
    order = np.argsort(costs, kind="stable")
    places = _contenders(accuracies[order], most_sets)
    table = np.stack([unpacked(right[place], rows) for place in order[places].tolist()]).astype(np.float32)
    of_all = np.searchsorted(places, np.arange(len(order)), side="right") - 1
    return np.asarray(too_high(table, items, rng, weights)[of_all[_last_within(accuracies, costs, costs[order])]])


def _weighted_mean(values: Bools, weights: Floats | None) -> float:
    return float(values.mean() if weights is None else values @ weights)


def unpacked(bits: bytes, rows: int) -> Bools:
    """Give each row's bit, (n,)."""
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=rows).astype(bool)


def too_high(right: Singles, items: Int64s, rng: np.random.Generator, weights: Floats | None = None) -> Floats:
    """Say by how much the accuracy of the best of the first sets is too high, and the standard deviation of what the
    best of other rows would reach on all: (c, 2), for the first one, two, and so on.

    right: (c, n), 1 where a set is right; items: (n,) that are drawn again; weights: (n,), of the rows, adding up to 1.
    Of equal accuracies the first counts.
    """
    accuracies = right.mean(axis=1, dtype=np.float64) if weights is None else right @ weights
    sums = np.zeros((3, len(right)))
    for _ in range(DRAWN // _AT_ONCE):
        drawn = resampled_counts(items, _AT_ONCE, rng).astype(np.float64)
        if weights is not None:
            drawn *= len(items) * weights
        counts = right @ drawn.T.astype(right.dtype)  # exact where they are integers
        best = np.maximum.accumulate(counts, axis=0)
        is_new = np.vstack((np.ones((1, _AT_ONCE), dtype=bool), best[1:] > best[:-1]))
        chosen = np.maximum.accumulate(np.where(is_new, np.arange(len(right))[:, None], 0), axis=0)
        levels = accuracies[chosen]
        sums += [each.sum(axis=1) for each in (best / drawn.sum(axis=1), levels, levels**2)]
    looked, reaches, squares = sums / DRAWN
    return np.column_stack((looked - reaches, np.sqrt(np.maximum(squares - reaches**2, 0.0))))


def _contenders(accuracies: Floats, most: int) -> Int64s:
    """List those, by rising costs, that come nearest to the best that costs no more: the others are never chosen."""
    behind = np.maximum.accumulate(accuracies) - accuracies
    nearest = np.argsort(behind, kind="stable")[:most]
    return np.union1d([0], nearest).astype(np.int64)


def _last_within(accuracies: Floats, costs: Floats, rising: Floats) -> Int64s:
    """Find the dearest set that each stands beside when it is chosen: its place by rising costs, (m,)."""
    by_accuracy = np.argsort(-accuracies, kind="stable")
    cheapest = np.append(np.inf, np.minimum.accumulate(costs[by_accuracy]))
    more_accurate = np.searchsorted(-accuracies[by_accuracy], -accuracies, side="left")
    below = np.searchsorted(rising, cheapest[more_accurate], side="left") - 1
    return np.maximum(below, np.searchsorted(rising, costs, side="right") - 1)
