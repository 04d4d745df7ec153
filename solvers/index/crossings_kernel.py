"""Compiled plane sweep over sizes, used by ``crossings``.

Sizes are float64. Curves are int64 row indices.

A curve is a row of coefficients by rising power. The queue is a tournament tree over the c - 1 pairs of neighbors in
the order of cost: leaf ``len(queue) // 2 + i`` holds the size at which the curves at positions i and i + 1 swap;
queue[1] is the smallest of these sizes.
"""

from typing import NamedTuple

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s
from solvers.jit import compile_kernel

ROUNDING = 4e-15
"""Values below this share of their terms' magnitude count as 0."""
FIRST, LENGTH = 0, 1
"""Places in the ends of a skyline."""


class LinkedSkyline(NamedTuple):
    """Skyline as a linked list in order of cost, with capacity for c curves."""

    before: Int64s
    """(c,), the next cheaper member; -1: none."""
    after: Int64s
    """(c,), the next more expensive member; -1: none."""
    on: Bools
    """(c,), whether a curve is a member."""
    ends: Int64s
    """(2,), the first member, and the number of members."""


@compile_kernel()
def evaluate_polynomial(d: Floats, degree: int, x: float) -> float:
    """Return the value of a polynomial at x."""
    total = 0.0
    for p in range(degree, -1, -1):
        total = total * x + d[p]
    return total


@compile_kernel()
def sum_magnitudes(d: Floats, degree: int, x: float) -> float:
    """Return the sum of a polynomial's absolute terms, which bounds the rounding of its value."""
    total = 0.0
    for p in range(degree, -1, -1):
        total = total * x + abs(d[p])
    return total


@compile_kernel()
def bisect_sign_change(d: Floats, degree: int, low: float, high: float) -> float:
    """Return the point between low and high at which a polynomial changes sign, exact to the last bit."""
    rising = evaluate_polynomial(d, degree, high) > 0
    for _ in range(200):
        middle = low + (high - low) / 2
        if middle <= low or middle >= high:
            break
        if (evaluate_polynomial(d, degree, middle) > 0) == rising:
            high = middle
        else:
            low = middle
    return high


@compile_kernel()
def find_quadratic_roots(c0: float, c1: float, c2: float, start: float, roots: Floats) -> int:
    """Write the points at or above ``start`` where c0 + c1 x + c2 x² changes sign into ``roots``.

    Return their number.
    """
    if c2 == 0.0:
        if c1 == 0.0:
            return 0
        roots[0] = -c0 / c1
        return 1 if roots[0] >= start else 0
    inner = c1 * c1 - 4 * c2 * c0
    if inner <= ROUNDING * (c1 * c1 + abs(4 * c2 * c0)):  # touches at most, within rounding
        return 0
    q = -0.5 * (c1 + np.sqrt(inner)) if c1 >= 0 else -0.5 * (c1 - np.sqrt(inner))
    one, two = q / c2, c0 / q
    low, high = min(one, two), max(one, two)
    count = 0
    if low >= start:
        roots[count] = low
        count += 1
    if high >= start:
        roots[count] = high
        count += 1
    return count


@compile_kernel()
def bound_roots(c: Floats, degree: int, start: float) -> float:
    """Return a size above all roots: Cauchy's bound, with a margin for rounding."""
    limit = 0.0
    for p in range(degree):
        limit = max(limit, abs(c[p] / c[degree]))
    return max(2 * start, 2 * (1 + limit))


@compile_kernel()
def compute_gradients(c: Floats, degree: int, order: int, d: Floats) -> None:
    """Write the coefficients of a derivative of the given order into ``d``."""
    for p in range(degree - order + 1):
        factor = 1.0
        for i in range(order):
            factor *= p + order - i
        d[p] = c[p + order] * factor


@compile_kernel()
def find_roots_between(d: Floats, degree: int, start: float, cuts: Floats, limit: float, roots: Floats) -> int:
    """Write the sign changes of a polynomial between start and limit into ``roots``; return their number.

    The polynomial is monotone between the cuts.
    """
    count = 0
    low = start
    at_low = evaluate_polynomial(d, degree, low)
    sign = np.sign(at_low)  # of the last nonzero value: touching 0 is not a sign change
    for k in range(len(cuts) + 1):
        high = cuts[k] if k < len(cuts) else limit
        at_high = evaluate_polynomial(d, degree, high)
        if k < len(cuts) and abs(at_high) <= ROUNDING * sum_magnitudes(d, degree, high):
            at_high = 0.0
        if sign * at_high < 0.0:
            roots[count] = bisect_sign_change(d, degree, low, high) if at_low != 0.0 else low
            count += 1
        low, at_low = high, at_high
        sign = np.sign(at_high) if at_high != 0.0 else sign
    return count


