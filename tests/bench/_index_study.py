"""The synthetic study of *Indexing Cost Sensitive Prediction*: instances, and Metrics 1 to 4 measured on them.

The paper's ranges and formulas are lost in the text that we have; these are our choices, and all are seeded:

- what a feature costs at size n: c0 + c1 n + c2 n², each coefficient uniform from 0 to ``COEFFICIENTS``, so that the
  terms are of equal weight near n = ``TRAINING_SIZE``, where greedy sequences weigh cost, and curves often cross there;
- what a feature tells alone: with probability p it is helpful, its accuracy uniform in ``HELPFUL``, else in ``OTHER``;
  two classes are equally common, so that guessing is right in half of all cases;
- what a set tells: with e = 2 (1 - accuracy) for each feature, 1 for a coin and 0 for an oracle, and e1 the least,
  A(s) = 1 - e1 · (product of the other e)^w / 2. The best single feature alone counts for w = 0; for w = 1 errors
  multiply, and every feature adds something. A is monotone for any w.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, log
from typing import Any

import numpy as np

from models.arrays import Floats
from models.index import IndexDecision, IndexOptions, IndexQuery, Method
from solvers.index.assemble import Built, lambdas_of, plan_without_models
from solvers.index.baselines import size_if_all, size_of
from solvers.index.costs import Costs
from solvers.index.greedy import greedy_sequences
from solvers.index.plan import IndexPlan

COEFFICIENTS = (1000.0, 10.0, 0.1)
HELPFUL, OTHER, CHANCE = (0.7, 0.9), (0.5, 0.6), 0.5
PROBABILITY = 0.2
COMBINERS = (0.0, 1.0)
ALPHAS = (0.0, 0.1)
TRAINING_SIZE, TEST_SIZE = 100.0, 400.0
SIZES = (1.0, 500.0)
COUNTS = (1, 2, 4, 6, 8, 10, 12, 13, 14, 15)
PROBABILITIES = (0.1, 0.3, 0.5, 0.7, 0.9)
REPEATS = 5
ACCURACY_FEATURES, ACCURACY_REPEATS = 12, 20
SHARES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Budgets of Metric 4, as shares of what all features cost at the item's size."""
ITEM_SIZES = (10.0, 30.0, TRAINING_SIZE, 200.0, TEST_SIZE)
PLANNED: tuple[tuple[str, float, Method], ...] = (
    ("Poly-Dom 0", 0.0, "poly-dom"),
    (f"Poly-Dom {ALPHAS[1]:g}", ALPHAS[1], "poly-dom"),
    ("Greedy", 0.0, "greedy"),
    ("Greedy-Acc", 0.0, "greedy-acc"),
    ("Greedy-Cost", 0.0, "greedy-cost"),
)
"""Name, alpha of the plan that answers, method."""


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """An instance: what each feature costs, and the accuracy of every set of features, (2^F,)."""

    costs: Costs
    accuracies: Floats
    singles: Floats

    @classmethod
    def draw(cls, seed: int, features: int, combiner: float, probability: float = PROBABILITY) -> "Synthetic":
        """Draw costs and accuracies; the same seed gives the same costs and single features for every combiner."""
        rng = np.random.default_rng([seed, features])
        coefficients = rng.random((features, len(COEFFICIENTS))) * np.array(COEFFICIENTS)
        helpful = rng.random(features) < probability
        singles = np.where(helpful, rng.uniform(*HELPFUL, features), rng.uniform(*OTHER, features))
        costs = Costs(np.arange(len(COEFFICIENTS))[:, None], coefficients)
        return cls(costs, combine(singles, combiner), singles)

    def accuracy(self, masks: Sequence[int]) -> list[float]:
        """Tell the accuracies of sets, as training them would."""
        return [float(each) for each in self.accuracies[list(masks)]]


def names_of(count: int) -> tuple[str, ...]:
    """Name features."""
    return tuple(f"f{i:02}" for i in range(count))


def combine(singles: Floats, weight: float) -> Floats:
    """Combine accuracies of single features into those of all sets, by mask.

    >>> combine(np.array([0.75, 0.875]), 0.0).tolist(), combine(np.array([0.75, 0.875]), 1.0).tolist()
    ([0.5, 0.75, 0.875, 0.875], [0.5, 0.75, 0.875, 0.9375])
    """
    masks = np.arange(1 << len(singles))
    errors = 2 * (1 - singles)
    left = np.ones(len(masks))
    for rank, f in enumerate(np.argsort(errors, kind="stable").tolist()):
        better = np.argsort(errors, kind="stable")[:rank]
        first = (masks & int(np.sum(1 << better))) == 0
        left = np.where(masks >> f & 1, left * np.where(first, errors[f], errors[f] ** weight), left)
    return 1 - (1 - CHANCE) * left


