"""Assignments under several constraints by brute force and as a whole by HiGHS, and seeded instances."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from models.arrays import Floats, Int64s
from solvers.portfolio.constrained import Constraint
from tests.oracles.portfolio import estimates


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """What ``assign_within`` is asked: worths and uses, (n, m) each, groups (n,), and constraints."""

    worths: Floats
    uses: tuple[Floats, ...]
    groups: Int64s
    constraints: tuple[Constraint, ...]

    def with_constraints(self, constraints: Sequence[Constraint]) -> "Instance":
        return replace(self, constraints=tuple(constraints))


@cache
def every_choice(n: int, m: int) -> Int64s:
    """List all assignments of n queries to m classifiers: (m ** n, n)."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*[np.arange(m)] * n, indexing="ij")], axis=1)


def missed(instance: Instance, choices: Int64s) -> Floats:
    """Tell by how much each of (c, n) choices misses each of k constraints: (c, k)."""
    rows = np.arange(len(instance.worths))
    columns = []
    for each in instance.constraints:
        counts = np.ones(choices.shape) if each.use is None else instance.uses[each.use][rows, choices]
        if each.group is not None:
            counts = counts * (instance.groups == each.group)
        if each.classifier is not None:
            counts = counts * (choices == each.classifier)
        columns.append(each.sign * (counts.sum(axis=1) - each.bound))
    return np.stack(columns, axis=1) if columns else np.empty((len(choices), 0))


def best_by_force(instance: Instance, slack: float = 1e-9) -> float | None:
    """Try all assignments: the best value of those that keep every constraint, None if none does."""
    choices = every_choice(*instance.worths.shape)
    allowed = np.all(missed(instance, choices) <= slack, axis=1)
    if not allowed.any():
        return None
    values = instance.worths[np.arange(len(instance.worths)), choices].sum(axis=1)
    return float(values[allowed].max())


def best_by_highs(instance: Instance, gap: float = 0.0, time_limit_s: float = 600.0) -> tuple[float, float] | None:
    """Solve the whole sparse programme; its value and what it proved, None if it is infeasible."""
    n, m = instance.worths.shape
    rows, place = np.repeat(np.arange(n), m), np.arange(n * m)
    each_once = csr_array((np.ones(n * m), (rows, place)), shape=(n, n * m))
    coupled, bounds = [], []
    for each in instance.constraints:
        counts = np.ones((n, m)) if each.use is None else np.array(instance.uses[each.use])
        counts[(instance.groups != each.group) & (each.group is not None)] = 0.0
        if each.classifier is not None:
            counts[:, np.arange(m) != each.classifier] = 0.0
        scale = float(np.abs(counts).max()) or 1.0
        coupled.append(each.sign * counts.ravel() / scale)
        bounds.append(each.sign * each.bound / scale)
    matrix = vstack([each_once, csr_array(np.reshape(coupled, (len(coupled), n * m)))]).tocsr()
    low = np.append(np.ones(n), np.full(len(coupled), -np.inf))
    solution = milp(
        -instance.worths.ravel(),
        integrality=np.ones(n * m),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, low, np.append(np.ones(n), bounds)),
        options={"mip_rel_gap": gap, "time_limit": time_limit_s},
    )
    if solution.x is None:
        assert solution.status == 2, solution.message
        return None
    return -float(solution.fun), -float(solution.mip_dual_bound)


def small(seed: int) -> Instance:
    """Draw an instance that can be solved by force, with constraints of any kinds together; half of them of coarse
    numbers, so that bounds are met exactly and choices are equal."""
    rng = np.random.default_rng([seed, 21])
    n, m, labels = int(rng.integers(1, 6)), int(rng.integers(2, 4)), int(rng.integers(1, 3))
    values, costs, tokens = rng.random((n, m)), rng.random((n, m)) * 4, rng.random((n, m)) * 9
    if seed % 2:
        values, costs, tokens = np.rint(8 * values) / 8, np.rint(costs), np.rint(tokens)
    groups = rng.integers(0, labels, n)
    worths = -costs if rng.random() < 0.4 else values - 0.3
    kinds: list[tuple[int | None, int | None, int | None]] = [
        *((use, group, None) for use in range(3) for group in (None, *range(labels))),
        *((use, group, j) for use in (None, 0) for group in (None, 0) for j in range(m)),
    ]
    uses = (costs, tokens, values)
    picked = rng.permutation(len(kinds))[: rng.integers(0, 6)]
    constraints = [_drawn(rng, uses, groups, *kinds[i]) for i in picked.tolist()]
    return Instance(worths, uses, groups, tuple(constraints))


def _drawn(
    rng: np.random.Generator,
    uses: tuple[Floats, ...],
    groups: Int64s,
    use: int | None,
    group: int | None,
    j: int | None,
) -> Constraint:
    counts = np.ones_like(uses[0]) if use is None else uses[use]
    of_them = counts[(groups == group) | (group is None)]
    low, high = (0.0, of_them[:, j].sum()) if j is not None else (of_them.min(axis=1).sum(), of_them.max(axis=1).sum())
    most = bool(rng.random() < 0.6)
    share = rng.uniform(-0.05, 1.0) if not most else rng.uniform(0.0, 1.05)
    bound = low + share * (high - low)
    bound = float(np.rint(bound)) if use is None or rng.random() < 0.5 else float(bound)
    word = "most" if most else "least"
    return Constraint((str(use), str(group), str(j), word), use, bound, most, group, j)


TENANTS = np.array([0.4, 0.25, 0.2, 0.1, 0.05])


def large(seed: int, n: int, *, samples: int | None = None) -> Instance:
    """Draw n queries of 5 tenants to 7 classifiers that are paid by the token, with a budget of all and of each tenant,
    two resources, capacities, a commitment, and a floor of one tenant's accuracy."""
    rng = np.random.default_rng([seed, n, 77])
    values, means = estimates(seed, n, samples=samples, weight=0.0)
    tokens = rng.lognormal(5, 0.8, (n, 1))
    costs = means * tokens / tokens.mean()
    latency = np.array([1, 1.5, 1.2, 3, 2.5, 6, 5]) * rng.lognormal(0, 0.4, (n, 1))
    spent = np.array([1, 1, 1.3, 1.1, 2, 1.5, 1.2]) * tokens
    groups, dearest = rng.choice(len(TENANTS), n, p=TENANTS), costs.max(axis=1)
    constraints = [
        Constraint(("budget",), 0, 0.5 * float(dearest.sum())),
        Constraint(("resources", "latency"), 1, 3.0 * n),
        Constraint(("resources", "tokens"), 2, 1.3 * float(tokens.sum())),
    ]
    for j, share in ((6, 0.35), (5, 0.3), (4, 0.25)):
        constraints.append(Constraint(("classifiers", str(j), "at_most"), None, float(int(share * n)), classifier=j))
    constraints.append(
        Constraint(("classifiers", "0", "at_least"), None, float(int(0.05 * n)), is_upper=False, classifier=0)
    )
    for g in range(len(TENANTS)):
        bound = (0.45 + 0.05 * g) * float(dearest[groups == g].sum())
        constraints.append(Constraint(("groups", str(g), "budget"), 0, bound, group=g))
    least = 0.8 * float((groups == 3).sum())
    constraints.append(Constraint(("groups", "3", "accuracy"), 3, least, is_upper=False, group=3))
    return Instance(values, (costs, latency, spent, values), groups, tuple(constraints))
