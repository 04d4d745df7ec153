"""Grouped cascades against Algorithm 3 as the paper has it: ``parsimony bench cascade``.

Both solve the same instances of 16 classifiers in four groups, and must give the same expected duration.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from models.cascade import Classifier
from solvers.cascade import solve
from tests.oracles.cascade import algorithm_3
from tests.support.strategies import even_groups

T = TypeVar("T")


def timed(function: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


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


def deadline_of(classifiers: list[Classifier], share: float | None) -> float | None:
    """Place a deadline between the deterministic classifier alone and all together."""
    total, last = sum(k.worst_case for k in classifiers), classifiers[-1].worst_case
    return None if share is None else last + share * (total - last)


def main() -> None:
    argparse.ArgumentParser(prog="parsimony bench cascade", description=__doc__).parse_args()
    Console().print(compare_with_algorithm_3())


if __name__ == "__main__":
    main()
