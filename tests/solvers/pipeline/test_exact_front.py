"""The exact front against brute force over all chromosomes, and what it promises."""

from itertools import pairwise
from math import comb
from pathlib import Path

import numpy as np
import pytest

from models.errors import Cancelled, InvalidRequest
from solvers.jit import python_kernel
from solvers.pipeline import exact_front_search
from solvers.pipeline.bit_packing import pack_bits
from solvers.pipeline.configurations import Frontier, count_configurations
from solvers.pipeline.exact_front import find_front, find_packed_front
from tests.oracles.pipeline import Chromosome, brute_force, fractions, random_costs, random_table, walk
from tests.support.cases import first_quick

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"


def as_dict(front: Frontier) -> dict[Chromosome, tuple[float, float, float]]:
    """Write a front as chromosomes and their objectives."""
    values = zip(front.coverage.tolist(), front.accuracy.tolist(), front.cost.tolist(), strict=True)
    return dict(zip(map(tuple, front.chromosomes.tolist()), values, strict=True))


@pytest.mark.parametrize("seed", first_quick(range(140), 40))
def test_the_front_is_what_brute_force_finds_ties_and_all(seed: int) -> None:
    """Small problems with zero, equal, decimal and any costs, useless features and classifiers that all agree; the
    chromosomes are the same too: of equal vectors the one of fewest stages, then the first."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 3, 4, 5, 6], p=[0.05, 0.1, 0.2, 0.3, 0.25, 0.1]))
    k, rows = int(rng.integers(1, 5)), int(rng.choice([1, 5, 20, 70]) if n < 6 else 12)
    confident, correct = random_table(rng, n, rows)
    costs = random_costs(rng, n)
    front, known = find_front(confident, correct, costs, k), brute_force(confident, correct, costs, k)
    assert set(as_dict(front)) == set(known)
    for genes, (coverage, accuracy, cost) in as_dict(front).items():
        assert coverage == known[genes].covered / rows
        assert accuracy == pytest.approx(float(known[genes].accuracy), abs=1e-15)
        assert cost == pytest.approx(float(known[genes].cost), rel=1e-11)
    assert front.examined + front.pruned == count_configurations(n, k)


@pytest.mark.parametrize("seed", range(6))
def test_pruning_loses_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a table that never rules out more than it is told, and one of few wide cells, the front is the same."""
    rng = np.random.default_rng(seed)
    confident, correct = random_table(rng, 7, 130)
    costs = random_costs(rng, 7)
    exact = find_front(confident, correct, costs, 4)
    monkeypatch.setattr(exact_front_search, "CELLS", 9)
    wide = find_front(confident, correct, costs, 4)
    monkeypatch.setattr(exact_front_search, "CELLS", 1)
    none = find_front(confident, correct, costs, 4)
    assert as_dict(exact) == as_dict(wide) == as_dict(none)
    assert exact.pruned >= wide.pruned >= none.pruned
    assert none.examined + none.pruned == count_configurations(7, 4)


def test_hard_problems_are_pruned_and_small_quotas_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk stops and goes on in the middle; the list grows on the way."""
    rng = np.random.default_rng(5)
    confident, correct = random_table(rng, 8, 300)
    costs = rng.uniform(1, 3, 8)
    whole = find_front(confident, correct, costs, 4)
    assert whole.pruned > 0
    monkeypatch.setattr(exact_front_search, "SEARCH_QUOTA", 7)
    reports: list[int] = []
    interrupted = find_front(confident, correct, costs, 4, progress=lambda done, total, message: reports.append(done))
    assert as_dict(interrupted) == as_dict(whole)
    assert len(reports) > 100
    assert all(before <= after for before, after in pairwise(reports))
    assert reports[-1] == count_configurations(8, 4)


def test_the_walk_says_the_same_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is plain Python too."""
    rng = np.random.default_rng(11)
    confident, correct = random_table(rng, 4, 30)
    costs = random_costs(rng, 4)
    compiled = find_front(confident, correct, costs, 3)
    monkeypatch.setattr(
        exact_front_search, "search_chains", python_kernel("solvers.pipeline.exact_front_kernel").search_chains
    )
    with np.errstate(over="ignore"):  # counting bits multiplies modulo 2^64
        assert as_dict(find_front(confident, correct, costs, 3)) == as_dict(compiled)


def test_the_counts_are_those_of_the_paper() -> None:
    """Every configuration is looked at or passed over, once."""
    rng = np.random.default_rng(0)
    for n, k in ((8, 2), (8, 3), (8, 4), (9, 9)):
        front = find_front(*random_table(rng, n, 64), np.ones(n), k)
        assert front.examined + front.pruned == sum(
            sum((-1) ** (j - i) * comb(j, i) * i**n for i in range(j + 1)) for j in range(1, k + 1)
        )


def test_packed_rows_give_the_same_front() -> None:
    """65 rows: one bit in the second word. What is right but not accepted does not count, nor what is no row."""
    rng = np.random.default_rng(3)
    confident, correct = random_table(rng, 5, 65)
    costs = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    accepted, right = pack_bits(confident), pack_bits(correct)
    front = as_dict(find_front(confident, correct, costs, 3))
    assert as_dict(find_packed_front(accepted, right, 65, costs, 3)) == front
    spare = np.array([0, 0xFFFFFFFFFFFFFFFE], dtype=np.uint64)
    assert as_dict(find_packed_front(accepted | spare, right | spare, 65, costs, 3)) == front


