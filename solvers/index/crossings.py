"""Index over sizes: skylines between the breakpoints where they change (Algorithm 3, Lemma 3.12, Theorem 3.13).

Candidate curves are kept in order of cost while the size grows from 1. Only neighbors in this order can cross next. So
a priority queue holds one crossing for each pair of neighbors. At a crossing, two curves swap places. Let curve 2 be
below curve 1 before the crossing, and above it afterward. The skyline changes only if (Theorem 3.13)

1. both are on the skyline: curve 1 is more accurate, so curve 2 leaves;
2. curve 2 is on the skyline, curve 1 is not, and no curve below curve 2 is as accurate as curve 1: curve 1 joins, and
   curve 2 leaves if it is not more accurate (the case of equal accuracies, which the theorem omits).

The skyline is a linked list in order of cost, so each test takes O(1): the list's member before curve 2 is the most
accurate curve below curve 2. A skyline is stored only at breakpoints.

**Degenerate crossings.** Whether one curve is below another at a given size depends only on these two curves: on the
roots where their difference changes sign, computed once in a fixed order. Curves that touch have no such root and never
swap. Identical curves stay in order of preference. If several curves cross in one point, each pair swaps. If rounding
makes the orders of several pairs contradict each other, every swap still corrects one pair and changes no other pair.
So the sweep (``crossings_kernel``) terminates, and the order is correct again as soon as the pairs agree. Sizes within
``MERGE_SHARE`` count as one point. Remaining rounding errors are corrected at look-up, where costs are recomputed
(``plan``).
"""

from dataclasses import dataclass
from math import inf, nextafter
from types import ModuleType

import numpy as np

from models.arrays import Floats, Int32s, Int64s
from solvers.index.costs import evaluate_horner
from solvers.index.skyline import find_skyline
from solvers.jit import python_kernel

MERGE_SHARE = 1e-13
"""Crossings within this share of the size are one point."""
MIN_COMPILED_CURVES = 150
"""From this many curves on, compiling the sweep pays off."""


@dataclass(frozen=True, slots=True, eq=False)
class SkylineIndex:
    """Skylines between breakpoints.

    Attributes:
        sizes: (b,) float64, rising from 1, where each skyline begins.
        offsets: (b + 1,), skyline i is members[offsets[i] : offsets[i + 1]].
        members: int32 indices of curves, by rising cost and accuracy.
        crossings: the number of swaps.
        entries_if_all: the number of members if a skyline were stored at the start and at each swap.
    """

    sizes: Floats
    offsets: Int64s
    members: Int32s
    crossings: int
    entries_if_all: int


def build_index(curves: Floats, accuracies: Floats, largest: float = inf) -> SkylineIndex:
    """Build the index over all sizes from 1 to ``largest``.

    Args:
        curves: (c, d + 1), coefficients by rising power.
        accuracies: (c,), falling; the preferred curve first among equals.
    Complexity: O((c + x) log c) time for x crossings, at most d c² / 2, and O(c) memory in addition to the result.

    >>> index = build_index(np.array([[1.0, 2.0], [6.0, 0.0]]), np.array([0.9, 0.8]))
    >>> index.sizes.tolist(), index.offsets.tolist(), index.members.tolist()
    ([1.0, 2.5], [0, 1, 3], [0, 1, 0])
    """
    order = np.lexsort((np.arange(len(curves)), *_at_one(curves).T[::-1]))
    sizes, offsets, members, crossings, entries = _kernel(len(curves)).sweep(
        np.ascontiguousarray(curves),
        np.ascontiguousarray(accuracies),
        order.astype(np.int64),
        float(largest),
        MERGE_SHARE,
    )
    at_one = find_skyline(evaluate_horner(curves, 1.0), accuracies)[::-1]
    if members[: offsets[1]].tolist() != at_one.tolist():  # curves that meet at size 1 separate just after it
        sizes = np.insert(sizes, 1, np.nextafter(1.0, inf))
        offsets = np.concatenate(([0], offsets + len(at_one)))
        members = np.concatenate((at_one.astype(np.int32), members))
    return SkylineIndex(sizes, offsets, members, int(crossings), int(entries))


def build_budget_index(affordable: Floats, accuracies: Floats) -> SkylineIndex:
    """Build the index for one budget (Problem 3): the best affordable set between breakpoints.

    Args:
        affordable: (c,), the largest size at which each set is affordable; one set must be affordable at every size.
        accuracies: (c,), falling; the preferred set first among equals.
    Complexity: O(c) time.

    >>> build_budget_index(np.array([2.0, 1.5, 9.0]), np.array([0.9, 0.8, 0.5])).sizes.tolist()
    [1.0, 2.0000000000000004]
    """
    starts, members, start = [], [], 1.0
    for curve, last in enumerate(affordable.tolist()):
        if start < inf and last >= start:
            starts.append(start)
            members.append(curve)
            start = nextafter(last, inf)
    offsets = np.arange(len(starts) + 1, dtype=np.int64)
    return SkylineIndex(np.array(starts), offsets, np.array(members, dtype=np.int32), len(starts) - 1, len(starts))


def _at_one(curves: Floats) -> Floats:
    """Return value and derivatives (divided by factorials) at size 1.

    They decide the order of curves just after size 1.
    """
    powers = np.arange(curves.shape[1])
    table = np.ones((len(powers), len(powers)))
    for p in powers[1:]:
        for q in powers[1:]:
            table[p, q] = table[p - 1, q] + table[p - 1, q - 1] if q <= p else 0.0
        table[p, 0] = 1.0
    table[0, 1:] = 0.0
    return np.asarray(curves @ table)


def _kernel(curves: int) -> ModuleType:
    """Return the sweep's module, compiled or as plain Python."""
    if curves < MIN_COMPILED_CURVES:
        return python_kernel("solvers.index.crossings_kernel")
    from solvers.index import crossings_kernel  # lazy import: small indexes do not load numba

    return crossings_kernel