@compile_kernel()
def find_high_degree_sign_changes(c: Floats, degree: int, start: float, roots: Floats) -> int:
    """Write the sign changes of a polynomial of degree 3 or more into ``roots``; return their number.

    The roots of each derivative, from the linear one up, cut the next derivative into monotone pieces.
    """
    limit = bound_roots(c, degree, start)
    cuts = np.empty(degree + 2)
    d = np.zeros(degree + 1)
    count = 0
    for order in range(degree - 1, -1, -1):
        for k in range(count):
            cuts[k] = roots[k]
        compute_gradients(c, degree, order, d)
        count = find_roots_between(d, degree - order, start, cuts[:count], limit, roots)
    return count


@compile_kernel()
def find_sign_changes(c: Floats, start: float, roots: Floats) -> int:
    """Write all sign changes of a polynomial at or above ``start`` into ``roots``, rising.

    Return their number.
    """
    degree = len(c) - 1
    while degree > 0 and c[degree] == 0.0:
        degree -= 1
    if degree > 2:
        return find_high_degree_sign_changes(c, degree, start, roots)
    return find_quadratic_roots(c[0], c[1] if degree > 0 else 0.0, c[2] if degree > 1 else 0.0, start, roots)


@compile_kernel()
def find_next_crossing_size(curves: Floats, lower: int, upper: int, now: float, d: Floats, roots: Floats) -> float:
    """Return the size at which two neighboring curves next swap: the current one, a later one, or inf.

    Args:
        d: (p,), workspace.
        roots: (p + 2,), workspace.
    """
    one, two = min(lower, upper), max(lower, upper)
    last = -1
    for p in range(curves.shape[1]):
        d[p] = curves[two, p] - curves[one, p]
        if d[p] != 0.0:
            last = p
    if last < 0:
        return now if lower > upper else np.inf
    count = find_sign_changes(d, 1.0, roots)
    two_above = d[last] > 0  # after the last root
    k = count
    while k > 0 and roots[k - 1] > now:
        k -= 1
        two_above = not two_above
    if two_above != (upper == two):
        return now
    return roots[k] if k < count else np.inf


@compile_kernel()
def make_crossing_queue(curves: Floats, order: Int64s, d: Floats, roots: Floats) -> Floats:
    """Return the queue of the crossings after size 1."""
    leaves = 1
    while leaves < len(curves):
        leaves *= 2
    queue = np.full(2 * leaves, np.inf)
    for place in range(len(curves) - 1):
        queue[leaves + place] = find_next_crossing_size(curves, order[place], order[place + 1], 1.0, d, roots)
    for node in range(leaves - 1, 0, -1):
        queue[node] = min(queue[2 * node], queue[2 * node + 1])
    return queue


@compile_kernel()
def find_next_crossing(queue: Floats) -> int:
    """Return the position, by cost, of the lower of the two curves that cross next."""
    leaves = len(queue) // 2
    node = 1
    while node < leaves:
        node = 2 * node if queue[2 * node] == queue[node] else 2 * node + 1
    return node - leaves


@compile_kernel()
def update_queue(
    queue: Floats, curves: Floats, order: Int64s, place: int, now: float, d: Floats, roots: Floats
) -> None:
    """Update the three pairs of neighbors that include the curves at positions ``place`` and ``place + 1``."""
    for near in range(max(place - 1, 0), min(place + 2, len(order) - 1)):
        node = len(queue) // 2 + near
        queue[node] = find_next_crossing_size(curves, order[near], order[near + 1], now, d, roots)
        while node > 1:
            node //= 2
            queue[node] = min(queue[2 * node], queue[2 * node + 1])


