"""What is said of decisions against what comes true: ``python -m tests.bench.reliability``.

Builds from seeded tables of a few hundred rows, each asked at many budgets and accuracies and replayed on rows that no
build has seen, others for each. For each quantity: how many 95 % intervals hold what came true, and how far off what
was said is, in standard errors that the interval stands for: of figures that are right their mean is 0, their spread 1.
``control`` is a classifier that was fixed before, judged on the same rows as the build: what chance did with the seeds,
and the study itself can see. What is off where the control is off as far says nothing of the build.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from models import Value
from models.arrays import Bools
from models.cascade import CascadeQuery
from models.errors import ParsimonyError
from models.index import IndexQuery
from models.pipeline import PipelineQuery
from models.policy import PolicyTarget
from models.portfolio import AssignmentOptions, Budget
from solvers.statistics import Z_95, wilson
from tests.support.replays import CLASSES, NOISES, REPLAYS, Replayed, World, built

LEVELS = (0.65, 0.7, 0.75, 0.8, 0.85)
MANY = (1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1.0, 0.9)
"""How blurred eight features show the class, the dearer ones less."""
SAMPLES = {"estimator": "occam", "samples": {"count": 8, "size": 50}, "curve_points": 9}


@dataclass(frozen=True, slots=True)
class Kind:
    """What is built. noises: of the features of a table, where it is one; table: whether a policy is built from it."""

    solver: str
    rows: int
    params: dict[str, Any] = field(default_factory=dict)
    noises: tuple[float, ...] = NOISES
    table: bool = False

    @property
    def has_features(self) -> bool:
        """Tell whether it is built from a table of features."""
        return self.table or self.solver in ("index", "pipeline")


KINDS = {
    "cascade": Kind("cascade", 400),
    "index": Kind("index", 300),
    "index of 8": Kind("index", 300, noises=MANY),
    "pipeline": Kind("pipeline", 600),
    "pipeline of 8": Kind("pipeline", 600, noises=MANY),
    "pipeline answers": Kind("pipeline", 600, {"at_the_end": "answer"}),
    "policy": Kind("policy", 300),
    "policy embedded": Kind("policy", 300, {"embeddings": True}),
    "policy of 5": Kind("policy", 300, noises=MANY[3:], table=True),
    "policy grown": Kind("policy", 300, {"graph": "grown"}, noises=MANY, table=True),
    "occam": Kind("portfolio", 600, SAMPLES),
    "portfolio": Kind("portfolio", 400, {"curve_points": 11}),
}
BUDGETS = {
    "cascade": (1.6, 2.5, 4.0, 6.0, 9.0),
    "index": (1.0, 2.0, 4.0, 8.0, 14.0, 40.0),
    "pipeline": (2.0, 4.0, 8.0, 12.0),
    "policy": (1.0, 2.0, 4.0, 7.0, 12.0, 25.0),
    "portfolio": (1.4, 2.0, 3.0, 4.5, 6.5, 9.0),
}


def queries(solver: str) -> Iterator[tuple[str, Value]]:
    """List what is asked of a subject, and to what group of questions each belongs."""
    for budget in BUDGETS[solver]:
        match solver:
            case "cascade":
                yield "max_cost", CascadeQuery(max_cost=budget)
            case "index":
                yield "budget", IndexQuery(budget=budget)
            case "pipeline":
                yield "max_cost", PipelineQuery(max_cost=budget)
            case "policy":
                yield "budget", PolicyTarget(budget=budget)
            case _:
                yield "budget", AssignmentOptions(budget=Budget(per_query=budget))
    for level in LEVELS:
        match solver:
            case "cascade":
                yield "min_accuracy", CascadeQuery(min_accuracy=level)
            case "index":
                yield "min_accuracy", IndexQuery(budget=1e9, min_accuracy=level)
            case "pipeline":
                yield "min_accuracy", PipelineQuery(min_accuracy=level)
            case "policy":
                yield "min_accuracy", PolicyTarget(min_accuracy=level)
            case _:
                yield "min_accuracy", AssignmentOptions(min_accuracy=level)
    match solver:
        case "cascade":
            yield "usual", CascadeQuery()
        case "pipeline":
            yield "usual", PipelineQuery()
        case "policy":
            yield "usual", PolicyTarget()
            yield "hard_budget", PolicyTarget(hard_budget=5.0)


def replays(kind: Kind, seed: int, fresh: World) -> Iterator[tuple[str, str, Replayed]]:
    """Build once, ask everything, and tell each group of questions, the question and what became of it."""
    dataset = World.of(seed, kind.rows, kind.noises).dataset(kind.solver, measured=True, table=kind.table)
    live = built(kind.solver, dataset, seed, **kind.params)
    for group, query in queries(kind.solver):
        try:
            for replayed in REPLAYS[kind.solver](live, fresh, query):
                yield group, repr(query.model_dump(exclude_defaults=True)), replayed
        except ParsimonyError:
            continue


def control(kind: Kind, seed: int, fresh: World) -> Replayed:
    """Judge a classifier by the rows of a build, as the build judges what it has found."""
    own = float(_fixed(kind, World.of(seed, kind.rows, kind.noises)).mean())
    return Replayed("accuracy", wilson(own, float(kind.rows)), float(_fixed(kind, fresh).mean()), own)


def _fixed(kind: Kind, world: World) -> Bools:
    """Tell where a classifier that was fixed before is right: of a trace the middle one, of a table of features the
    best that there can be, the class nearest to what all of them show."""
    if not kind.has_features:
        return world.correct[:, 1]
    seen = np.column_stack([world.features[f"x{k}"] for k in range(len(kind.noises))])
    distances = ((seen[:, None] - np.arange(len(CLASSES))[:, None]) / np.array(kind.noises)) ** 2
    return np.asarray(CLASSES[distances.sum(axis=2).argmin(axis=1)] == world.features["label"])


def judged(replayed: list[Replayed]) -> list[str]:
    """Say how many intervals hold what came true, and how far off, in standard errors, what was said is."""
    rows = [(*each.interval, each.said, each.true) for each in replayed if each.interval[1] > each.interval[0]]
    low, high, said, true = np.array(rows).T
    off = (said - true) / ((high - low) / 2 / Z_95)
    held = (low <= true) & (true <= high)
    figures = f"{100 * held.mean():.1f}", f"{off.mean():+.2f}", f"{off.std():.2f}", f"{(said - true).mean():+.4f}"
    return [str(len(rows)), *figures]


def main() -> None:
    """Study some kinds over some seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--builds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--fresh", type=int, default=30_000, help="rows that say what is true of a build")
    parser.add_argument("--each", action="store_true", help="tell each question, not only groups of them")
    args = parser.parse_args()
    seeds, console = range(args.first, args.first + args.builds), Console(width=130)
    for name in args.kinds:
        kind = KINDS[name]
        table = Table("kind", "question", "quantity", "figures", "held, %", "mean off", "spread", "said - true")
        groups = defaultdict[tuple[str, str], list[Replayed]](list)
        for seed in seeds:
            fresh = World.of(10_000_000 + seed, args.fresh, kind.noises)
            for group, question, replayed in replays(kind, seed, fresh):
                groups[group, replayed.quantity].append(replayed)
                if args.each:
                    groups[question, replayed.quantity].append(replayed)
            groups["control", "accuracy"].append(control(kind, seed, fresh))
        for (group, quantity), each in groups.items():
            table.add_row(name, group, quantity, *judged(each))
        console.print(table)


if __name__ == "__main__":
    main()
