"""The walk through all chains of feature sets, compiled: depth first, with shared prefixes, 64 rows at a time.

A configuration of s stages is a chain S_1 ⊂ ... ⊂ S_s of feature sets, the last with all features F. A node of the walk
is a prefix of one; it carries the rows R that no set so far has accepted, what was accepted and right, and what the
rows have paid. Under the last node but one each superset T is closed with F at once: three counts of bits a word.

**Bounds.** What a prefix that ends with S can still lead to, whatever sets T with S ⊂ T ⊆ F follow:

- covered are at most the rows covered so far and those of R that some such T accepts;
- right are at most those right so far and those of R that some such T accepts rightly; wrong are at least those wrong
  so far and those of R that F accepts (so the chain ends with their being accepted) and no such T accepts rightly.
  Their quotient bounds the accuracy, since right / (right + wrong) rises with the one and falls with the other;
- every row of R pays for the next stage, at least its cheapest feature, and those that no T accepts pay for everything.

If a configuration is known that is at least as good as all three bounds and cheaper than the third, everything below is
dominated and not looked at. The same goes for equal cost if it has fewer stages: below is then nothing but the
dominated and the equal that is not preferred. That is why stage counts are walked in turn. Otherwise equal costs prune
nothing, so that of equal vectors the preferred one is found. With the next set T given, the bound on cost is sharper: R
pays for T \\ S, and rows that nothing accepts for F \\ T. All sums are exact (``unit_costs``).

**What is known** stands in a list, and in a table of least costs over the rows not covered and the rows wrong: a cell's
entry is the least cost of a known configuration that is at least as good as all that falls into it. As long as a cell
is one count wide the table is exact; beyond, it only rules out, and the list decides. Where what is known has fewer
stages than the walk, the entry is the next smaller number, so that equal costs are ruled out by it too.
"""

from typing import Any, NamedTuple

import numpy as np

from models.arrays import Floats, Int64s, UInt64s
from solvers.jit import compile_kernel

SET, TRIED, ALIVE = 2, 3, 4
"""Columns of a node beside covered and right: its set, the superset tried last, the rows not yet accepted."""
COVERED, CORRECT, STAGES, CHAIN = 0, 1, 2, 3
"""Columns of the list: covered, right, stages, then the sets of the chain but the last."""
DEPTH, SIZE, LOOKED, PASSED, ENTERED = 0, 1, 2, 3, 4
"""What a walk has come to: its depth (-1 at the end), the length of the list, how many configurations it has looked at
and passed over, and for how many stages the table was made."""


class Lattice(NamedTuple):
    """What is known of each feature set, by mask; w words of rows.

    own: (2^n, 2, w) the rows that its classifier accepts, and accepts rightly; ever: the same of any proper superset;
    unit_costs: (2^n,) in units; cheapest: (2^n,) the price of its cheapest feature; ways: (n + 1, k + 2) how many
    ordered partitions so many features have into so many stages.
    """

    own: UInt64s
    ever: UInt64s
    unit_costs: Floats
    cheapest: Floats
    ways: Int64s


class KnownFront(NamedTuple):
    """The configurations that nothing known dominates: (e, k + 2) counts and chains, (e,) sums of costs; and the table
    of least costs over rows not covered and rows wrong, a cell for ``width`` counts each way."""

    entries: Int64s
    costs: Floats
    least: Floats
    width: int
    rows: int


class WalkState(NamedTuple):
    """Where a walk is, per depth: nodes (k, 5), rows not yet accepted (k, w), sums paid (k,); a chain (k,) to write to;
    and ``state`` (5,)."""

    nodes: Int64s
    rest: UInt64s
    paid: Floats
    chain: Int64s
    state: Int64s


