"""EMSCO and its peers on the paper's data: ``parsimony bench pipeline`` (EMSCO, Section 4.4, Figures 9 to 13).

Accuracy of what is answered, coverage, cost and correct answers of EMSCO, the exact front, and a single stage. Each
data set is cut several times: half of the rows are trained on, a quarter is chosen by, a quarter is reported on. CPU
seconds are of choosing, on one thread, all classifiers trained before.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from models.arrays import Floats, Int8s, Int32s, UInt64s
from solvers.learners.table_preparation import Preparation
from solvers.pipeline.answer_bank import AnswerBank
from solvers.pipeline.classifiers import Learner
from solvers.pipeline.emsco import EvolutionSettings, evolve_front
from solvers.pipeline.exact_front import find_packed_front
from solvers.pipeline.objectives import Evaluator, compute_inverse_cost
from solvers.pipeline.unit_costs import UnitCosts
from tests.bench.cascade import shown, table

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SHARES = (0.5, 0.25, 0.25)
"""Rows to train, to choose and to report on."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A data set, and what the paper uses on it. exact_stages: of the exact front; the paper's findings as text."""

    file: str
    costs: Floats
    categorical: tuple[int, ...]
    threshold: float
    settings: EvolutionSettings
    exact_stages: int
    paper: str


CASES = {
    "heart": Case(
        "heart_failure.csv", 10.0 ** np.array([1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1]), (), 0.75,
        EvolutionSettings(recombination=0.75), 6, "EMSCO accuracy .851 and the highest coverage of the budgeted",
    ),
    "pima": Case(
        "pima_diabetes.csv", 100.0 * np.array([1, 3, 2, 2, 3, 2, 2, 1]), (), 0.65, EvolutionSettings(), 4,
        "EMSCO accuracy .701, costs 80 % less than single-stage, the highest coverage of the budgeted",
    ),
    "credit": Case(
        "australian_credit.csv", 10.0 ** np.array([2, 2, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1, 2]),
        (0, 3, 4, 5, 7, 8, 10, 11), 0.75, EvolutionSettings(beta=2.5), 4,
        "EMSCO accuracy .82, costs 79 % less than single-stage",
    ),
}  # fmt: skip
"""Tables 3, 4 and 6; the exact front of credit has fewer stages than EMSCO's 7, of which there are 3 · 10^11."""


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

        path = SHARED / case.file
        if not path.exists():
            raise SystemExit(f"{case.file} not found in shared/data next to the repository; this benchmark needs it")
        cells = np.genfromtxt(path, delimiter=",", skip_header=1)
        values, labels = cells[:, :-1], cells[:, -1].astype(np.int32)
        rest, places = np.arange(len(labels)), []
        for i in range(len(SHARES) - 1):
            share = SHARES[i] / sum(SHARES[i:])
            own, rest = train_test_split(rest, train_size=share, stratify=labels[rest], random_state=seed)
            places.append(own)
        places.append(rest)
        n = len(case.costs)
        preparation = Preparation.fit(values[places[0]], np.isin(np.arange(n), case.categorical))
        ends = np.cumsum([0, *preparation.widths]).tolist()
        tables = [preparation.apply(values[part]) for part in places]
        columns = tuple(tuple(range(ends[i], ends[i + 1])) for i in range(n))
        parts = [labels[part] for part in places]
        learner = Learner(tables[0], parts[0], int(labels.max()) + 1, columns, None, 1.0, ())
        return cls(case, learner, tables, parts)

    def evaluator(self, part: int, threshold: float | None = None) -> Evaluator:
        """Evaluate on a part, at the case's threshold unless another is given."""

        def answers(masks: UInt64s) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
            confidence, codes = self.learner.train_and_predict(self.tables[part], masks)
            return confidence.astype(np.float32), codes

        bank = AnswerBank(answers, self.labels[part], classes=self.learner.classes)
        prices = UnitCosts.from_costs(self.case.costs, len(self.labels[part]))
        return Evaluator(bank, prices, self.case.threshold if threshold is None else threshold)


def evolved(prepared: Prepared, seed: int) -> Int8s:
    """Run EMSCO with half as many stages as features: the fittest of its last generation."""
    case, stages = prepared.case, -(-len(prepared.case.costs) // 2)
    front = evolve_front(
        prepared.evaluator(1), len(case.costs), stages, case.settings, np.random.default_rng(seed)
    ).front
    return front.chromosomes[:1]


def exact(prepared: Prepared, seed: int) -> Int8s:
    """Take from the exact front what would be fittest; all of it has the same rank."""
    case, answers = prepared.case, prepared.evaluator(1).answers
    words = answers.get_lattice(np.arange(len(case.costs)), case.threshold)
    front = find_packed_front(*words, answers.rows, case.costs, case.exact_stages)
    norms = front.coverage**2 + front.accuracy**2 + compute_inverse_cost(front.cost) ** 2
    return front.chromosomes[[int(np.argmax(norms))]]


def single_stage(prepared: Prepared, seed: int) -> Int8s:
    return np.zeros((1, len(prepared.case.costs)), dtype=np.int8)


METHODS: dict[str, Callable[[Prepared, int], Int8s]] = {
    "EMSCO": evolved,
    "exact": exact,
    "single stage": single_stage,
}


def measure_split(case: Case, seed: int) -> dict[str, Achieved]:
    prepared = Prepared.cut(case, seed)
    prepared.evaluator(1).answers.get_lattice(np.arange(len(case.costs)), case.threshold)  # all classifiers are trained
    achieved = {}
    for name, method in METHODS.items():
        start = time.process_time()
        genes = method(prepared, seed)
        seconds = time.process_time() - start
        scores = prepared.evaluator(2, 0.0 if name == "single stage" else None)(genes)
        accuracy, coverage, cost, right = scores.accuracy[0], scores.coverage[0], scores.cost[0], scores.right[0]
        achieved[name] = Achieved(float(accuracy), float(coverage), float(cost), float(right), seconds)
    return achieved


def report(name: str, splits: int) -> Iterator[Table | str]:
    runs = [measure_split(CASES[name], seed) for seed in range(splits)]
    made = table(
        f"{name}, p = {CASES[name].threshold}: {splits} splits, means ±95 % margin; share: of the single stage's cost",
        "method", "accuracy %", "coverage %", "cost", "share", "correct", "CPU",
    )  # fmt: skip
    single = np.mean([run["single stage"].cost for run in runs])
    for method in METHODS:
        accuracy, coverage, cost, right, seconds = np.array([run[method] for run in runs]).T
        cells = [_with_margin(100 * accuracy), _with_margin(100 * coverage), f"{cost.mean():.0f}"]
        made.add_row(method, *cells, f"{cost.mean() / single:.0%}", _with_margin(right), shown(float(seconds.mean())))
    yield made
    yield f"The paper: {CASES[name].paper}.\n"


def _with_margin(values: Floats) -> str:
    """Write a mean, with half the width of its 95 % interval (normal) if there are several values."""
    off = f" ±{1.96 * values.std(ddof=1) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{off}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench pipeline", description=__doc__)
    parser.add_argument("--names", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--splits", type=int, default=6, help="the paper has 50")
    chosen = parser.parse_args(arguments)
    console = Console()
    with threadpool_limits(1):
        for name in chosen.names:
            for part in report(name, chosen.splits):
                console.print(part, highlight=False)


if __name__ == "__main__":
    main()
