"""How fast: enumeration of all configurations, and evaluations of chromosomes, in seconds of CPU time on one thread."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from models.arrays import Int8s
from solvers.pipeline.configurations import Frontier, configurations, stage_masks
from solvers.pipeline.emsco import Emsco, Settings
from solvers.pipeline.exact_front import frontier_of_words
from solvers.pipeline.objectives import Evaluator
from tests.bench._pipeline_data import HALVES, SCALINGS, SEED, Case, Prepared, cpu, credit, heart, patient, spambase
from tests.bench.cascade import shown, table

ENUMERATED = ((heart, 4, 2.0), (credit, 4, 20.0))
"""Data, k, and the seconds that enumeration may take."""
WITH_TRAINING = 120.0
STAGES, THRESHOLD = 5, 0.75
ROWS = 1_999
"""Training rows of the problem with 15 features; half as many to evaluate."""
KINDS, MOST_STEPS = ("sag", "lbfgs"), 1000
"""Of scikit-learn; the first is what the published code uses."""
ROUGH = 0.02
"""The share of rows by which the refitted models may differ: scikit-learn's fit ends early unless told not to."""


def measure_enumeration() -> Iterator[Table | str]:
    """Train all feature sets on one half, enumerate on the other."""
    made = table(
        "Exact fronts: half of the rows to train, half to evaluate; CPU seconds. Training: logistic "
        "regressions of all feature sets; answers: training too, then what they say of the rows, as bit sets",
        "data, k", "front", "training", "answers", "enumeration", "goal",
    )  # fmt: skip
    sizes = []
    _warm()
    for load, stages, wanted in ENUMERATED:
        prepared = Prepared.cut(load(), HALVES, SEED)
        n = prepared.case.features
        training, _ = cpu(partial(prepared.learner.models, np.arange(1, 1 << n, dtype=np.uint64)))
        answers, _, enumerating, front = enumerate_all(prepared, stages)
        if front.examined + front.pruned != configurations(n, stages):
            raise AssertionError(f"{front.examined} + {front.pruned} configurations of {configurations(n, stages)}")
        met = "met" if enumerating < wanted and answers + enumerating < WITH_TRAINING else "MISSED"
        cells = (shown(training), shown(answers), shown(enumerating), f"{wanted:g} s {met}")
        made.add_row(f"{prepared.case.name}, {stages}", str(len(front.cost)), *cells)
        sizes.append(f"{configurations(n, stages):,} configurations of {prepared.case.name}")
    yield made
    yield f"{' and '.join(sizes)}; with training less than {WITH_TRAINING:.0f} s is wanted.\n"


def enumerate_all(prepared: Prepared, stages: int) -> tuple[float, Evaluator, float, Frontier]:
    """Find the exact front on the second part: seconds to know all answers, the evaluator, seconds to enumerate, and
    what was found."""
    evaluator = prepared.evaluator(1)
    case = prepared.case
    answers, bit_sets = cpu(lambda: evaluator.answers.lattice(np.arange(case.features), case.threshold))
    rows = evaluator.answers.rows
    enumerating, front = cpu(lambda: frontier_of_words(*bit_sets, rows, case.costs, stages))
    return answers, evaluator, enumerating, front


def _warm() -> None:
    """Let the enumeration be compiled."""
    frontier_of_words(np.zeros((4, 1), np.uint64), np.zeros((4, 1), np.uint64), 3, np.ones(2), 2)


@dataclass(frozen=True, slots=True, eq=False)
class Race:
    """A problem to evaluate chromosomes on; generations: of our run; sample: chromosomes that
    are refitted; wanted: how
    many times as many per second; authors_rate: what the authors' code did per second when the targets were set."""

    name: str
    prepared: Prepared
    threshold: float
    generations: int
    sample: int
    wanted: int
    authors_rate: int


def races(short: bool) -> list[Race]:
    """Make both problems."""
    from sklearn.datasets import make_classification

    half = ROWS // 2
    values, labels = make_classification(ROWS + half, 15, n_informative=8, n_redundant=2, random_state=SEED)
    case = Case("", values, labels.astype(np.int32), np.zeros(15, dtype=bool), np.ones(15), THRESHOLD, Settings())
    made = Prepared.of(case, [np.arange(ROWS), np.arange(ROWS, ROWS + half)])
    wide = spambase(SCALINGS[0])
    return [
        Race(f"15 x {ROWS:,}", made, THRESHOLD, 10 if short else 150, 3 if short else 24, 50, 24),
        Race("57 x 2,300", wide, THRESHOLD, 2 if short else 10, 2 if short else 12, 5, 11),
    ]


