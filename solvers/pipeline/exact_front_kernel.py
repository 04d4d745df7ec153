"""Compiled branch and bound over chains of feature sets, depth first.

Chains share prefixes. Rows are processed 64 at a time.

A configuration of s stages is a chain S_1 ⊂ ... ⊂ S_s of feature sets, the last with all features F. A search node is a
prefix of a chain. It has the rows R that are not accepted yet, the counts of accepted and correct rows, and the cost so
far. At the last level, each superset T is directly followed by F, which takes three bit counts per word.

**Bounds** for all completions of a prefix that ends with S, by sets T with S ⊂ T ⊆ F:

- Covered rows: at most the rows covered so far, plus the rows of R that some T accepts.
- Correct rows: at most the rows correct so far, plus the rows of R that some T accepts correctly. Wrong rows: at least
  the rows wrong so far, plus the rows of R that F accepts (so the chain accepts them) and no T accepts correctly. Both
  bound the accuracy, since right / (right + wrong) increases with right and decreases with wrong.
- Cost: every row of R pays for the next stage, at least the cheapest remaining feature; rows that no T accepts pay for
  all remaining features. A step from S to T costs C(T) - C(S), where C also counts the set-up groups that a set touches
  (``solvers.setup_groups``). C rises with the set, so a step costs at least as much as each of its features alone.

A node is pruned if a known configuration is at least as good in the first two bounds and cheaper than the third. If the
known configuration has fewer stages, equal cost prunes, too: every completion is dominated, or equal and not preferred.
Therefore stage counts are searched in increasing order. Otherwise equal cost does not prune, so that the preferred
configuration of equal objectives is found. Given the next set T, the cost bound is tighter: the rows R pay for T \\ S,
and rows that no set accepts for F \\ T. All sums are exact (``unit_costs``).

**Known configurations** are in a list, and in a table over the numbers of uncovered and wrong rows. A cell holds the
least cost of a known configuration that is at least as good as any configuration in the cell. If cells are one count
wide, the table is exact. If they are wider, it only prunes, and the list decides. If the known configuration has fewer
stages than the searched ones, the cell holds the next smaller number. So equal costs are pruned, too.
"""

from typing import Any, NamedTuple

import numpy as np

from models.arrays import Floats, Int64s, UInt64s
from solvers.jit import compile_kernel

SET, TRIED, ALIVE = 2, 3, 4
"""Columns of a node besides covered and right: its set, the last tried superset, the number of rows not accepted."""
COVERED, CORRECT, STAGES, CHAIN = 0, 1, 2, 3
"""Columns of the list: covered, right, stages, then the sets of the chain except the last."""
DEPTH, SIZE, LOOKED, PASSED, ENTERED = 0, 1, 2, 3, 4
"""Entries of a search state: depth (-1 at the end), length of the list, numbers of configurations evaluated and pruned,
and the stage count of the table."""


class Lattice(NamedTuple):
    """Precomputed arrays by feature set (mask), with w words of rows.

    Attributes:
        votes: (2^n, 2, w), the rows that each set's classifier accepts, and accepts correctly.
        superset_votes: (2^n, 2, w), the rows that some proper superset's classifier accepts, and accepts correctly.
        unit_costs: (2^n,), in units.
        cheapest: (2^n,), the least cost of adding a feature to each set.
        ways: (n + 1, k + 2), numbers of ordered partitions by features and stages.
    """

    votes: UInt64s
    superset_votes: UInt64s
    unit_costs: Floats
    cheapest: Floats
    ways: Int64s


class KnownFront(NamedTuple):
    """Non-dominated configurations, and the table of their least costs.

    Entries are counts and chains, (e, k + 2), and sums of costs, (e,). The table covers uncovered and wrong rows, with
    ``width`` counts per cell.
    """

    entries: Int64s
    costs: Floats
    least: Floats
    width: int
    rows: int


class SearchState(NamedTuple):
    """Search state by depth: nodes (k, 5), remaining rows (k, w), costs (k,); chain buffer (k,), ``state`` (5,)."""

    nodes: Int64s
    rest: UInt64s
    paid: Floats
    chain: Int64s
    state: Int64s


