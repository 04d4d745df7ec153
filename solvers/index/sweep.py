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
other pair, so the sweep ends, and the order is right again as soon as the wishes are. Sizes that differ by less than
``TOGETHER`` are one point. What rounding leaves is mended at look-up, where costs are computed again (``plan``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import inf, nextafter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvers.index.costs import horner
from solvers.index.skyline import skyline

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
F = TypeVar("F")

TOGETHER = 1e-13
"""Crossings that are closer than this share of the size are one point."""
ROUNDING = 4e-15
"""Values below this share of what they were computed from count as 0."""
COMPILE_FROM = 150
"""From this many curves on, compiling the sweep costs less than it saves."""


class _Jit(Protocol):
    def __call__(self, function: F, /) -> F: ...


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Skylines between breakpoints. sizes: (b,) float64, rising from 1, where each skyline begins; its members, by
    rising cost and accuracy, are members[offsets[i] : offsets[i + 1]], int32 indices of curves. crossings: how often
    two curves changed places; entries_if_all: the members there were if a skyline were stored at the start and at each
    of them."""

    sizes: Floats
    offsets: Ints
    members: NDArray[np.int32]
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
    run = _compiled() if len(curves) >= COMPILE_FROM else _interpreted()
    order = np.lexsort((np.arange(len(curves)), *_at_one(curves).T[::-1]))
    sizes, offsets, members, crossings, entries = run(
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


@cache
def _interpreted() -> Callable[..., Any]:
    return _build(lambda function: function)


@cache
def _compiled() -> Callable[..., Any]:
    return _build(import_module("numba").njit)  # compiled in memory: no cache on disk is needed


def _build(jit: _Jit) -> Callable[..., Any]:
    """Make the sweep, compiled or not: the same source either way."""

    @jit
    def value(d: Floats, degree: int, x: float) -> float:
        total = 0.0
        for p in range(degree, -1, -1):
            total = total * x + d[p]
        return total

    @jit
    def magnitude(d: Floats, degree: int, x: float) -> float:
        total = 0.0
        for p in range(degree, -1, -1):
            total = total * x + abs(d[p])
        return total

    @jit
    def bisected(d: Floats, degree: int, low: float, high: float) -> float:
        """Find where a polynomial changes its sign between low and high, to the last bit."""
        rising = value(d, degree, high) > 0
        for _ in range(200):
            middle = low + (high - low) / 2
            if middle <= low or middle >= high:
                break
            if (value(d, degree, middle) > 0) == rising:
                high = middle
            else:
                low = middle
        return high

    @jit
    def quadratic(c: Floats, start: float, roots: Floats) -> int:
        """Find where a line or parabola changes its sign after ``start``."""
        if c[2] == 0.0:
            if c[1] == 0.0:
                return 0
            roots[0] = -c[0] / c[1]
            return 1 if roots[0] >= start else 0
        inner = c[1] * c[1] - 4 * c[2] * c[0]
        if inner <= ROUNDING * (c[1] * c[1] + abs(4 * c[2] * c[0])):  # touches at most, as far as rounding can tell
            return 0
        q = -0.5 * (c[1] + np.sqrt(inner)) if c[1] >= 0 else -0.5 * (c[1] - np.sqrt(inner))
        one, two = q / c[2], c[0] / q
        low, high = min(one, two), max(one, two)
        found = 0
        if low >= start:
            roots[found] = low
            found += 1
        if high >= start:
            roots[found] = high
            found += 1
        return found

    @jit
    def sign_changes(c: Floats, start: float, roots: Floats) -> int:
        """Find all sizes from ``start`` on at which a polynomial changes its sign, ascending; returns their number.

        From the linear derivative up, the roots of each cut the next into pieces without a turning point.
        """
        degree = len(c) - 1
        while degree > 0 and c[degree] == 0.0:
            degree -= 1
        if degree <= 2:
            small = np.zeros(3)
            for p in range(degree + 1):
                small[p] = c[p]
            return quadratic(small, start, roots)
        limit = 0.0
        for p in range(degree):
            limit = max(limit, abs(c[p] / c[degree]))
        limit = max(2 * start, 2 * (1 + limit))  # Cauchy's bound, with room for rounding
        cuts = np.empty(degree + 2)
        cut_count = 0
        d = np.zeros(degree + 1)
        for order in range(degree - 1, -1, -1):
            for p in range(degree - order + 1):
                factor = 1.0
                for i in range(order):
                    factor *= p + order - i
                d[p] = c[p + order] * factor
            found = 0
            low = start
            at_low = value(d, degree - order, low)
            sign = np.sign(
                at_low
            )  # of the last value that is not 0: a polynomial that touches 0 does not change its sign
            for k in range(cut_count + 1):
                high = cuts[k] if k < cut_count else limit
                at_high = value(d, degree - order, high)
                if k < cut_count and abs(at_high) <= ROUNDING * magnitude(d, degree - order, high):
                    at_high = 0.0
                if sign * at_high < 0.0:
                    roots[found] = bisected(d, degree - order, low, high) if at_low != 0.0 else low
                    found += 1
                low, at_low = high, at_high
                sign = np.sign(at_high) if at_high != 0.0 else sign
            if order > 0:
                cut_count = found
                for k in range(found):
                    cuts[k] = roots[k]
        return found

    @jit
    def next_exchange(curves: Floats, lower: int, upper: int, now: float, d: Floats, roots: Floats) -> float:
        """Tell when the upper of two curves should be below the lower one: now, at a later size, or never."""
        one, two = min(lower, upper), max(lower, upper)
        last = -1
        for p in range(curves.shape[1]):
            d[p] = curves[two, p] - curves[one, p]
            if d[p] != 0.0:
                last = p
        if last < 0:
            return now if lower > upper else np.inf
        count = sign_changes(d, 1.0, roots)
        two_above = d[last] > 0  # after the last root
        k = count
        while k > 0 and roots[k - 1] > now:
            k -= 1
            two_above = not two_above
        if two_above != (upper == two):
            return now
        return roots[k] if k < count else np.inf

    @jit
    def run(
        curves: Floats, accuracies: Floats, order: Ints, largest: float, together: float
    ) -> tuple[Floats, Ints, NDArray[np.int32], int, int]:
        count = len(curves)
        d = np.empty(curves.shape[1])
        roots = np.empty(curves.shape[1] + 2)
        leaves = 1
        while leaves < count:
            leaves *= 2
        queue = np.full(2 * leaves, np.inf)  # a tournament over pairs of neighbours; queue[1] is the next crossing
        for place in range(count - 1):
            queue[leaves + place] = next_exchange(curves, order[place], order[place + 1], 1.0, d, roots)
        for node in range(leaves - 1, 0, -1):
            queue[node] = min(queue[2 * node], queue[2 * node + 1])
        before = np.full(count, -1, dtype=np.int64)  # the skyline's linked list; -1 is its end
        after = np.full(count, -1, dtype=np.int64)
        on = np.zeros(count, dtype=np.bool_)
        first, tail = np.int64(-1), np.int64(-1)
        length = 0
        for place in range(count):
            curve = order[place]
            if tail < 0 or accuracies[curve] > accuracies[tail]:
                on[curve] = True
                before[curve] = tail
                if tail < 0:
                    first = curve
                else:
                    after[tail] = curve
                tail = curve
                length += 1
        entries = length  # if there were a skyline at every crossing
        sizes = np.empty(64)
        offsets = np.zeros(65, dtype=np.int64)
        members = np.empty(1024, dtype=np.int32)
        points, used, crossings = 0, 0, 0
        now, point, changed = 1.0, 1.0, True
        while True:
            upcoming = queue[1]
            if changed and (upcoming > largest or upcoming > point * (1 + together)):
                if points == len(sizes):
                    sizes = np.concatenate((sizes, np.empty(len(sizes))))
                    offsets = np.concatenate((offsets, np.zeros(len(sizes) + 1 - len(offsets), dtype=np.int64)))
                curve = first
                while curve >= 0:
                    if used == len(members):
                        members = np.concatenate((members, np.empty(len(members), dtype=np.int32)))
                    members[used] = curve
                    used += 1
                    curve = after[curve]
                sizes[points] = point
                points += 1
                offsets[points] = used
                changed = False
            if upcoming == np.inf or upcoming > largest:
                break
            now = max(now, upcoming)
            if now > point * (1 + together):
                point = now
            crossings += 1
            node = 1
            while node < leaves:
                node = 2 * node if queue[2 * node] == queue[node] else 2 * node + 1
            place = node - leaves
            two, one = order[place], order[place + 1]
            order[place], order[place + 1] = one, two
            if on[two]:
                below = before[two]
                if on[one]:  # both are on it, so curve 1 is the more accurate: curve 2 leaves
                    on[two] = False
                    length -= 1
                    before[one] = below
                    if below < 0:
                        first = one
                    else:
                        after[below] = one
                    changed = True
                elif below < 0 or accuracies[one] > accuracies[below]:  # curve 1 joins before curve 2
                    on[one] = True
                    length += 1
                    before[one] = below
                    if below < 0:
                        first = one
                    else:
                        after[below] = one
                    if accuracies[one] >= accuracies[two]:
                        on[two] = False
                        length -= 1
                        after[one] = after[two]
                        if after[two] >= 0:
                            before[after[two]] = one
                    else:
                        after[one] = two
                        before[two] = one
                    changed = True
            entries += length
            for near in range(max(place - 1, 0), min(place + 2, count - 1)):
                node = leaves + near
                queue[node] = next_exchange(curves, order[near], order[near + 1], now, d, roots)
                while node > 1:
                    node //= 2
                    queue[node] = min(queue[2 * node], queue[2 * node + 1])
        return sizes[:points].copy(), offsets[: points + 1].copy(), members[:used].copy(), crossings, entries

    return run
