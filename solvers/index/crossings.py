"""The index over sizes: skylines between the points where they change (Algorithm 3, Lemma 3.12, Theorem 3.13).

Candidate curves are kept in order of cost while the size grows from 1. Only neighbours can cross next, so a priority
queue holds one crossing for each pair of neighbours. At a crossing the two change places, and the skyline changes only
if (Theorem 3.13, with curve 2 below curve 1 before and above it after)

1. both are on the skyline: curve 1 is the more accurate, curve 2 leaves;
2. curve 2 is on it and curve 1 is not, and no curve below curve 2 is as accurate as curve 1: curve 1 joins, and curve 2
   leaves if it is no more accurate (the case of equal accuracies, which the theorem leaves out).

The skyline is a linked list in order of cost, so either takes O(1): "no curve below curve 2" is the list's member
before curve 2. A skyline is stored at interesting points only.

**Degenerate crossings.** Whether one curve should be below another at a given size is decided by the pair alone: by the
roots at which their difference changes its sign, found once in one order. Curves that touch have no such root and never
change places; identical curves stay in order of preference; of curves that cross in one point each pair changes places.
If rounding makes the wishes of several pairs contradict each other, every exchange still grants one wish and touches no
other pair, so the sweep (``crossings_kernel``) ends, and the order is right again as soon as the wishes are. Sizes that
differ by less than ``TOGETHER`` are one point. What rounding leaves is mended at look-up, where costs are computed
again (``plan``).
"""

from dataclasses import dataclass
from math import inf, nextafter
from types import ModuleType

import numpy as np

from models.arrays import Floats, Int32s, Int64s
from solvers.index.costs import horner
from solvers.index.skyline import skyline
from solvers.jit import uncompiled

TOGETHER = 1e-13
"""Crossings that are closer than this share of the size are one point."""
COMPILE_FROM = 150
"""From this many curves on, compiling the sweep costs less than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Skylines between breakpoints. sizes: (b,) float64, rising from 1, where each skyline begins; its members, by
    rising cost and accuracy, are members[offsets[i] : offsets[i + 1]], int32 indices of curves. crossings: how often
    two curves changed places; entries_if_all: the members there were if a skyline were stored at the start and at each
    of them."""

    sizes: Floats
    offsets: Int64s
    members: Int32s
    crossings: int
    entries_if_all: int


def build_index(curves: Floats, accuracies: Floats, largest: float = inf) -> Index:
    """Build the index over all sizes from 1 to ``largest``.

    curves: (c, d + 1) coefficients by rising power; accuracies: (c,), falling; among equals the preferred curve stands
    first. O((c + x) log c) time for x crossings, at most d c² / 2, and O(c) memory beside the result.

    >>> index = build_index(np.array([[1.0, 2.0], [6.0, 0.0]]), np.array([0.9, 0.8]))
    >>> index.sizes.tolist(), index.offsets.tolist(), index.members.tolist()
    ([1.0, 2.5], [0, 1, 3], [0, 1, 0])
    """
    order = np.lexsort((np.arange(len(curves)), *_at_one(curves).T[::-1]))
    sizes, offsets, members, crossings, entries = _kernel(len(curves)).sweep(
        np.ascontiguousarray(curves), np.ascontiguousarray(accuracies), order.astype(np.int64), float(largest), TOGETHER
    )
    at_one = skyline(horner(curves, 1.0), accuracies)[::-1]
    if members[: offsets[1]].tolist() != at_one.tolist():  # curves that meet at size 1 part just after it
        sizes = np.insert(sizes, 1, np.nextafter(1.0, inf))
        offsets = np.concatenate(([0], offsets + len(at_one)))
        members = np.concatenate((at_one.astype(np.int32), members))
    return Index(sizes, offsets, members, int(crossings), int(entries))


def index_affordable(affordable: Floats, accuracies: Floats) -> Index:
    """Build the index for one budget (Problem 3): between breakpoints the one best set that is within it.

    affordable: (c,) the largest size at which each set is; accuracies: (c,), falling, the preferred among equals first.
    There must be a set that is always affordable. O(c) time.

    >>> index_affordable(np.array([2.0, 1.5, 9.0]), np.array([0.9, 0.8, 0.5])).sizes.tolist()
    [1.0, 2.0000000000000004]
    """
    starts, members, start = [], [], 1.0
    for curve, last in enumerate(affordable.tolist()):
        if start < inf and last >= start:
            starts.append(start)
            members.append(curve)
            start = nextafter(last, inf)
    offsets = np.arange(len(starts) + 1, dtype=np.int64)
    return Index(np.array(starts), offsets, np.array(members, dtype=np.int32), len(starts) - 1, len(starts))


def _at_one(curves: Floats) -> Floats:
    """Give value and derivatives (divided by factorials) at size 1: what decides the order just after it."""
    powers = np.arange(curves.shape[1])
    table = np.ones((len(powers), len(powers)))
    for p in powers[1:]:
        for q in powers[1:]:
            table[p, q] = table[p - 1, q] + table[p - 1, q - 1] if q <= p else 0.0
        table[p, 0] = 1.0
    table[0, 1:] = 0.0
    return np.asarray(curves @ table)


def _kernel(curves: int) -> ModuleType:
    """Give the sweep's module for so many curves: compiled, or as plain Python."""
    if curves < COMPILE_FROM:
        return uncompiled("solvers.index.crossings_kernel")
    from solvers.index import crossings_kernel  # here, so that what is small does not load numba

    return crossings_kernel
