"""Figure 8: how much of the exact front EMSCO finds, generation by generation (EMSCO, Section 4.3).

Half of the rows are trained on, the other half is evaluated by. What counts are different vectors of objectives, for
the exact front has one configuration of each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import joblib
import numpy as np
from rich.table import Table
from threadpoolctl import threadpool_limits

from models.arrays import Floats
from solvers.pipeline.configurations import Frontier
from solvers.pipeline.emsco import Emsco
from solvers.pipeline.objectives import Evaluator, Scores
from tests.bench._pipeline_data import CASES, HALVES, SEED, Prepared, patient
from tests.bench._pipeline_speed import enumerate_all
from tests.bench.cascade import table

Vectors = set[tuple[float, ...]]

NAMES = ("heart", "pima", "credit")
STAGES = (2, 3, 4)
PATIENCE = 20
TOLD = {
    ("heart", 2): "24", ("heart", 3): "28", ("heart", 4): "33, 2/3",
    ("pima", 2): "18", ("pima", 3): "42", ("pima", 4): "65",
    ("credit", 2): "47", ("credit", 3): "141", ("credit", 4): "171, 10 %",
}  # fmt: skip
"""The paper's front sizes (Table 7), and what its text says of the shares in Figure 8: almost two thirds, just over
10 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Shares of the exact front found: whole (seeds, generations + 1), patience off; patient (seeds,), at the end of a
    run that stops after 20 generations with the same fittest configuration."""

    whole: Floats
    patient: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One panel of the figure: the size of the exact front; what is found with every unique chromosome kept, as in the
    paper, and with one for each vector of objectives."""

    name: str
    stages: int
    size: int
    paper: Found
    distinct: Found


def compare(seeds: int) -> list[Compared]:
    """Run EMSCO so often for each panel."""
    jobs = [(name, stages) for name in NAMES[::-1] for stages in STAGES]
    panels = joblib.Parallel(n_jobs=2)(joblib.delayed(panel)(name, stages, seeds) for name, stages in jobs)
    return sorted(panels, key=lambda one: (NAMES.index(one.name), one.stages))


def panel(name: str, stages: int, seeds: int) -> Compared:
    """Find the exact front of one panel, then run EMSCO against it."""
    with threadpool_limits(1):
        prepared = Prepared.cut(CASES[name](), HALVES, SEED)
        _, evaluator, _, exact = enumerate_all(prepared, stages)
        goal = vectors(exact)
        both = [
            _together([_trace(prepared, evaluator, stages, goal, distinct, seed) for seed in range(seeds)])
            for distinct in (False, True)
        ]
    return Compared(name, stages, len(goal), *both)


def vectors(scored: Frontier | Scores) -> Vectors:
    """Give the different vectors of objectives."""
    rows = np.column_stack((scored.coverage, scored.accuracy, scored.cost)).round(12)
    return {tuple(row) for row in rows.tolist()}


def _trace(
    prepared: Prepared, evaluator: Evaluator, stages: int, goal: Vectors, distinct: bool, seed: int
) -> tuple[Floats, float]:
    """Run once: the share found by generation, and where patience would have ended it. The last one is copied to
    generations that a run does not come to, as in the paper."""
    settings = replace(patient(prepared.case.settings), distinct=distinct)
    run = Emsco(prepared.case.features, stages, settings, np.random.default_rng(seed))
    shares: list[float] = []
    fittest, same, ended = np.zeros(0), 0, -1
    while run.halted is None:
        run.tell(evaluator(run.ask()))
        shares.append(len(goal & vectors(run.front().scores)) / len(goal))
        first = run.current.chromosomes[0]
        same, fittest = (same + 1 if np.array_equal(first, fittest) else 0), first
        if same >= PATIENCE and ended < 0:
            ended = run.generation
    whole = np.array(shares + [shares[-1]] * (settings.generations + 1 - len(shares)))
    return whole, shares[ended]


def _together(runs: Sequence[tuple[Floats, float]]) -> Found:
    return Found(np.array([whole for whole, _ in runs]), np.array([share for _, share in runs]))


def report(panels: Sequence[Compared]) -> Iterator[Table | str]:
    """Print mean shares."""
    seeds, generations = panels[0].paper.whole.shape
    made = table(
        f"Figure 8: share of the exact front found, mean ±deviation of {seeds} runs of at most {generations - 1} "
        f"generations, with the rule that ends a run after {PATIENCE} with the same fittest (stopped) and without "
        "(whole); d.: distinct, one chromosome kept for each vector of objectives; the paper's sizes and shares are of "
        "another split",
        "data, k", "front", "stopped", "whole", "d. stopped", "d. whole", "paper",
    )  # fmt: skip
    for one in panels:
        cells = [_shown(each) for shares in (one.paper, one.distinct) for each in (shares.patient, shares.whole[:, -1])]
        made.add_row(f"{one.name}, {one.stages}", str(one.size), *cells, TOLD[one.name, one.stages])
    yield made


def _shown(shares: Floats) -> str:
    return f"{100 * shares.mean():.0f} ±{100 * shares.std():.0f} %"
