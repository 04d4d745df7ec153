"""Grouped cascades against Algorithm 3 as the paper has it: ``parsimony bench cascade``.

Both solve the same instances of 16 classifiers in four groups, and must give the same expected duration.
``--examples``: the worked examples of the paper, its optimum and ours.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from models.arrays import Floats
from models.cascade import Classifier
from solvers.cascade import solve
from tests.oracles.cascade import algorithm_3
from tests.papers.idk_examples import EXAMPLES
from tests.support.strategies import even_groups

T = TypeVar("T")


def timed(function: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def mean_with_margin(values: Floats) -> str:
    """Write a mean, with half the width of its 95 % interval (normal) if there are several values."""
    off = f" ±{1.96 * values.std(ddof=1) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{off}"


def table(title: str, *columns: str) -> Table:
    made = Table(title=title, width=80, title_justify="left")
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i == 0 else "right")
    return made


def compare_with_algorithm_3(repeats: int = 5) -> Table:
    """Solve instances of 15 IDK classifiers in four groups both ways; the answers must be the same."""
    made = table(
        f"Grouped, n = 16 in four groups: median of {repeats} instances (least to most)",
        "case", "Algorithm 3", "group-states", "times faster",
    )  # fmt: skip
    for case, share in (("no deadline", None), ("tight deadline", 0.15), ("loose deadline", 0.4)):
        slow, fast = [], []
        for seed in range(repeats):
            classifiers = even_groups(np.random.default_rng(seed), (4, 4, 4, 3), power=0.9)
            deadline = deadline_of(classifiers, share)
            seconds, oracle = timed(lambda c=classifiers, d=deadline: algorithm_3(c, d))  # type: ignore[misc]
            slow.append(seconds)
            runs = [timed(lambda c=classifiers, d=deadline: solve(c, deadline=d)) for _ in range(20)]  # type: ignore[misc]
            fast.append(statistics.median(seconds for seconds, _ in runs))
            expected = runs[0][1].expected_duration
            if oracle is None or abs(expected - oracle.expected) > 1e-10 * expected or not runs[0][1].optimal:
                raise AssertionError(f"{case}, instance {seed}: {expected} against {oracle}")
        ratios = [a / b for a, b in zip(slow, fast, strict=True)]
        made.add_row(
            case,
            shown(statistics.median(slow)),
            shown(statistics.median(fast)),
            f"{statistics.median(ratios):,.0f} ({min(ratios):,.0f} to {max(ratios):,.0f})",
        )
    return made


def solve_examples() -> Table:
    """Solve Examples 1 to 9; a cascade or expected duration that differs from the paper's is marked with *."""
    made = table("Expected durations of the paper's examples", "example", "deadline", "paper", "ours", "cascade")
    for one in EXAMPLES:
        found = solve(one.classifiers, deadline=one.deadline, dependence=one.dependence)
        same = abs(found.expected_duration - one.expected) < 1e-9 and " ".join(found.cascade) == one.cascade
        figures = (f"{one.expected:g}", f"{found.expected_duration:g}{'' if same else ' *'}", " ".join(found.cascade))
        made.add_row(one.name, "" if one.deadline is None else f"{one.deadline:g}", *figures)
    return made


def deadline_of(classifiers: list[Classifier], share: float | None) -> float | None:
    """Place a deadline between the deterministic classifier alone and all together."""
    total, last = sum(k.worst_case for k in classifiers), classifiers[-1].worst_case
    return None if share is None else last + share * (total - last)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench cascade", description=__doc__)
    parser.add_argument("--examples", action="store_true", help="the paper's worked examples")
    chosen = parser.parse_args(arguments)
    Console().print(solve_examples() if chosen.examples else compare_with_algorithm_3())


if __name__ == "__main__":
    main()
