"""EMSCO's experiments: ``parsimony bench pipeline`` (EMSCO, Section 4, Table 7 and Figures 9 to 13).

Accuracy of what is answered, coverage, cost and correct answers of EMSCO, the exact front, n stages by rising cost, and
a single stage. Each data set is cut several times: half of the rows are trained on, a quarter is chosen by, a quarter
is reported on. CPU seconds are of choosing, on one thread.

``--fronts``: sizes of the exact fronts of 2 to 4 stages, and the share of each that EMSCO finds in 150 generations.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Printed
from threadpoolctl import threadpool_limits

from models.arrays import Floats, Int8s, Int32s, UInt64s
from solvers.learners.table_preparation import Preparation
from solvers.pipeline.answer_cache import AnswerCache
from solvers.pipeline.classifiers import Learner
from solvers.pipeline.configurations import Frontier
from solvers.pipeline.emsco import EvolutionSettings, evolve_front
from solvers.pipeline.exact_front import find_packed_front
from solvers.pipeline.objectives import Evaluator, compute_inverse_cost
from solvers.pipeline.unit_costs import FixedPointCosts
from tests.bench._keel import Table, load_table
from tests.bench.cascade import mean_with_margin, shown, table

SHARES = (0.5, 0.25, 0.25)
"""Rows to train, to choose and to report on."""
LARGEST_EXACT = 14
"""Features up to which the exact front is computed."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A data set, and what the paper uses on it. exact_stages: of the exact front; the paper's findings as text."""

    table: Callable[[], Table]
    costs: Floats
    nominal: tuple[int, ...]
    threshold: float
    settings: EvolutionSettings
    exact_stages: int
    paper: str


def draw_synthetic30() -> Table:
    """Draw 1,000 rows of three classes and 30 features, 25 of them informative (Section 4.2.3)."""
    from sklearn.datasets import make_classification

    values, labels = make_classification(1000, 30, n_informative=25, n_redundant=5, n_classes=3, random_state=0)
    return Table(values, labels.astype(np.int32), ("0", "1", "2"), ())


def rank_importances(table: Table, classes: int) -> Floats:
    """Return each feature's cost class, from 1, by its percentile of Gini importance."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(200, random_state=0).fit(table.values, table.labels)
    ranks = forest.feature_importances_.argsort().argsort()
    return np.asarray(1.0 + ranks * classes // len(ranks))


SYNTHETIC = draw_synthetic30()
CASES = {
    "heart": Case(
        partial(load_table, "heart"), 10.0 ** np.array([1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]), (2, 6, 12), 0.75,
        EvolutionSettings(recombination=0.75), 4, "EMSCO: accuracy 85.1 %",
    ),
    "pima": Case(
        partial(load_table, "pima"), 100.0 * np.array([1, 3, 2, 2, 3, 2, 2, 1]), (), 0.65, EvolutionSettings(), 4,
        "EMSCO: accuracy 70.1 %, cost 80 % below the single stage",
    ),
    "credit": Case(
        partial(load_table, "australian"), 10.0 ** np.array([2, 2, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1, 2]),
        (0, 3, 4, 5, 7, 8, 10, 11), 0.75, EvolutionSettings(beta=2.5), 4,
        "EMSCO: accuracy 82 %, cost 79 % below the single stage",
    ),
    "synthetic30": Case(
        lambda: SYNTHETIC, 100.0 * rank_importances(SYNTHETIC, 5), (), 0.65,
        EvolutionSettings(mutation=0.05, beta=2.5), 4, "EMSCO: cost 62 % below the single stage",
    ),
}  # fmt: skip
"""Tables 3 to 6; the costs of heart, which is not the paper's set, follow the rule of Table 3."""


class Achieved(NamedTuple):
    """What a method achieves on the rows that are reported on."""

    accuracy: float
    coverage: float
    cost: float
    right: float
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A case whose rows are cut into parts, the first of which is trained on."""

    case: Case
    learner: Learner
    tables: Sequence[Floats]
    labels: Sequence[Int32s]

    @classmethod
    def cut(cls, case: Case, seed: int) -> "Prepared":
        """Cut the rows at random, keeping the shares of the classes, and prepare the cells by the first part."""
        from sklearn.model_selection import train_test_split

        held = case.table()
        values, labels = held.values, held.labels
        rest, places = np.arange(len(labels)), []
        for i in range(len(SHARES) - 1):
            share = SHARES[i] / sum(SHARES[i:])
            own, rest = train_test_split(rest, train_size=share, stratify=labels[rest], random_state=seed)
            places.append(own)
        places.append(rest)
        n = len(case.costs)
        preparation = Preparation.fit(values[places[0]], np.isin(np.arange(n), case.nominal))
        ends = np.cumsum([0, *preparation.widths]).tolist()
        tables = [preparation.apply(values[part]) for part in places]
        columns = tuple(tuple(range(ends[i], ends[i + 1])) for i in range(n))
        parts = [labels[part] for part in places]
        learner = Learner(tables[0], parts[0], int(labels.max()) + 1, columns, None, 1.0, (), None)
        return cls(case, learner, tables, parts)

    def evaluator(self, part: int, threshold: float | None = None) -> Evaluator:
        """Evaluate on a part, at the case's threshold unless another is given."""

        def answers(masks: UInt64s) -> tuple[NDArray[np.float32], NDArray[np.integer]]:
            confidence, codes = self.learner.train_and_predict(self.tables[part], masks)
            return confidence.astype(np.float32), codes

        bank = AnswerCache(answers, self.labels[part], classes=self.learner.classes)
        prices = FixedPointCosts.from_costs(self.case.costs, len(self.labels[part]))
        return Evaluator(bank, prices, self.case.threshold if threshold is None else threshold)


