"""EMSCO beside its rivals (Section 4.4, Figures 9 to 13): coverage, conclusive accuracy, cost, correct answers.

The paper cuts each data set once and runs EMSCO fifty times; here each data set is cut several times, with one run
each, so that margins tell of the rows too, of all methods. Half of the rows are trained on, a quarter is chosen by, a
quarter is reported on. What EMSCO and the exact front offer is their fittest configuration, as in the paper.

Not here: CSTC*, which needs its authors' code.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import joblib
import numpy as np
from rich.table import Table
from threadpoolctl import threadpool_limits

from models.arrays import Floats, Int8s
from solvers.pipeline.emsco import evolve
from solvers.pipeline.objectives import inverse_cost
from tests.bench._pipeline_data import CASES, QUARTERS, Case, Prepared
from tests.bench._pipeline_miser import Achieved, Rows, miser
from tests.bench._pipeline_speed import enumerate_all
from tests.bench.cascade import table

EXACT_STAGES = {"heart": 6, "pima": 4, "credit": 4}
"""Stages of the exact front; for Credit fewer than EMSCO's 7, of which there are 3 · 10^11 configurations."""
METHODS = ("EMSCO", "exact", "n-stage", "GM-like", "single-stage")
TOLD = {
    "heart": "EMSCO accuracy .851 and the highest coverage of the budgeted; GM* costs 81 % less than single-stage",
    "pima": "EMSCO accuracy .701, costs 80 % less than single-stage, the highest coverage of the budgeted",
    "credit": "EMSCO accuracy .82, costs 79 % less than single-stage",
    "synthetic30": "EMSCO costs 62 % less than single-stage; GM* accuracy .442",
}
"""What the paper's text tells; the figures' numbers are not in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """What each method achieved on one data set: (splits, 4) accuracy, coverage, cost, correct answers; the number of
    test rows."""

    name: str
    methods: dict[str, Floats]
    rows: int


def study(splits: dict[str, int]) -> list[Study]:
    """Run all methods on so many splits of each data set."""
    jobs = [(name, seed) for name in splits for seed in range(splits[name])]
    order = sorted(jobs, key=lambda job: job[0] != "synthetic30")  # the longest first
    done = dict(zip(order, joblib.Parallel(n_jobs=2)(joblib.delayed(once)(*job) for job in order), strict=True))
    return [_gathered(name, [done[name, seed] for seed in range(splits[name])]) for name in splits]


def once(name: str, seed: int) -> tuple[dict[str, Achieved], int]:
    """Run all methods on one split: what each achieved, and how many test rows there are."""
    with threadpool_limits(1):
        prepared = Prepared.cut(CASES[name](), QUARTERS, seed)
        case, rows = prepared.case, len(prepared.labels[2])
        achieved = {"EMSCO": _tested(prepared, _evolved(prepared, seed))}
        if name in EXACT_STAGES:
            achieved["exact"] = _tested(prepared, _exact(prepared, EXACT_STAGES[name]))
        achieved["n-stage"] = _tested(prepared, cost_ordered(case.costs))
        parts = [Rows(table, labels) for table, labels in zip(prepared.tables, prepared.labels, strict=True)]
        learner = prepared.learner
        achieved["GM-like"] = miser(parts, learner.columns, case.costs, learner.classes, case.threshold)
        achieved["single-stage"] = _tested(prepared, np.zeros((1, case.features), dtype=np.int8), threshold=0.0)
    return achieved, rows


def _evolved(prepared: Prepared, seed: int) -> Int8s:
    """Run EMSCO with half as many stages as features: the fittest of its last generation."""
    case = prepared.case
    evolved = evolve(
        prepared.evaluator(1), case.features, -(-case.features // 2), case.settings, np.random.default_rng(seed)
    )
    return evolved.front.chromosomes[:1]


def _exact(prepared: Prepared, stages: int) -> Int8s:
    """Take from the exact front what would be fittest; all of it has the same rank."""
    _, _, _, front = enumerate_all(prepared, stages)
    norms = front.coverage**2 + front.accuracy**2 + inverse_cost(front.cost) ** 2
    return front.chromosomes[[int(np.argmax(norms))]]


def cost_ordered(costs: Floats) -> Int8s:
    """Give each feature a stage of its own, the cheapest first, equals in order."""
    return np.argsort(np.argsort(costs, kind="stable"))[None].astype(np.int8)


def _tested(prepared: Prepared, genes: Int8s, threshold: float | None = None) -> Achieved:
    scores = prepared.evaluator(2, threshold)(genes)
    return Achieved(float(scores.accuracy[0]), float(scores.coverage[0]), float(scores.cost[0]), int(scores.right[0]))


def _gathered(name: str, runs: Sequence[tuple[dict[str, Achieved], int]]) -> Study:
    methods = {
        method: np.array(
            [(a.accuracy, a.coverage, a.cost, a.right) for a in (achieved[method] for achieved, _ in runs)]
        )
        for method in METHODS
        if method in runs[0][0]
    }
    return Study(name, methods, runs[0][1])


def margin(values: Floats) -> float:
    """Give half the width of the 95 % interval of the mean (normal); 0 for one value."""
    return float(1.96 * values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def report(studies: Sequence[Study]) -> Iterator[Table | str]:
    """Print a table for each data set, and what the paper says of its own."""
    for one in studies:
        splits = len(one.methods["EMSCO"])
        case = CASES[one.name]()
        made = table(
            f"{one.name}, p = {case.threshold}: splits: {splits}, means ±95 % margin; {one.rows} test rows; "
            "share: of the single stage's cost",
            "method (k)", "accuracy %", "coverage %", "cost", "share", "correct",
        )  # fmt: skip
        single = one.methods["single-stage"][:, 2].mean()
        for method, values in one.methods.items():
            accuracy, coverage, cost, right = values.T
            cells = (
                _shown(100 * accuracy, 1),
                _shown(100 * coverage, 1),
                _shown(cost, 0),
                f"{cost.mean() / single:.0%}",
                _shown(right, 1),
            )
            made.add_row(_named(one, case, method), *cells)
        yield made
        yield f"The paper: {TOLD[one.name]}.\n"


def _shown(values: Floats, digits: int) -> str:
    """Write a mean, with its margin if there are more values than one."""
    off = f" ±{margin(values):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{off}"


def _named(one: Study, case: Case, method: str) -> str:
    stages = {"EMSCO": -(-case.features // 2), "exact": EXACT_STAGES.get(one.name)}
    return f"{method} ({stages[method]})" if method in stages else method
