"""The pipeline beside its targets, its paper and its rivals: ``python -m tests.bench.pipeline``.

1. ``--enumeration``: exact fronts of Heart and Credit, in seconds.
2. ``--evaluation``: chromosomes per CPU second, against refitting every stage, and once all is trained.
3. ``--spambase``: hypervolume of our front against the authors' stored results on their example.
4. ``--fronts``: how much of the exact fronts EMSCO finds (the paper's Figure 8).
5. ``--study``: EMSCO, exact, cost-ordered stages, boosted trees that mind costs, a single stage (Figures 9 to 13).

Without any of these all five, in some five minutes; ``--quick`` does less of each, ``--full`` more. ``--plots DIR``
draws parts 4 and 5. Repositories 3 to 5 use two processes; times are CPU times of one thread.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from tests.bench import _pipeline_fronts as fronts
from tests.bench import _pipeline_spambase as spambase
from tests.bench import _pipeline_speed as speed
from tests.bench import _pipeline_study as study

Repositories = Iterator[Table | str]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of each part: quick, whether parts 1 and 2 do less; generations, seeds and jobs of spambase; runs of
    each panel of Figure 8; splits of the small data sets, and of Synthetic30."""

    quick: bool
    generations: int
    seeds: int
    jobs: tuple[spambase.Job, ...]
    runs: int
    splits: int
    synthetic: int


QUICK = Effort(True, 3, 1, spambase.USUAL[:2], 2, 1, 0)
USUAL = Effort(False, 150, 1, spambase.USUAL, 20, 6, 2)
FULL = Effort(False, 150, 3, spambase.every_job(), 100, 50, 10)


def report_fronts(effort: Effort, plots: Path | None) -> Repositories:
    """Compare fronts, and draw them."""
    panels = fronts.compare(effort.runs)
    yield from fronts.report(panels)
    if plots is not None:
        from tests.bench._pipeline_plots import plot_fronts

        yield f"Plot: {plot_fronts(panels, plots).name}\n"


def report_study(effort: Effort, plots: Path | None) -> Repositories:
    """Compare methods, and draw them."""
    splits = {"heart": effort.splits, "pima": effort.splits, "credit": effort.splits, "synthetic30": effort.synthetic}
    studies = study.study({name: count for name, count in splits.items() if count})
    yield from study.report(studies)
    if plots is not None:
        from tests.bench._pipeline_plots import plot_study

        yield f"Plots: {', '.join(path.name for path in plot_study(studies, plots))}\n"


PARTS: dict[str, Callable[[Effort, Path | None], Repositories]] = {
    "enumeration": lambda effort, plots: speed.measure_enumeration(),
    "evaluation": lambda effort, plots: speed.measure_evaluations(effort.quick),
    "spambase": lambda effort, plots: spambase.compare(effort.generations, effort.jobs, effort.seeds),
    "fronts": report_fronts,
    "study": report_study,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for, or everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pipeline", description="Benchmarks of the pipeline.")
    for name in PARTS:
        parser.add_argument(f"--{name}", action="store_true")
    much = parser.add_mutually_exclusive_group()
    much.add_argument("--quick", action="store_true", help="less of each part: less than a minute in all")
    much.add_argument("--full", action="store_true", help="more seeds, splits and scalings: an hour or so")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="where plots go; none without")
    chosen = parser.parse_args(arguments)
    console = Console()
    plots = chosen.plots
    if plots is not None and find_spec("matplotlib") is None:
        console.print("There are no plots: matplotlib is not installed.\n")
        plots = None
    effort = QUICK if chosen.quick else FULL if chosen.full else USUAL
    asked = [name for name in PARTS if getattr(chosen, name)]
    with threadpool_limits(1):
        for name in asked or PARTS:
            for part in PARTS[name](effort, plots):
                console.print(part, highlight=False)


if __name__ == "__main__":
    main()
