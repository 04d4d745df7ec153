"""How fast the cascade solvers are: ``python -m tests.bench.cascade``.

1. Grouped classifiers, n = 16 in four groups, against Algorithm 3 as the paper has it (``tests/oracles/cascade.py``).
2. How the time grows with n up to 40, for few large and for many small groups, with and without a deadline.
3. Arbitrary dependence: n = 20 classifiers on a trace of 50,000 rows, time and peak memory.
"""

import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from models.cascade import Classifier
from solvers.cascade import solve
from solvers.cascade.problem import Problem, step_function
from solvers.cascade.subset_search import count_left, set_states
from tests.oracles.cascade import algorithm_3
from tests.support.strategies import even_groups

T = TypeVar("T")


def timed(function: Callable[[], T]) -> tuple[float, T]:
    """Measure one call in seconds."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def shown(seconds: float) -> str:
    """Write a time for people."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def table(title: str, *columns: str) -> Table:
    """Start a table of at most 80 columns, numbers to the right."""
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


SHAPES = (
    (2, 5), (2, 10), (2, 20), (4, 4), (4, 8), (4, 10), (5, 8), (6, 4), (8, 5),
    (5, 2), (10, 2), (13, 2), (15, 2), (20, 2), (10, 4), (40, 1),
)  # fmt: skip
"""Groups, members of each."""

HARD = ((4, 4), (8, 4), (13, 2), (20, 2), (10, 4), (40, 1), (100, 2))
"""The same, where all ratios of time to probability are within a tenth of each other."""


def measure_growth(title: str, shapes: Sequence[tuple[int, int]], spread: float) -> Table:
    """Solve growing instances; say which algorithm answered, and how far it is from what it proved."""
    made = table(
        f"{title}, median of 3 instances; the gap to the proved bound is the largest",
        "groups", "n", "states", "deadline", "time", "algorithm", "optimal", "gap",
    )  # fmt: skip
    for groups, members in shapes:
        for share in (None, 0.2):
            runs = []
            for seed in range(3):
                classifiers = even_groups(np.random.default_rng(seed), [members] * groups, spread=spread)
                deadline = deadline_of(classifiers, share)
                run = timed(lambda c=classifiers, d=deadline: solve(c, deadline=d, dependence="grouped"))  # type: ignore[misc]
                runs.append(run)
            decisions = [decision for _, decision in runs]
            made.add_row(
                f"{groups} of {members}",
                str(groups * members + 1),
                f"{float((members + 1) ** groups):.1e}",
                "no" if share is None else "yes",
                shown(statistics.median(seconds for seconds, _ in runs)),
                "/".join(sorted({d.algorithm.removeprefix("group-") for d in decisions})),
                f"{sum(d.optimal for d in decisions)}/3",
                f"{max(d.expected_duration / d.lower_bound - 1 for d in decisions):.2%}",
            )
    return made


def joint_run() -> tuple[float, float, int, float]:
    """Count and order 20 classifiers on 50,000 rows: seconds for each, steps found, peak memory added in MB."""
    rng = np.random.default_rng(0)
    difficulty = rng.random((50_000, 1))
    answers = difficulty + 0.3 * rng.standard_normal((50_000, 20)) < np.linspace(0.2, 0.8, 20)
    idk = [
        Classifier(name=f"K{j:02}", execution_time=1 + j + float(rng.random()), success_probability=0.1 + 0.04 * j)
        for j in range(20)
    ]
    problem = Problem.of(idk, Classifier(name="D", execution_time=60, success_probability=1), "independent")
    counting, counts = timed(lambda: count_left(answers))
    counted = replace(problem, counts=counts)
    ordering, steps = timed(lambda: step_function(counted, set_states(counted)))
    tracemalloc.start()
    set_states(replace(problem, counts=count_left(answers)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return counting, ordering, len(steps), peak / 2**20


def measure_joint(repeats: int = 5) -> Table:
    """Time it several times; the memory is what NumPy and Python had allocated at most, beside the trace itself."""
    made = table("Joint, n = 20 IDK classifiers, 50,000 rows, all deadlines at once", "", "median", "least", "most")
    runs = [joint_run() for _ in range(repeats)]
    counting, ordering, steps, memory = zip(*runs, strict=True)
    totals = [a + b for a, b in zip(counting, ordering, strict=True)]
    for name, seconds in (("counting all sets", counting), ("ordering", ordering), ("both", totals)):
        made.add_row(name, shown(statistics.median(seconds)), shown(min(seconds)), shown(max(seconds)))
    made.add_row("peak memory", *(f"{f(memory):.0f} MB" for f in (statistics.median, min, max)))
    made.add_row("steps of the answer", *(str(f(steps)) for f in (statistics.median, min, max)))
    return made


def main() -> None:
    """Print all tables."""
    console = Console()
    console.print(compare_with_algorithm_3())
    console.print(measure_growth("Growth with n", SHAPES, spread=0.5))
    console.print(measure_growth("Ratios that hardly differ", HARD, spread=0.1))
    console.print(measure_joint())


if __name__ == "__main__":
    main()
