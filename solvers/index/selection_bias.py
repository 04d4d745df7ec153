"""Winner's curse: bootstrap correction of the accuracy of the best of many feature sets.

Choosing and evaluating on the same rows is optimistically biased. The bias is estimated by resampling the rows with
replacement and choosing again. The optimism is the chosen set's accuracy on the resample minus its accuracy on all
rows. Cross-validation of the choice would have the same bias, but a third more variance.

A query with a minimum accuracy makes a further choice. This choice uses the validation rows, two fifths of all rows.
The reported accuracy is estimated on the other rows, the holdout rows.

Source: Efron, Tibshirani, *An Introduction to the Bootstrap*, Section 17.6; for many models Tsamardinos, Greasidou,
Borboudakis, *Bootstrapping the out-of-sample predictions*, 2018.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Int64s, Singles
from solvers.item_splits import bootstrap_counts, split_rows
from solvers.savings import RESAMPLINGS

Outcomes = NDArray[Any]
"""(n,): whether each row is classified correctly, or, with losses, the quality of its answer in [0, 1]."""
VALIDATION_SHARE = 0.4
"""Share of the rows that choose the sets which reach a minimum accuracy."""
MAX_SETS = 2000
"""Sets that take part in the resampled choice: those nearest to being chosen."""
_AT_ONCE = 20
"""Resamples per batch."""
BOOTSTRAP_RESAMPLINGS = RESAMPLINGS // 5


def measure_reached_accuracies(
    right: Sequence[bytes], items: Int64s, costs: Floats, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Return bias-corrected accuracies of m sets, (m, 3), and the share of validation rows.

    Each set is evaluated as the best of its competitors. These are the sets that cost no more than it, and the sets
    that cost less than the cheapest more accurate set.

    Args:
        right: for each set the outcomes of cross-validated models (``pack_outcomes``).
        items: (n,), equal for rows of one item.
        costs: (m,).
    Returns:
        By column: accuracy on validation rows, accuracy on holdout rows, and standard deviation of the choice.
    Complexity: O(m n), and O(c n) per resample for c sets that can be chosen.
    """
    choosing = draw_validation_rows(items, rng)
    parts, rows = [choosing, ~choosing], len(items)
    halves = np.array([[bits[part].mean() for part in parts] for bits in (unpack_outcomes(one, rows) for one in right)])
    off, spread = estimate_selection_optimism(right, items, costs, rng).T
    return np.column_stack((np.clip(halves - off[:, None], 0.0, 1.0), spread)), float(choosing.mean())


def draw_validation_rows(items: Int64s, rng: np.random.Generator) -> Bools:
    """Draw the validation rows as whole items: (n,)."""
    choosing = np.zeros(len(items), dtype=bool)
    choosing[split_rows(items, [max(int(VALIDATION_SHARE * len(items)), 1)], rng)[0]] = True
    return choosing


def estimate_selection_optimism(
    right: Sequence[bytes],
    items: Int64s,
    costs: Floats,
    rng: np.random.Generator,
    *,
    weights: Floats | None = None,
    most_sets: int = MAX_SETS,
) -> Floats:
    """Return the winner's-curse bias and standard deviation of each choice: (m, 2).

    The bias is the expected excess of the chosen set's accuracy over its true accuracy, estimated by the bootstrap.
    Set j is evaluated as the best of its competitors (``measure_reached_accuracies``).

    Args:
        right: for each of m sets, its outcomes (``pack_outcomes``).
        items: (n,), equal for rows of one item; items are resampled as a whole.
        costs: (m,), cost of each set.
        weights: (n,), weights of the rows in an accuracy, with sum 1; None: equal weights.
        most_sets: maximum number of sets among which the resampled choice is made.
    """
    rows = len(items)
    accuracies = np.array([_weighted_mean(unpack_outcomes(one, rows), weights) for one in right])
    order = np.argsort(costs, kind="stable")
    places = _list_contenders(accuracies[order], most_sets)
    table = np.stack([unpack_outcomes(right[place], rows) for place in order[places].tolist()]).astype(np.float32)
    of_all = np.searchsorted(places, np.arange(len(order)), side="right") - 1
    return np.asarray(
        estimate_prefix_optimism(table, items, rng, weights)[of_all[_find_last_within(accuracies, costs, costs[order])]]
    )