class Counting:
    """Counts the feature sets whose accuracy is asked for, each once."""

    def __init__(self, instance: Synthetic) -> None:
        self.instance = instance
        self.asked: set[int] = set()

    def __call__(self, masks: Sequence[int]) -> list[float]:
        self.asked.update(masks)
        return self.instance.accuracy(masks)


def lambdas_used(instance: Synthetic) -> list[float]:
    """List the greedy weights of cost, as a build does that is given none."""
    prices = instance.costs.at(instance.costs.coefficients, (TRAINING_SIZE,))
    return [float(weight) for weight in lambdas_of(None, prices)]


def greedily_expanded(instance: Synthetic, lambdas: Sequence[float]) -> int:
    """Count the feature sets that greedy sequences of these λ expand."""
    prices = instance.costs.at(instance.costs.coefficients, (TRAINING_SIZE,))
    counting = Counting(instance)
    greedy_sequences(counting, prices, lambdas, names_of(len(instance.singles)))
    return len(counting.asked)


def build(instance: Synthetic, alpha: float) -> Built:
    """Build as from a table, where training is a look at the accuracies."""
    return plan_without_models(instance.accuracy, instance.costs, IndexOptions(alpha=alpha), (TRAINING_SIZE,))


Way = tuple[Callable[..., object], Sequence[tuple[Any, ...]]]
"""What to call, and the arguments of all calls."""


def per_call(ways: Sequence[Way], batches: int) -> list[list[float]]:
    """Measure seconds for one call, for each way the averages of several batches.

    The ways take turns, batch by batch, so that what slows the machine down for a while slows down all of them.
    """
    averages: list[list[float]] = [[] for _ in ways]
    for batch in range(batches):
        for (function, calls), times in zip(ways, averages, strict=True):
            mine = calls[batch::batches]
            start = time.perf_counter()
            for arguments in mine:
                function(*arguments)
            times.append((time.perf_counter() - start) / len(mine))
    return averages


def ask(seed: int, plan: IndexPlan, count: int, sizes: tuple[float, float] = SIZES) -> list[IndexQuery]:
    """Draw queries: size log-uniform in a range, budget uniform up to what all features cost there."""
    rng = np.random.default_rng([seed, 1])
    k = plan.powers.shape[1]
    drawn = np.exp(rng.uniform(log(sizes[0]), log(sizes[1]), (count, k)))
    queries = []
    for size, share in zip(drawn, rng.random(count).tolist(), strict=True):
        whole = float(np.sum(plan.coefficients @ np.prod(size**plan.powers, axis=1)))
        item_size = float(size[0]) if k == 1 else tuple(size.tolist())
        queries.append(IndexQuery(size=item_size, budget=share * whole))
    return queries


def by(method: Method, queries: Sequence[IndexQuery]) -> list[IndexQuery]:
    """Put the same questions to another method."""
    return [IndexQuery(size=query.size, budget=query.budget, method=method) for query in queries]


@dataclass(slots=True)
class Measured:
    """Metrics 1 to 3 for one number of features and one combiner: a value for each instance."""

    expanded: dict[float, list[int]] = field(default_factory=dict)
    greedy: dict[str, list[int]] = field(default_factory=dict)
    candidates: dict[float, list[int]] = field(default_factory=dict)
    points: dict[float, list[int]] = field(default_factory=dict)
    entries: dict[float, list[int]] = field(default_factory=dict)
    points_if_all: dict[float, list[int]] = field(default_factory=dict)
    entries_if_all: dict[float, list[int]] = field(default_factory=dict)
    seconds: dict[tuple[str, float], list[float]] = field(default_factory=dict)


