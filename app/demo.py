"""The main job on real input, in parts: cascades of classifiers, an index of features, a portfolio for batches,
a pipeline of stages, a policy for one image at a time.

Each part measures on this machine, builds what the service then serves, and really does what the artifacts decide.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from app import show
from app.demo_cascade import ARTIFACTS as CASCADES
from app.demo_cascade import run_cascades
from app.demo_index import ARTIFACT as INDEX
from app.demo_index import run_index
from app.demo_pipeline import ARTIFACT as PIPELINE
from app.demo_pipeline import run_pipeline
from app.demo_policy import ARTIFACT as POLICY
from app.demo_policy import run_policy
from app.demo_portfolio import ARTIFACT as PORTFOLIO
from app.demo_portfolio import run_portfolio
from app.demo_timing import quiet_machine
from app.digits import SEED, DigitClassifier, Split, load_split, train_all
from app.parts import Parts
from solvers import Progress


class Outcome(Protocol):
    """What a part of the demo found."""

    def facts(self) -> dict[str, Any]:
        """Put it into plain JSON."""
        ...

    def print(self) -> None:
        """Print it for people."""
        ...


@dataclass(slots=True)
class Stage:
    """What the parts share: the images, and the classifiers, which the first part that needs them trains."""

    split: Split
    _trained: list[DigitClassifier] = field(default_factory=list)

    def classifiers(self, progress: Progress) -> list[DigitClassifier]:
        """Give the trained classifiers, the cheapest first."""
        if not self._trained:
            self._trained = train_all(self.split.train, progress)
        return self._trained


Part = tuple[str, tuple[str, ...], Callable[[Parts, Stage, Progress], Outcome]]
"""A solver, the names of the artifacts that it makes, and how."""
PARTS: tuple[Part, ...] = (
    ("cascade", CASCADES, lambda parts, stage, told: run_cascades(parts, stage.split, stage.classifiers(told), told)),
    ("index", (INDEX,), lambda parts, stage, told: run_index(parts, stage.split, told)),
    (
        "portfolio",
        (PORTFOLIO,),
        lambda parts, stage, told: run_portfolio(parts, stage.split, stage.classifiers(told), told),
    ),
    ("pipeline", (PIPELINE,), lambda parts, stage, told: run_pipeline(parts, told)),
    ("policy", (POLICY,), lambda parts, stage, told: run_policy(parts, stage.split, stage.classifiers(told), told)),
)


def _are_there(parts: Parts, solver: str, names: tuple[str, ...]) -> bool:
    return all(parts.artifacts.has(solver, name) for name in names)


def run_demo(parts: Parts, *, if_missing: bool, as_json: bool) -> None:
    """Do all of it, or what is missing, and print the tables."""
    wanted = [run for solver, names, run in PARTS if not (if_missing and _are_there(parts, solver, names))]
    if not wanted:
        show.console(stderr=True).print("the demo's artifacts are there")
        return
    with show.progress_bar("demo") as progress, quiet_machine():
        stage = Stage(load_split(np.random.default_rng(SEED)))
        outcomes = [run(parts, stage, progress) for run in wanted]
    if as_json:
        show.print_json({name: fact for outcome in outcomes for name, fact in outcome.facts().items()})
        return
    for outcome in outcomes:
        outcome.print()
