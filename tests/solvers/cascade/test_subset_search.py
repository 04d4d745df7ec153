"""Arbitrary dependence counted in a trace, against exhaustive replay."""

import math
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from models.cascade import Classifier
from solvers.cascade.problem import CascadeProblem, build_step_function, find_best_within
from solvers.cascade.subset_search import count_unclassified, solve_set_states
from tests.oracles.cascade import best_by_replay
from tests.support.patience import patient


def make(rng: np.random.Generator, n: int, rows: int) -> tuple[NDArray[np.bool_], list[Classifier], CascadeProblem]:
    """Make random answers of n classifiers that depend on each other, and the problem, its columns in its order."""
    shared = rng.random((rows, 2))
    answers = np.column_stack(
        [(rng.random(rows) < 0.6) & (shared[:, rng.integers(2)] < rng.uniform(0.3, 1)) for _ in range(n)]
    )
    answers[0] = True
    classifiers = []
    for j in range(n):
        time, worst = float(rng.integers(1, 8)), float(rng.integers(8, 12))
        share = min(float(answers[:, j].mean()), 0.99)
        classifiers.append(
            Classifier(name=f"K{j}", execution_time=time, success_probability=share, worst_case_time=worst)
        )
    last = Classifier(name="D", execution_time=10, success_probability=1, worst_case_time=13)
    problem = CascadeProblem.from_classifiers(classifiers, last, "independent")
    order = [int(k.name[1:]) for k in problem.idk]
    return answers, [*classifiers, last], replace(problem, counts=count_unclassified(answers[:, order]))


@pytest.mark.parametrize("seed", range(12))
def test_joint_against_exhaustive_replay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    answers, classifiers, problem = make(rng, n=1 + seed % 5, rows=40)
    steps = build_step_function(problem, solve_set_states(problem))
    assert all(a.maximum < b.maximum and a.expected > b.expected for a, b in pairwise(steps))
    for deadline in (None, *(step.maximum for step in steps), *(step.maximum - 0.5 for step in steps[1:])):
        oracle = best_by_replay(answers, classifiers, deadline)
        best_cascade = find_best_within(problem, solve_set_states(problem), deadline)
        assert oracle is not None
        assert best_cascade.expected == pytest.approx(oracle.expected, rel=1e-12)
        assert best_cascade.maximum == oracle.maximum
        assert deadline is None or best_cascade.maximum <= deadline


def test_counts_are_those_of_a_loop_over_all_sets() -> None:
    answers = np.random.default_rng(0).random((30, 4)) < 0.4
    left = count_unclassified(answers)
    for chosen in range(16):
        members = [j for j in range(4) if chosen >> j & 1]
        assert left[chosen] == int((~answers[:, members]).all(axis=1).sum())


def test_no_idk_classifier_at_all() -> None:
    _, _, problem = make(np.random.default_rng(0), n=1, rows=20)
    alone = replace(
        CascadeProblem.from_classifiers([], problem.last, "independent"),
        counts=count_unclassified(np.empty((20, 0), dtype=bool)),
    )
    assert [step.members for step in build_step_function(alone, solve_set_states(alone))] == [()]


def test_counts_must_match_the_classifiers() -> None:
    _, _, problem = make(np.random.default_rng(0), n=2, rows=20)
    for counts in (None, np.ones(8, dtype=np.int64)):
        with pytest.raises(ValueError, match="number of unclassified items"):
            solve_set_states(replace(problem, counts=counts))


@pytest.mark.slow
def test_twenty_classifiers_and_fifty_thousand_rows_take_seconds() -> None:
    answers, _, problem = make(np.random.default_rng(1), n=20, rows=50_000)
    start = time.process_time()
    problem = replace(problem, counts=count_unclassified(answers))
    steps = build_step_function(problem, solve_set_states(problem))
    assert time.process_time() - start < patient(5)
    assert len(steps) > 3
    assert problem.counts is not None
    reached = [problem.counts[sum(1 << k for k in steps[-1].members[:i])] for i in range(len(steps[-1].members) + 1)]
    times = [*(problem.idk[k].execution_time for k in steps[-1].members), 10.0]
    total = math.fsum(c * int(u) for c, u in zip(times, reached, strict=True))
    assert steps[-1].expected == pytest.approx(total / 50_000, rel=1e-12)
