"""The solvers against every permutation of every subset, and against Algorithm 3 as the paper has it."""

import numpy as np
import pytest

from models.cascade import Algorithm, SolveDependence
from models.errors import Infeasible
from solvers.cascade import solve
from tests.oracles.cascade import algorithm_3, best_permutation
from tests.support.cases import first_quick
from tests.support.strategies import random_classifiers

DEPENDENCES: tuple[SolveDependence, ...] = ("independent", "dependent", "grouped")
ALGORITHMS: tuple[Algorithm | None, ...] = (None, "group-states", "group-beam")


@pytest.mark.parametrize("seed", first_quick(range(20), 5))
def test_2000_random_instances_against_every_permutation(seed: int) -> None:
    """100 a seed, n up to 7: half with small whole numbers, so with ties; some with several deterministic classifiers.

    Each is solved by its own algorithm, by group-states, of which it is a special case, and by group-beam.
    """
    rng = np.random.default_rng(seed)
    for trial in range(100):
        whole, ends = bool(trial % 2), 2 if trial % 5 == 0 else 1
        classifiers = random_classifiers(rng, int(rng.integers(0, 8 - ends)), groups=2, whole=whole, ends=ends)
        dependence = DEPENDENCES[trial % 3]
        total = sum(k.worst_case for k in classifiers)
        deadline = (
            None
            if rng.random() < 0.4
            else float(rng.integers(1, int(total) + 2) if whole else rng.uniform(4, max(total, 5)))
        )
        oracle = best_permutation(classifiers, dependence, deadline)
        for algorithm in ALGORITHMS:
            if oracle is None:
                with pytest.raises(Infeasible):
                    solve(classifiers, deadline=deadline, dependence=dependence, algorithm=algorithm)
                continue
            decision = solve(classifiers, deadline=deadline, dependence=dependence, algorithm=algorithm)
            assert decision.optimal
            assert decision.expected_duration == pytest.approx(oracle.expected, rel=1e-10)
            assert decision.lower_bound == decision.expected_duration
            assert deadline is None or decision.maximum_duration <= deadline
            if whole:
                assert decision.maximum_duration == oracle.maximum


@pytest.mark.parametrize("seed", range(30))
def test_groups_of_up_to_ten_against_algorithm_3(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    classifiers = random_classifiers(rng, int(rng.integers(5, 11)), groups=4, whole=bool(seed % 2))
    total = sum(k.worst_case for k in classifiers)
    fastest = min(k.worst_case for k in classifiers if k.deterministic)
    for deadline in (None, *np.linspace(fastest, total, 5)):
        oracle, decision = (
            algorithm_3(classifiers, deadline),
            solve(classifiers, deadline=deadline, dependence="grouped"),
        )
        assert oracle is not None
        assert decision.expected_duration == pytest.approx(oracle.expected, rel=1e-10)
