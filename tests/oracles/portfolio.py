"""The assignment programme by brute force and as a whole by HiGHS, and seeded instances."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from models.arrays import Floats, Int64s

COSTS = np.array([75.565, 115.515, 148.325, 269.79, 277.44, 510.595, 519.01])
"""What seven classifiers cost a query."""
ACCURACIES = np.array([0.62, 0.66, 0.68, 0.74, 0.75, 0.80, 0.83])
SIGMAS = np.array([0.36135276, 0.35166888, 0.34641345, 0.31772752, 0.33138622, 0.30546415, 0.27426407])
"""Deviations of the seven accuracy estimates: the dearer the classifier, the surer."""


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """An assignment, and what is proved: bound is at least what any is worth."""

    choice: Int64s
    value: float
    bound: float


def savings(values: Floats, choice: Int64s) -> float:
    return math.fsum(values[np.arange(len(choice)), choice].tolist())


def price(costs: Floats, choice: Int64s) -> float:
    """Add up what an assignment costs, rounded once; costs (m,) or (n, m)."""
    return math.fsum(np.broadcast_to(costs, (len(choice), costs.shape[-1]))[np.arange(len(choice)), choice].tolist())


def _affordable(values: Floats, costs: Floats, budget: float) -> Iterator[tuple[float, ...]]:
    """Go through all assignments within the budget: the values of their queries."""
    table = np.broadcast_to(costs, values.shape)
    worths = itertools.product(*values.tolist())
    paid = itertools.product(*table.tolist())
    return (gained for gained, spent in zip(worths, paid, strict=True) if math.fsum(spent) <= budget)


def brute_force(values: Floats, costs: Floats, budget: float) -> float | None:
    """Try all assignments; the best value within the budget, or None if there is none."""
    return max((math.fsum(gained) for gained in _affordable(values, costs, budget)), default=None)


def brute_force_min(values: Floats, costs: Floats, budget: float) -> tuple[float, float] | None:
    """Try all assignments; the largest least value and with it the largest sum, or None if there is none."""
    return max(((min(gained), math.fsum(gained)) for gained in _affordable(values, costs, budget)), default=None)


def highs(values: Floats, costs: Floats, budget: float, gap: float = 0.0, time_limit_s: float = 300.0) -> Best:
    """Solve the whole sparse programme, (n m) binary variables and n + 1 rows, to a relative gap."""
    n, m = values.shape
    rows = np.concatenate([np.repeat(np.arange(n), m), np.full(n * m, n)])
    columns = np.tile(np.arange(n * m), 2)
    entries = np.concatenate([np.ones(n * m), np.broadcast_to(costs, (n, m)).ravel()])
    matrix = coo_array((entries, (rows, columns)), shape=(n + 1, n * m)).tocsr()
    solution = milp(
        -values.ravel(),
        integrality=np.ones(n * m),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, np.append(np.ones(n), -np.inf), np.append(np.ones(n), budget)),
        options={"mip_rel_gap": gap, "time_limit": time_limit_s},
    )
    assert solution.x is not None, solution.message
    assert solution.mip_dual_bound is not None
    choice = solution.x.reshape(n, m).argmax(axis=1)
    return Best(choice, savings(values, choice), -float(solution.mip_dual_bound))


def estimates(seed: int, n: int, *, samples: int | None = 40, weight: float = 5.0, m: int = 7) -> tuple[Floats, Floats]:
    """Draw the values and costs of n queries: accuracies that depend on the query, less ``weight`` deviations.

    samples: values are means of so many right or wrong answers, of which there are few different ones; None: the
    probabilities themselves. m: of other classifiers than the seven.
    """
    rng = np.random.default_rng([seed, n, m])
    costs = COSTS if m == 7 else np.sort(rng.uniform(10, 500, m)).round(3)
    places = np.linspace(0, 6, m)
    accuracies, sigmas = (np.interp(places, np.arange(7), each) for each in (ACCURACIES, SIGMAS))
    likely = np.log(accuracies / (1 - accuracies)) + rng.normal(0, 1.2, (n, 1)) + rng.normal(0, 0.8, (n, m))
    probabilities = 1 / (1 + np.exp(-likely))
    right = probabilities if samples is None else rng.binomial(samples, probabilities) / samples
    return right - weight * sigmas, costs