def test_the_empty_set_is_not_looked_at() -> None:
    """A first row of ones changes nothing."""
    rng = np.random.default_rng(4)
    confident, correct = random_table(rng, 4, 20)
    before = as_dict(find_front(confident, correct, np.ones(4), 2))
    confident[0], correct[0] = True, True
    assert as_dict(find_front(confident, correct, np.ones(4), 2)) == before


def test_where_nothing_is_covered_one_stage_stands_for_all() -> None:
    """Accuracy is 0 and not an error; every configuration costs the same, and the shortest is kept."""
    nothing = np.zeros((16, 10), dtype=bool)
    front = find_front(nothing, ~nothing, np.array([1.0, 2.0, 3.0, 4.0]), 4)
    assert as_dict(front) == {(0, 0, 0, 0): (0.0, 0.0, 10.0)}


def test_of_equal_chains_the_first_is_kept_though_it_is_walked_later() -> None:
    """Free features, and three rows that only {0} or {0, 1}, then {0, 1, 2}, then all four get right."""
    confident, correct = np.ones((16, 3), dtype=bool), np.zeros((16, 3), dtype=bool)
    for early in (0b1, 0b11):
        confident[early], correct[early] = [True, False, False], [True, False, False]
    confident[0b111], correct[0b111] = [True, True, False], [False, True, False]
    correct[0b1111] = [False, False, True]
    front = as_dict(find_front(confident, correct, np.zeros(4), 3))
    assert front == {(0, 0, 1, 2): (1.0, 1.0, 0.0)}


def test_where_all_costs_are_equal_what_has_fewer_stages_prunes() -> None:
    """Free features: every configuration costs 0, and yet not all have to be looked at."""
    rng = np.random.default_rng(5)
    front = find_front(*random_table(rng, 8, 300), np.zeros(8), 4)
    assert front.pruned > 0.2 * count_configurations(8, 4)


def test_more_stages_than_features_are_as_many() -> None:
    """k = 9 of 3 features is k = 3."""
    rng = np.random.default_rng(8)
    table = random_table(rng, 3, 40)
    assert as_dict(find_front(*table, np.ones(3), 9)) == as_dict(find_front(*table, np.ones(3), 3))


def test_a_walk_can_be_cancelled() -> None:
    """What progress raises comes out."""

    def stop(done: int, total: int, message: str) -> None:
        raise Cancelled("told to stop")

    rng = np.random.default_rng(8)
    with pytest.raises(Cancelled):
        find_front(*random_table(rng, 4, 10), np.ones(4), 3, progress=stop)


def test_wrong_input_is_refused_with_numbers() -> None:
    """Shapes, types, costs, stages, and too many features or configurations."""
    table = np.zeros((8, 5), dtype=bool)
    for costs, message in (
        (np.array([1.0, -1.0, 2.0]), r"costs\.1: .*got -1\.0"),
        (np.array([1.0, np.nan, np.inf]), r"costs\.1: .*got nan.*1 more"),
        (np.ones((1, 3)), r"got \(1, 3\)"),
        (np.ones(0), "shape"),
        (np.ones(2), r"shape \(4, rows\).*got \(8, 5\)"),
        (np.ones(21), "20 features, got 21"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            find_front(table, table, costs, 2)
    with pytest.raises(InvalidRequest, match="max_stages: must be at least 1, got 0"):
        find_front(table, table, np.ones(3), 0)
    with pytest.raises(InvalidRequest, match="must have 5 rows like confident, got 4"):
        find_front(table, table[:, :4], np.ones(3), 2)
    with pytest.raises(InvalidRequest, match="got int64"):
        find_front(table, table.astype(np.int64), np.ones(3), 2)
    with pytest.raises(InvalidRequest, match=r"shape \(8, 2\) for 65 rows, got \(8, 1\)"):
        find_packed_front(pack_bits(table), pack_bits(table), 65, np.ones(3), 2)
    wide = np.zeros((1 << 19, 1), dtype=np.uint64)
    with pytest.raises(InvalidRequest, match=r"max_stages: .*maximum"):
        find_packed_front(wide, wide, 5, np.ones(19), 19)


@pytest.mark.kernel
def test_a_real_front_has_what_its_chromosomes_achieve() -> None:
    """Heart failure with the paper's costs (Table 3), nearest-mean confidences for all 4,096 sets, k = 3."""
    path = SHARED / "heart_failure.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not in shared/data beside the repository")
    data = np.genfromtxt(path, delimiter=",", skip_header=1)
    values, labels = (data[:, :-1] - data[:, :-1].mean(axis=0)) / data[:, :-1].std(axis=0), data[:, -1] == 1
    weights = values[labels].mean(axis=0) - values[~labels].mean(axis=0)
    members = (np.arange(1 << 12)[:, None] >> np.arange(12)) & 1
    margins = (members * weights) @ values.T
    confident, correct = np.abs(margins) > 0.7, (margins > 0) == labels
    costs = np.where(np.isin(np.arange(12), [0, 7, 10, 11]), 10.0, 100.0)
    front = as_dict(find_front(confident, correct, costs, 3))
    results = [walk(genes, confident, correct, fractions(costs.tolist())) for genes in front]
    assert len(front) > 10
    assert [(r.covered / 299, float(r.accuracy), float(r.cost)) for r in results] == [
        pytest.approx(each, rel=1e-14) for each in front.values()
    ]
    assert not any(one.weakly_dominates(other) for one in results for other in results if one is not other)