inner = compile_kernel(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""How functions are compiled that only ``walk`` calls: without what Python would need to call them."""


@inner
def count_word_bits(word: np.uint64) -> Any:
    """Count bits: compilers know this pattern, and make it one instruction."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner
def is_preferred(entry: Int64s, stages: int, chain: Int64s) -> bool:
    """Tell whether a chain goes before the one of an entry that is equally good."""
    if entry[STAGES] != stages:
        return bool(stages < entry[STAGES])
    differ = 0
    for j in range(stages - 1):
        differ |= chain[j] ^ entry[CHAIN + j]
    feature = differ & -differ  # the first whose stage differs; its stage is the number of sets that lack it
    ours, theirs = 0, 0
    for j in range(stages - 1):
        ours += (chain[j] & feature) == 0
        theirs += (entry[CHAIN + j] & feature) == 0
    return ours < theirs


@inner
def write_entry(entry: Int64s, covered: int, right: int, stages: int, chain: Int64s) -> None:
    """Write a configuration into an entry of the list."""
    entry[COVERED], entry[CORRECT], entry[STAGES] = covered, right, stages
    for j in range(stages - 1):
        entry[CHAIN + j] = chain[j]


@inner
def find_cell(known: KnownFront, covered: int, wrong: int) -> tuple[int, int]:
    """Find the cell of the table that these counts fall into: full coverage and no error are at corners."""
    return (known.rows - covered) // known.width, wrong // known.width


@inner
def lower_cells(known: KnownFront, covered: int, right: int, cost: float) -> None:
    """Lower the table's costs where a configuration is at least as good as all that falls into a cell."""
    least, width = known.least, known.width
    for i in range((known.rows - covered + width - 1) // width, len(least)):
        most = known.rows - i * width  # covered by what falls into row i; of cell j, wrong are j * width or more
        first = -(-(covered - right) * most // (width * covered)) if covered else 0
        for j in range(first, least.shape[1]):
            if least[i, j] <= cost:  # entries fall along a row
                break
            least[i, j] = cost


@inner
def fill_cells(known: KnownFront, size: int) -> None:
    """Fill an empty table from the list: what has fewer stages wins even where costs are equal."""
    for e in range(size):
        lower_cells(known, known.entries[e, COVERED], known.entries[e, CORRECT], np.nextafter(known.costs[e], -np.inf))


@inner
def insert_entry(
    known: KnownFront, size: int, covered: int, right: int, cost: float, stages: int, chain: Int64s
) -> int:
    """List a configuration, unless it is dominated, and strike off what it dominates; returns the new length."""
    entries, costs = known.entries, known.costs
    left = 0
    for e in range(size):
        v, c = entries[e, COVERED], entries[e, CORRECT]
        if v == covered and c == right and costs[e] == cost:
            if is_preferred(entries[e], stages, chain):
                write_entry(entries[e], covered, right, stages, chain)
            return size
        if v >= covered and c * covered >= right * v and costs[e] <= cost:
            return size  # nothing was struck off: what this one dominates, entry e would have dominated
        if not (covered >= v and right * v >= c * covered and cost <= costs[e]):
            for j in range(entries.shape[1] if left < e else 0):
                entries[left, j] = entries[e, j]
            costs[left] = costs[e]
            left += 1
    write_entry(entries[left], covered, right, stages, chain)
    costs[left] = cost
    lower_cells(known, covered, right, cost)
    return left + 1


@inner
def compute_bounds(lattice: Lattice, known: KnownFront, place: WalkState, depth: int) -> tuple[int, float, float]:
    """Bound what follows a node: rows that nothing to come accepts, the least it costs, and the least cost known of
    what is at least as accurate and covers as much as it can become."""
    node, now, full = place.nodes[depth], place.rest[depth], len(lattice.unit_costs) - 1
    base, final = node[SET], lattice.own[full, 0]
    ever, ever_right = lattice.ever[base, 0], lattice.ever[base, 1]
    never, right, wrong = 0, node[CORRECT], node[COVERED] - node[CORRECT]
    for w in range(len(now)):
        never += count_word_bits(now[w] & ~ever[w])
        right += count_word_bits(now[w] & ever_right[w])
        wrong += count_word_bits(now[w] & final[w] & ~ever_right[w])
    covered = node[COVERED] + node[ALIVE] - never
    # so many wrong of so many covered are at least as accurate as right of right + wrong
    allowed = covered * wrong // (right + wrong) if right else covered
    cheapest = lattice.cheapest[full ^ base]
    lowest = place.paid[depth] + cheapest * node[ALIVE] + (lattice.unit_costs[full ^ base] - cheapest) * never
    return never, lowest, known.least[find_cell(known, covered, allowed)]


@inner
def close_chains(
    lattice: Lattice,
    known: KnownFront,
    place: WalkState,
    depth: int,
    chain: Int64s,
    size: int,
    never: int,
    limit: float,
) -> int:
    """Try every superset of a node's set as the last stage but one; returns the new length of the list."""
    node, now, unit_costs = place.nodes[depth], place.rest[depth], lattice.unit_costs
    full = len(unit_costs) - 1
    base, covered, right, alive, paid = node[SET], node[COVERED], node[CORRECT], node[ALIVE], place.paid[depth]
    final, final_right = lattice.own[full, 0], lattice.own[full, 1]
    free = full ^ base
    sub = free & -free
    while sub != free:
        spent = paid + unit_costs[sub] * alive
        if spent + unit_costs[free ^ sub] * never <= limit:
            accepted, correct = lattice.own[base | sub, 0], lattice.own[base | sub, 1]
            rest, lost, good = 0, 0, 0
            for w in range(len(now)):
                on = now[w] & ~accepted[w]
                rest += count_word_bits(on)
                lost += count_word_bits(on & ~final[w])
                good += count_word_bits((now[w] & correct[w]) | (on & final_right[w]))
            cost = spent + unit_costs[free ^ sub] * rest
            v, c = covered + alive - lost, right + good
            if cost <= known.least[find_cell(known, v, v - c)]:
                chain[depth] = base | sub
                size = insert_entry(known, size, v, c, cost, depth + 2, chain)
        sub = (sub - free) & free
    return size


@inner
def descend_chain(lattice: Lattice, place: WalkState, depth: int, needed: int) -> bool:
    """Make a child of the node with its next superset that leaves as many features as stages need, if any."""
    node, child = place.nodes[depth], place.nodes[depth + 1]
    full = len(lattice.unit_costs) - 1
    free = full ^ node[SET]
    sub = (node[TRIED] - free) & free
    while sub != 0 and count_word_bits(np.uint64(free ^ sub)) < needed:
        sub = (sub - free) & free
    node[TRIED] = sub
    if sub == 0:
        return False
    top = node[SET] | sub
    rest, good = 0, 0
    for w in range(place.rest.shape[1]):
        now = place.rest[depth, w]
        place.rest[depth + 1, w] = now & ~lattice.own[top, 0, w]
        rest += count_word_bits(now & ~lattice.own[top, 0, w])
        good += count_word_bits(now & lattice.own[top, 1, w])
    child[SET], child[TRIED], child[ALIVE] = top, 0, rest
    child[COVERED], child[CORRECT] = node[COVERED] + node[ALIVE] - rest, node[CORRECT] + good
    place.paid[depth + 1] = place.paid[depth] + lattice.unit_costs[sub] * node[ALIVE]
    return True


@compile_kernel(nogil=True, error_model="numpy", cache=True)
def walk_chains(lattice: Lattice, known: KnownFront, place: WalkState, stages: int, quota: int) -> None:
    """Go on from a place, with chains of so many stages, for about so many configurations; stop early if the list has
    no room for what the next node may lead to."""
    nodes, state, last = place.nodes, place.state, stages - 2
    full = len(lattice.unit_costs) - 1
    chain = place.chain
    if state[ENTERED] < stages:
        fill_cells(known, state[SIZE])
        state[ENTERED] = stages
    if stages == 1:
        node = nodes[0]
        state[SIZE] = insert_entry(known, state[SIZE], node[COVERED], node[CORRECT], place.paid[0], stages, chain)
        state[LOOKED], state[DEPTH] = state[LOOKED] + 1, -1
    end = state[LOOKED] + state[PASSED] + quota
    while state[DEPTH] >= 0 and state[LOOKED] + state[PASSED] < end:
        depth = state[DEPTH]
        never, limit = 0, np.inf
        if nodes[depth, TRIED] == 0:
            never, lowest, limit = compute_bounds(lattice, known, place, depth)
            if lowest > limit:
                free = count_word_bits(np.uint64(full ^ nodes[depth, SET]))
                state[PASSED] += lattice.ways[free, stages - depth]
                state[DEPTH] -= 1
                continue
        if depth < last:
            state[DEPTH] += 1 if descend_chain(lattice, place, depth, stages - depth - 1) else -1
            continue
        if state[SIZE] + full >= len(known.costs):
            break
        for d in range(depth):
            chain[d] = nodes[d + 1, SET]
        state[SIZE] = close_chains(lattice, known, place, depth, chain, state[SIZE], never, limit)
        state[LOOKED] += lattice.ways[count_word_bits(np.uint64(full ^ nodes[depth, SET])), 2]
        state[DEPTH] -= 1