inner = compile_kernel(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorator for functions that only ``search_chains`` calls: compiled without a Python wrapper."""


@inner
def count_word_bits(word: np.uint64) -> Any:
    """Count the bits of a word; compilers replace this pattern by one instruction."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner
def is_preferred(entry: Int64s, stages: int, chain: Int64s) -> bool:
    """Return whether a chain is preferred over an equally good entry."""
    if entry[STAGES] != stages:
        return bool(stages < entry[STAGES])
    differ = 0
    for j in range(stages - 1):
        differ |= chain[j] ^ entry[CHAIN + j]
    feature = differ & -differ  # the first whose stage differs; its stage is the number of sets without it
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
def find_cell(front: KnownFront, covered: int, wrong: int) -> tuple[int, int]:
    """Return the cell of the table for counts of covered and wrong rows."""
    return (front.rows - covered) // front.width, wrong // front.width


@inner
def lower_cells(front: KnownFront, covered: int, right: int, cost: float) -> None:
    """Lower the costs of the cells in which a configuration is at least as good as any other."""
    least, width = front.least, front.width
    for i in range((front.rows - covered + width - 1) // width, len(least)):
        most = front.rows - i * width  # covered rows in row i; cell j has at least j * width wrong rows
        first = -(-(covered - right) * most // (width * covered)) if covered else 0
        for j in range(first, least.shape[1]):
            if least[i, j] <= cost:  # entries fall along a row
                break
            least[i, j] = cost


@inner
def fill_cells(front: KnownFront, size: int) -> None:
    """Fill an empty table from the list.

    Configurations in the list have fewer stages, so they also prune equal costs.
    """
    for e in range(size):
        lower_cells(front, front.entries[e, COVERED], front.entries[e, CORRECT], np.nextafter(front.costs[e], -np.inf))


@inner
def insert_entry(
    front: KnownFront, size: int, covered: int, right: int, cost: float, stages: int, chain: Int64s
) -> int:
    """Add a configuration unless it is dominated, and remove the configurations it dominates.

    Return the new length of the list.
    """
    entries, costs = front.entries, front.costs
    kept = 0
    for e in range(size):
        v, c = entries[e, COVERED], entries[e, CORRECT]
        if v == covered and c == right and costs[e] == cost:
            if is_preferred(entries[e], stages, chain):
                write_entry(entries[e], covered, right, stages, chain)
            return size
        if v >= covered and c * covered >= right * v and costs[e] <= cost:
            return size  # no entry was removed: entry e would dominate it too
        if not (covered >= v and right * v >= c * covered and cost <= costs[e]):
            for j in range(entries.shape[1] if kept < e else 0):
                entries[kept, j] = entries[e, j]
            costs[kept] = costs[e]
            kept += 1
    write_entry(entries[kept], covered, right, stages, chain)
    costs[kept] = cost
    lower_cells(front, covered, right, cost)
    return kept + 1


@inner
def compute_bounds(lattice: Lattice, front: KnownFront, search: SearchState, depth: int) -> tuple[int, float, float]:
    """Return bounds of a node.

    The bounds are the rows that no superset accepts, the node's least cost, and the least known cost of a configuration
    with at least the node's best accuracy and coverage.
    """
    node, now, full = search.nodes[depth], search.rest[depth], len(lattice.unit_costs) - 1
    base, final = node[SET], lattice.votes[full, 0]
    superset_votes, ever_right = lattice.superset_votes[base, 0], lattice.superset_votes[base, 1]
    never, right, wrong = 0, node[CORRECT], node[COVERED] - node[CORRECT]
    for w in range(len(now)):
        never += count_word_bits(now[w] & ~superset_votes[w])
        right += count_word_bits(now[w] & ever_right[w])
        wrong += count_word_bits(now[w] & final[w] & ~ever_right[w])
    covered = node[COVERED] + node[ALIVE] - never
    # maximum wrong rows of ``covered`` at an accuracy of at least right / (right + wrong)
    allowed = covered * wrong // (right + wrong) if right else covered
    cheapest, ahead = lattice.cheapest[base], lattice.unit_costs[full] - lattice.unit_costs[base]
    lowest = search.paid[depth] + cheapest * node[ALIVE] + (ahead - cheapest) * never
    return never, lowest, front.least[find_cell(front, covered, allowed)]


@inner
def complete_chains(
    lattice: Lattice,
    front: KnownFront,
    search: SearchState,
    depth: int,
    chain: Int64s,
    size: int,
    never: int,
    limit: float,
) -> int:
    """Try every superset of a node's set as the second-last stage; return the list's new length."""
    node, now, unit_costs = search.nodes[depth], search.rest[depth], lattice.unit_costs
    full = len(unit_costs) - 1
    base, covered, right, alive, paid = node[SET], node[COVERED], node[CORRECT], node[ALIVE], search.paid[depth]
    final, final_right = lattice.votes[full, 0], lattice.votes[full, 1]
    free, before, whole = full ^ base, unit_costs[base], unit_costs[full]
    sub = free & -free
    while sub != free:
        reached = unit_costs[base | sub]
        spent = paid + (reached - before) * alive
        if spent + (whole - reached) * never <= limit:
            accepted, correct = lattice.votes[base | sub, 0], lattice.votes[base | sub, 1]
            rest, lost, good = 0, 0, 0
            for w in range(len(now)):
                on = now[w] & ~accepted[w]
                rest += count_word_bits(on)
                lost += count_word_bits(on & ~final[w])
                good += count_word_bits((now[w] & correct[w]) | (on & final_right[w]))
            cost = spent + (whole - reached) * rest
            v, c = covered + alive - lost, right + good
            if cost <= front.least[find_cell(front, v, v - c)]:
                chain[depth] = base | sub
                size = insert_entry(front, size, v, c, cost, depth + 2, chain)
        sub = (sub - free) & free
    return size


@inner
def extend_chain(lattice: Lattice, search: SearchState, depth: int, needed: int) -> bool:
    """Move to the next child; return False if there is none.

    A child is a superset that leaves at least ``needed`` features to later stages.
    """
    node, child = search.nodes[depth], search.nodes[depth + 1]
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
    for w in range(search.rest.shape[1]):
        now = search.rest[depth, w]
        search.rest[depth + 1, w] = now & ~lattice.votes[top, 0, w]
        rest += count_word_bits(now & ~lattice.votes[top, 0, w])
        good += count_word_bits(now & lattice.votes[top, 1, w])
    child[SET], child[TRIED], child[ALIVE] = top, 0, rest
    child[COVERED], child[CORRECT] = node[COVERED] + node[ALIVE] - rest, node[CORRECT] + good
    step = lattice.unit_costs[top] - lattice.unit_costs[node[SET]]
    search.paid[depth + 1] = search.paid[depth] + step * node[ALIVE]
    return True


@compile_kernel(nogil=True, error_model="numpy", cache=True)
def search_chains(lattice: Lattice, front: KnownFront, search: SearchState, stages: int, quota: int) -> None:
    """Continue the search of chains of ``stages`` sets.

    It pauses after about ``quota`` configurations, or when the list may overflow at the next node.
    """
    nodes, state, last = search.nodes, search.state, stages - 2
    full = len(lattice.unit_costs) - 1
    chain = search.chain
    if state[ENTERED] < stages:
        fill_cells(front, state[SIZE])
        state[ENTERED] = stages
    if stages == 1:
        node = nodes[0]
        state[SIZE] = insert_entry(front, state[SIZE], node[COVERED], node[CORRECT], search.paid[0], stages, chain)
        state[LOOKED], state[DEPTH] = state[LOOKED] + 1, -1
    end = state[LOOKED] + state[PASSED] + quota
    while state[DEPTH] >= 0 and state[LOOKED] + state[PASSED] < end:
        depth = state[DEPTH]
        never, limit = 0, np.inf
        if nodes[depth, TRIED] == 0:
            never, lowest, limit = compute_bounds(lattice, front, search, depth)
            if lowest > limit:
                free = count_word_bits(np.uint64(full ^ nodes[depth, SET]))
                state[PASSED] += lattice.ways[free, stages - depth]
                state[DEPTH] -= 1
                continue
        if depth < last:
            state[DEPTH] += 1 if extend_chain(lattice, search, depth, stages - depth - 1) else -1
            continue
        if state[SIZE] + full >= len(front.costs):
            break
        for d in range(depth):
            chain[d] = nodes[d + 1, SET]
        state[SIZE] = complete_chains(lattice, front, search, depth, chain, state[SIZE], never, limit)
        state[LOOKED] += lattice.ways[count_word_bits(np.uint64(full ^ nodes[depth, SET])), 2]
        state[DEPTH] -= 1
