"""The main job on real input, in two parts: cascades of classifiers, and an index of features for images of any size.

Each part measures on this machine, builds what the service then serves, and really does what the artifacts decide.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from app import show
from app.demo_cascade import has_cascades, run_cascades
from app.demo_index import has_index, run_index
from app.demo_timing import quiet_machine
from app.digits import SEED, Split, load_split
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


Part = tuple[Callable[[Parts], bool], Callable[[Parts, Split, Progress], Outcome]]
"""Tells whether its artifacts are there, and makes them."""
PARTS: tuple[Part, ...] = ((has_cascades, run_cascades), (has_index, run_index))


def run_demo(parts: Parts, *, if_missing: bool, as_json: bool) -> None:
    """Do all of it, or what is missing, and print the tables."""
    wanted = [run for is_there, run in PARTS if not (if_missing and is_there(parts))]
    if not wanted:
        show.console(stderr=True).print("the demo's artifacts are there")
        return
    with show.progress_bar("demo") as progress, quiet_machine():
        split = load_split(np.random.default_rng(SEED))
        outcomes = [run(parts, split, progress) for run in wanted]
    if as_json:
        show.print_json({name: fact for outcome in outcomes for name, fact in outcome.facts().items()})
        return
    for outcome in outcomes:
        outcome.print()