@compile_kernel()
def make_skyline(order: Int64s, accuracies: Floats) -> LinkedSkyline:
    """Return the skyline at size 1, given the order of curves by cost."""
    count = len(order)
    before, after = np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    skyline = LinkedSkyline(before, after, np.zeros(count, dtype=np.bool_), np.array([-1, 0], dtype=np.int64))
    tail = -1
    for curve in order:
        if tail < 0 or accuracies[curve] > accuracies[tail]:
            skyline.on[curve] = True
            insert_skyline_member(skyline, tail, curve)
            skyline.ends[LENGTH] += 1
            tail = curve
    return skyline


@compile_kernel()
def insert_skyline_member(skyline: LinkedSkyline, below: int, curve: int) -> None:
    """Link a curve into the skyline after ``below``, or as the first member if ``below`` is -1."""
    skyline.before[curve] = below
    if below < 0:
        skyline.ends[FIRST] = curve
    else:
        skyline.after[below] = curve


@compile_kernel()
def swap_curves(skyline: LinkedSkyline, accuracies: Floats, curve1: int, curve2: int) -> bool:
    """Update the skyline where two neighboring curves cross.

    Beyond this size, curve 2, a member, costs more than curve 1. Return whether the skyline changed.
    """
    before, after, on, ends = skyline.before, skyline.after, skyline.on, skyline.ends
    below = before[curve2]
    if on[curve1]:  # both are on it, so curve 1 is the more accurate: curve 2 leaves
        on[curve2] = False
        ends[LENGTH] -= 1
        insert_skyline_member(skyline, below, curve1)
        return True
    if below >= 0 and accuracies[curve1] <= accuracies[below]:
        return False
    on[curve1] = True  # curve 1 joins before curve 2
    insert_skyline_member(skyline, below, curve1)
    if accuracies[curve1] < accuracies[curve2]:
        ends[LENGTH] += 1
        insert_skyline_member(skyline, curve1, curve2)
        return True
    on[curve2] = False  # and takes its place
    after[curve1] = after[curve2]
    if after[curve2] >= 0:
        before[after[curve2]] = curve1
    return True


@compile_kernel()
def write_members(skyline: LinkedSkyline, members: Int32s, start: int) -> int:
    """Write the skyline's members, from index ``start``; return the end index."""
    curve = skyline.ends[FIRST]
    while curve >= 0:
        members[start] = curve
        start += 1
        curve = skyline.after[curve]
    return start


@compile_kernel(cache=True)
def sweep(
    curves: Floats, accuracies: Floats, order: Int64s, largest: float, together: float
) -> tuple[Floats, Int64s, Int32s, int, int]:
    """Sweep the size from 1 to ``largest``, and store the skylines.

    Args:
        curves: (c, p).
        accuracies: (c,).
        order: (c,), curves by cost at size 1; overwritten.
        together: crossings within this share of the size are one point.
    Returns:
        Sizes (b,), offsets (b + 1,), and members as in ``SkylineIndex``; the number of crossings; and the sum of the
        skyline's lengths at the start and after each crossing.
    """
    d, roots = np.empty(curves.shape[1]), np.empty(curves.shape[1] + 2)
    queue, skyline = make_crossing_queue(curves, order, d, roots), make_skyline(order, accuracies)
    sizes, offsets, members = np.empty(64), np.zeros(65, dtype=np.int64), np.empty(1024, dtype=np.int32)
    points, used, crossings, entries = 0, 0, 0, skyline.ends[LENGTH]
    now, point, changed = 1.0, 1.0, True
    while True:
        upcoming = queue[1]
        if changed and (upcoming > largest or upcoming > point * (1 + together)):
            if points == len(sizes):
                sizes, offsets = np.append(sizes, np.empty_like(sizes)), np.append(offsets, np.zeros_like(offsets))
            while used + skyline.ends[LENGTH] > len(members):
                members = np.append(members, np.empty_like(members))
            used = write_members(skyline, members, used)
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
        place = find_next_crossing(queue)
        order[place], order[place + 1] = order[place + 1], order[place]
        if skyline.on[order[place + 1]]:  # rising curves outside the skyline change nothing
            changed |= swap_curves(skyline, accuracies, order[place], order[place + 1])
        entries += skyline.ends[LENGTH]
        update_queue(queue, curves, order, place, now, d, roots)
    return sizes[:points].copy(), offsets[: points + 1].copy(), members[:used].copy(), crossings, entries