def measure(features: int, combiner: float, probability: float = PROBABILITY, *, timed: bool = True) -> Measured:
    """Build several instances with each alpha, and measure."""
    measured = Measured()
    for seed in range(REPEATS):
        instance = Synthetic.draw(seed, features, combiner, probability)
        lambdas = lambdas_used(instance)
        for name, weights in (("Greedy", lambdas), ("Greedy-Acc", [0.0]), ("Greedy-Cost", [inf])):
            measured.greedy.setdefault(name, []).append(greedily_expanded(instance, weights))
        for alpha in ALPHAS:
            built = build(instance, alpha)
            measured.expanded.setdefault(alpha, []).append(len(built.expanded.masks))
            measured.candidates.setdefault(alpha, []).append(len(built.plan.candidates))
            kept, if_all = size_of(built.index), size_if_all(built.index)
            measured.points.setdefault(alpha, []).append(kept.points)
            measured.entries.setdefault(alpha, []).append(kept.entries)
            measured.points_if_all.setdefault(alpha, []).append(if_all.points)
            measured.entries_if_all.setdefault(alpha, []).append(if_all.entries)
            if timed:
                for what, seconds in look_up_times(built.plan, seed).items():
                    measured.seconds.setdefault((what, alpha), []).append(seconds)
    return measured


def look_up_times(plan: IndexPlan, seed: int, count: int = 300) -> dict[str, float]:
    """Measure Metric 3: seconds for one decision by each method, the median of a few batches."""
    queries = ask(seed, plan, count)
    methods: tuple[Method, ...] = ("poly-dom", "naive", "greedy")
    ways = [(plan.decide, [(query,) for query in by(method, queries)]) for method in methods]
    return dict(zip(methods, map(statistics.median, per_call(ways, 5)), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Metric 4 for one combiner and item size: accuracies (instances, budgets), also of the best set."""

    accuracies: dict[str, Floats]
    optimum: Floats


def measure_accuracy(combiner: float, sizes: Sequence[float] = ITEM_SIZES) -> dict[float, Curve]:
    """Ask every method for every budget, at each item size, and check the guarantee against all 2^F sets."""
    accuracies = {size: {name: np.empty((ACCURACY_REPEATS, len(SHARES))) for name, _, _ in PLANNED} for size in sizes}
    optima = {size: np.empty((ACCURACY_REPEATS, len(SHARES))) for size in sizes}
    for seed in range(ACCURACY_REPEATS):
        instance = Synthetic.draw(100 + seed, ACCURACY_FEATURES, combiner)
        plans = {alpha: build(instance, alpha).plan for alpha in ALPHAS}
        curves = instance.costs.of_sets(np.arange(1 << ACCURACY_FEATURES, dtype=np.int64))
        for size in sizes:
            every = instance.costs.at(curves, (size,))
            for i, share in enumerate(SHARES):
                budget = float(every[-1]) * share
                best = float(instance.accuracies[every <= budget].max())
                optima[size][seed, i] = best
                for name, alpha, method in PLANNED:
                    decision = plans[alpha].decide(IndexQuery(size=size, budget=budget, method=method))
                    check(decision, best, alpha if method == "poly-dom" else inf, budget)
                    accuracies[size][name][seed, i] = decision.accuracy
    return {size: Curve(accuracies[size], optima[size]) for size in sizes}


def check(decision: IndexDecision, best: float, alpha: float, budget: float) -> None:
    """Fail if an answer costs more than the budget, or is further from the best than its alpha allows."""
    if decision.cost > budget:
        raise AssertionError(f"{decision.features} cost {decision.cost}, the budget is {budget}")
    if (1 + alpha) * decision.accuracy < best:
        raise AssertionError(f"{decision.features}: {decision.accuracy} against {best}, alpha = {alpha}")


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """All that was measured: by (combiner, features), by (combiner, probability), by combiner and item size."""

    metrics: dict[tuple[float, int], Measured]
    by_probability: dict[tuple[float, float], Measured]
    accuracy: dict[float, dict[float, Curve]]


def study(announce: Callable[[str], None]) -> Study:
    """Run the whole study."""
    metrics, by_probability, accuracy = {}, {}, {}
    for combiner in COMBINERS:
        for features in COUNTS:
            announce(f"combiner {combiner:g}, {features} features")
            metrics[combiner, features] = measure(features, combiner)
        for probability in PROBABILITIES:
            announce(f"combiner {combiner:g}, p = {probability:g}")
            by_probability[combiner, probability] = measure(10, combiner, probability, timed=False)
        announce(f"combiner {combiner:g}, accuracy against budget")
        accuracy[combiner] = measure_accuracy(combiner)
    return Study(metrics, by_probability, accuracy)