def evolved(prepared: Prepared, seed: int) -> Int8s:
    """Run EMSCO with half as many stages as features: the fittest of its last generation."""
    case, stages = prepared.case, -(-len(prepared.case.costs) // 2)
    front = evolve_front(
        prepared.evaluator(1), len(case.costs), stages, case.settings, np.random.default_rng(seed)
    ).front
    return front.chromosomes[:1]


def find_exact(prepared: Prepared, stages: int) -> Frontier:
    case, answers = prepared.case, prepared.evaluator(1).answers
    words = answers.get_lattice(np.arange(len(case.costs)), case.threshold)
    return find_packed_front(*words, answers.rows, case.costs, stages)


def exact(prepared: Prepared, seed: int) -> Int8s:
    """Take from the exact front what would be fittest; all of it has the same rank."""
    front = find_exact(prepared, prepared.case.exact_stages)
    norms = front.coverage**2 + front.accuracy**2 + compute_inverse_cost(front.cost) ** 2
    return front.chromosomes[[int(np.argmax(norms))]]


def by_cost(prepared: Prepared, seed: int) -> Int8s:
    """Acquire one feature per stage, the cheapest first."""
    costs = prepared.case.costs
    return np.argsort(np.argsort(costs, kind="stable"))[None].astype(np.int8)


def single_stage(prepared: Prepared, seed: int) -> Int8s:
    return np.zeros((1, len(prepared.case.costs)), dtype=np.int8)


METHODS: dict[str, Callable[[Prepared, int], Int8s]] = {
    "EMSCO": evolved,
    "exact": exact,
    "n stages": by_cost,
    "single stage": single_stage,
}


def measure_split(case: Case, seed: int) -> dict[str, Achieved]:
    prepared, achieved = Prepared.cut(case, seed), {}
    for name, method in METHODS.items():
        if name == "exact" and len(case.costs) > LARGEST_EXACT:
            continue
        start = time.process_time()
        genes = method(prepared, seed)
        seconds = time.process_time() - start
        scores = prepared.evaluator(2, 0.0 if name == "single stage" else None)(genes)
        accuracy, coverage, cost, right = scores.accuracy[0], scores.coverage[0], scores.cost[0], scores.right[0]
        achieved[name] = Achieved(float(accuracy), float(coverage), float(cost), float(right), seconds)
    return achieved


def report(name: str, splits: int) -> Iterator[Printed | str]:
    runs = [measure_split(CASES[name], seed) for seed in range(splits)]
    made = table(
        f"{name}, p = {CASES[name].threshold}: {splits} splits, means ±95 % margin; saved: of the single stage's cost",
        "method", "accuracy %", "coverage %", "cost", "saved %", "correct", "CPU",
    )  # fmt: skip
    single = np.array([run["single stage"].cost for run in runs])
    for method in runs[0]:
        accuracy, coverage, cost, right, seconds = np.array([run[method] for run in runs]).T
        cells = [mean_with_margin(100 * accuracy), mean_with_margin(100 * coverage), f"{cost.mean():.0f}"]
        made.add_row(
            method,
            *cells,
            mean_with_margin(100 - 100 * cost / single),
            mean_with_margin(right),
            shown(float(seconds.mean())),
        )
    yield made
    yield f"The paper: {CASES[name].paper}.\n"


def count_found(prepared: Prepared, stages: int, seed: int) -> tuple[int, int]:
    """Count the members of the exact front on the validation rows, and those that a run of EMSCO finds."""
    front, case, rng = find_exact(prepared, stages), prepared.case, np.random.default_rng(seed)
    members = set(zip(front.coverage.tolist(), front.accuracy.tolist(), (-front.cost).tolist(), strict=True))
    scores = evolve_front(prepared.evaluator(1), len(case.costs), stages, case.settings, rng).front.scores
    return len(members), len(members & set(map(tuple, scores.stack_objectives().tolist())))


def report_fronts(name: str, splits: int) -> Printed:
    made = table(f"{name}: mean of {splits} splits ±95 % margin", "stages", "exact front", "found", "found %")
    prepared = [Prepared.cut(CASES[name], seed) for seed in range(splits)]
    for stages in (2, 3, 4):
        counts = np.array([count_found(one, stages, seed) for seed, one in enumerate(prepared)], dtype=np.float64)
        sizes, found = counts.T
        made.add_row(str(stages), *map(mean_with_margin, (sizes, found, 100 * found / sizes)))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench pipeline", description=__doc__)
    parser.add_argument("--names", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--fronts", action="store_true", help="sizes of exact fronts, and the share that EMSCO finds")
    parser.add_argument("--splits", type=int, default=10, help="the paper has 50 runs, with --fronts 100")
    chosen = parser.parse_args(arguments)
    console = Console()
    with threadpool_limits(1):
        for name in chosen.names:
            if chosen.fronts and len(CASES[name].costs) > LARGEST_EXACT:
                continue
            for part in [report_fronts(name, chosen.splits)] if chosen.fronts else report(name, chosen.splits):
                console.print(part, highlight=False)


if __name__ == "__main__":
    main()