def measure_evaluations(short: bool, repeats: int = 3) -> Iterator[Table | str]:
    """Evaluate what runs of EMSCO ask for, refit a sample of it; then all again, trained."""
    problems = races(short)
    generations = " and ".join(str(race.generations) for race in problems)
    made = table(
        f"Chromosome evaluations per CPU second in runs of {generations} generations, k = {STAGES}, population 300: "
        f"median of {repeats} runs (least-most). Refitted: scikit-learn fits a model for each stage of a chromosome, "
        "on a sample of the same ones, with solver sag as the authors' published code, or with lbfgs; times: as many "
        "as refitted",
        "n x rows", "ours", "sag", "times", "lbfgs", "times", "goal",
    )  # fmt: skip
    known = table(
        "The same in thousands per CPU second, all feature sets trained before: objectives alone, and the whole run "
        "with operators and ranking",
        "n x rows", "configurations", "objectives", "whole run", "goal",
    )  # fmt: skip
    said = []
    for race in problems:
        runs = [_run(race, seed) for seed in range(repeats)]
        cells = [around([run.ours for run in runs])]
        for solver in KINDS:
            cells += [around([r.refitted[solver] for r in runs]), around([r.ours / r.refitted[solver] for r in runs])]
        met = "met" if median(run.ours / run.refitted["sag"] for run in runs) >= race.wanted else "MISSED"
        made.add_row(race.name, *cells, f"{race.wanted}" if short else f"{race.wanted} {met}")
        alone, whole = [run.known / 1000 for run in runs], [run.whole / 1000 for run in runs]
        met = "met" if median(alone) > 100 else "MISSED"
        known.add_row(race.name, f"{runs[0].evaluated:,}", around(alone), around(whole), f"100 {met}")
        times = median(run.ours for run in runs) / race.authors_rate
        said.append(f"{times:.0f} times the {race.authors_rate}/s ({race.name})")
    yield made
    yield known
    yield f"Ours is {' and '.join(said)} of the authors' code as measured when the targets were set.\n"


def around(values: list[float]) -> str:
    """Write the median, least and most."""
    return f"{median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


@dataclass(frozen=True, slots=True)
class Ran:
    """Evaluations per second: ours, training included; refitted, by solver; known; of the whole run once all is known.
    evaluated: how many."""

    ours: float
    refitted: dict[str, float]
    known: float
    whole: float
    evaluated: int


def _run(race: Race, seed: int) -> Ran:
    evaluator = race.prepared.evaluator(1, race.threshold)
    settings = patient(Settings(generations=race.generations))
    first, asked = cpu(lambda: evolve_all(evaluator, settings, seed))
    again, _ = cpu(lambda: evolve_all(evaluator, settings, seed))
    known, scores = cpu(lambda: evaluator(asked))
    places = np.random.default_rng(seed).choice(len(asked), race.sample, replace=False)
    ours = np.column_stack((scores.covered, scores.right))[places]
    refitted = {}
    for solver in KINDS:
        seconds, theirs = cpu(partial(_refit, race.prepared, asked[places], race.threshold, solver))
        refitted[solver] = race.sample / seconds
        if np.abs(ours - theirs).max() > ROUGH * scores.rows:
            raise AssertionError(f"seed {seed}, {solver}: refitting covers {theirs.tolist()}, we {ours.tolist()}")
    return Ran(len(asked) / first, refitted, len(asked) / known, len(asked) / again, len(asked))


def _refit(prepared: Prepared, chromosomes: Int8s, threshold: float, solver: str) -> NDArray[np.int64]:
    return np.array([refit(prepared, genes, threshold, solver) for genes in chromosomes])


def evolve_all(evaluator: Evaluator, settings: Settings, seed: int) -> Int8s:
    """Run EMSCO and give everything it asked for."""
    run, asked = Emsco(len(evaluator.unit_costs.of), STAGES, settings, np.random.default_rng(seed)), []
    while run.halted is None:
        asked.append(run.ask())
        run.tell(evaluator(asked[-1]))
    return np.concatenate(asked)


def refit(prepared: Prepared, genes: Int8s, threshold: float, solver: str) -> tuple[int, int]:
    """Evaluate one chromosome with a classifier fitted for every stage: rows covered, and rightly."""
    from sklearn.linear_model import LogisticRegression

    learner, table, labels = prepared.learner, prepared.tables[1], prepared.labels[1]
    rest = np.arange(len(labels))
    covered = right = 0
    for mask in stage_masks(genes[None], int(genes.max()) + 1)[0].tolist():
        own = learner.columns_of(mask)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what has not converged is used all the same
            model = LogisticRegression(solver=solver, max_iter=MOST_STEPS, random_state=SEED).fit(
                learner.table[:, own], learner.labels
            )
        if not len(rest):
            continue
        shares = model.predict_proba(table[rest][:, own])
        accepted = shares.max(axis=1) >= threshold
        covered += int(accepted.sum())
        right += int((accepted & (shares.argmax(axis=1) == labels[rest])).sum())
        rest = rest[~accepted]
    return covered, right