def _weighted_mean(values: Outcomes, weights: Floats | None) -> float:
    return float(values.mean() if weights is None else values @ weights)


def pack_outcomes(right: Outcomes) -> bytes:
    """Return outcomes, (n,), as bytes.

    Uses one bit per row if every outcome is 0 or 1, else qualities in single precision.
    """
    return (np.packbits(right) if right.dtype == np.bool_ else right.astype("<f4")).tobytes()


def unpack_outcomes(data: bytes, rows: int) -> Outcomes:
    """Return the outcomes of ``pack_outcomes``, (n,).

    >>> unpack_outcomes(pack_outcomes(np.array([True, False])), 2), unpack_outcomes(pack_outcomes(np.array([0.5])), 1)
    (array([ True, False]), array([0.5]))
    """
    if len(data) == 4 * rows:
        return np.frombuffer(data, dtype="<f4").astype(np.float64)
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=rows).astype(bool)


def estimate_prefix_optimism(
    right: Singles, items: Int64s, rng: np.random.Generator, weights: Floats | None = None
) -> Floats:
    """Return optimism and standard deviation of choosing among the first j sets, j = 1, …, c: (c, 2).

    Ties go to the first set.

    Args:
        right: (c, n), 1 where a set is correct.
        items: (n,), groups of rows that are resampled together.
        weights: (n,), weights of the rows, of sum 1; None: equal weights.
    """
    accuracies = right.mean(axis=1, dtype=np.float64) if weights is None else right @ weights
    sums = np.zeros((3, len(right)))
    for _ in range(BOOTSTRAP_RESAMPLINGS // _AT_ONCE):
        drawn = bootstrap_counts(items, _AT_ONCE, rng).astype(np.float64)
        if weights is not None:
            drawn *= len(items) * weights
        counts = right @ drawn.T.astype(right.dtype)  # exact where they are integers
        best = np.maximum.accumulate(counts, axis=0)
        is_new = np.vstack((np.ones((1, _AT_ONCE), dtype=bool), best[1:] > best[:-1]))
        chosen = np.maximum.accumulate(np.where(is_new, np.arange(len(right))[:, None], 0), axis=0)
        levels = accuracies[chosen]
        sums += [each.sum(axis=1) for each in (best / drawn.sum(axis=1), levels, levels**2)]
    apparent, reaches, squares = sums / BOOTSTRAP_RESAMPLINGS
    return np.column_stack((apparent - reaches, np.sqrt(np.maximum(squares - reaches**2, 0.0))))


def _list_contenders(accuracies: Floats, most: int) -> Int64s:
    """Return the sets nearest in accuracy to the best set that costs no more, by rising cost.

    All other sets are never chosen.
    """
    behind = np.maximum.accumulate(accuracies) - accuracies
    nearest = np.argsort(behind, kind="stable")[:most]
    return np.union1d([0], nearest).astype(np.int64)


def _find_last_within(accuracies: Floats, costs: Floats, rising: Floats) -> Int64s:
    """Return the index, (m,), by rising cost, of the most expensive competitor of each set."""
    by_accuracy = np.argsort(-accuracies, kind="stable")
    cheapest = np.append(np.inf, np.minimum.accumulate(costs[by_accuracy]))
    more_accurate = np.searchsorted(-accuracies[by_accuracy], -accuracies, side="left")
    below = np.searchsorted(rising, cheapest[more_accurate], side="left") - 1
    return np.maximum(below, np.searchsorted(rising, costs, side="right") - 1)
