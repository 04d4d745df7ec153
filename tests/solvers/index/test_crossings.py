"""The index over sizes against skylines computed at single sizes, and its degenerate cases."""

from itertools import pairwise
from math import inf

import numpy as np
import pytest

from models.arrays import Floats
from solvers.index import crossings as module
from solvers.index import crossings_kernel
from solvers.index.costs import SetCosts, evaluate_horner
from solvers.index.crossings import MIN_COMPILED_CURVES, SkylineIndex, build_budget_index, build_index
from solvers.index.skyline import find_skyline
from solvers.jit import python_kernel
from tests.support.cases import case_count


def skylines(index: SkylineIndex) -> list[list[int]]:
    cuts = index.offsets.tolist()
    return [index.members[a:b].tolist() for a, b in pairwise(cuts)]


def check(curves: Floats, accuracies: Floats, largest: float = inf) -> SkylineIndex:
    """Compare with the skyline between all breakpoints, and at random sizes."""
    index = build_index(curves, accuracies, largest)
    assert index.sizes[0] == 1
    assert np.all(np.diff(index.sizes) > 0)
    assert index.sizes[-1] <= largest
    stored = skylines(index)
    ends = [*index.sizes[1:].tolist(), min(largest, 2 * float(index.sizes[-1]) + 1)]
    between = [(a + b) / 2 for a, b in zip(index.sizes.tolist(), ends, strict=True) if b > a * (1 + 1e-9)]
    for size in [*between, *(1 + np.random.default_rng(0).exponential(5, case_count(20, 10)))]:
        if size <= largest:
            place = int(np.searchsorted(index.sizes, size, "right")) - 1
            assert stored[place] == find_skyline(evaluate_horner(curves, size), accuracies)[::-1].tolist(), size
    assert all(one != two for one, two in pairwise(stored[1:]))
    return index


@pytest.mark.parametrize("kind", ["whole", "real", "few"])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4])
def test_the_index_holds_the_skyline_at_every_size(kind: str, degree: int) -> None:
    rng = np.random.default_rng(degree)
    for trial in range(case_count(25, 8)):
        count = int(rng.integers(1, 30))
        if kind == "whole":
            curves = rng.integers(0, 5, (count, degree + 1)).astype(float)
        elif kind == "real":
            curves = rng.random((count, degree + 1)) * 10.0 ** -np.arange(degree + 1) * 10
        else:
            curves = rng.integers(0, 3, (count, degree + 1)) * np.array([8, 3, 1, 0.25, 0.125])[: degree + 1]
        accuracies = np.sort(rng.integers(0, 8, count) / 8 if trial % 2 else rng.random(count))[::-1]
        check(curves, accuracies, 6.0 if trial % 5 == 0 else inf)


def test_equal_accuracies_the_cheaper_one_is_on_the_skyline() -> None:
    index = check(np.array([[4.0, 0.0], [2.0, 1.0]]), np.array([0.8, 0.8]))
    assert (index.sizes.tolist(), skylines(index)) == ([1.0, 2.0], [[1], [0]])


def test_tangent_curves_do_not_change_places() -> None:
    """n² + 9 touches 6n at 3: the better one stays above it, or below it, on both sides."""
    curves = np.array([[9.0, 0.0, 1.0], [0.0, 6.0, 0.0]])
    above, below = check(curves, np.array([0.9, 0.8])), check(curves[::-1], np.array([0.9, 0.8]))
    assert skylines(above) == [[1, 0]]
    assert skylines(below) == [[0]]
    assert above.crossings == below.crossings == 0


def test_a_cubic_that_touches_and_one_that_passes_through_a_double_root() -> None:
    """(n - 2)²(n - 4) changes its sign at 4 only."""
    curves = np.array([[0.0, 20.0, 0.0, 1.0], [16.0, 0.0, 8.0, 0.0]])
    index = check(curves, np.array([0.9, 0.8]))
    assert index.sizes.tolist() == [1.0, pytest.approx(4.0)]
    assert skylines(index) == [[0], [1, 0]]


def test_identical_curves_stand_in_order_of_preference() -> None:
    index = check(np.array([[1.0, 1.0]] * 3), np.array([0.9, 0.9, 0.7]))
    assert (skylines(index), index.crossings) == ([[0]], 0)


def test_several_curves_through_one_point_make_one_breakpoint() -> None:
    """Slopes 0 to 4 through (3, 12): all ten pairs change places there."""
    curves = np.array([[12.0 - 3 * slope, float(slope)] for slope in range(5)])
    rising, falling = check(curves, np.linspace(0.9, 0.5, 5)), check(curves[::-1], np.linspace(0.9, 0.5, 5))
    assert rising.sizes.tolist() == falling.sizes.tolist() == [1.0, 3.0]
    assert rising.crossings == falling.crossings == 10
    assert skylines(rising) == [[4, 3, 2, 1, 0], [0]]
    assert skylines(falling) == [[0], [4, 3, 2, 1, 0]]


def test_curves_that_meet_at_size_1_part_just_after_it() -> None:
    index = build_index(np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]]), np.array([0.9, 0.8, 0.8]))
    assert index.sizes.tolist() == [1.0, np.nextafter(1.0, 2.0)]
    assert skylines(index) == [[0], [2, 0]]


def test_crossings_beyond_the_largest_size_are_left_out() -> None:
    curves, accuracies = np.array([[4.0, 0.0], [2.0, 1.0]]), np.array([0.9, 0.8])
    assert len(build_index(curves, accuracies).sizes) == 2
    assert len(build_index(curves, accuracies, 1.5).sizes) == 1


def test_compiled_and_interpreted_sweeps_give_the_same() -> None:
    rng = np.random.default_rng(3)
    for degree in (2, 3):
        curves = rng.random((14, degree + 1)) * [10, 1, 0.1, 0.01][: degree + 1]
        accuracies = np.sort(rng.random(14))[::-1].copy()  # another layout would be compiled for
        order = np.lexsort((np.arange(14), *module._at_one(curves).T[::-1])).astype(np.int64)
        results = [
            kernel.sweep(curves, accuracies, order.copy(), inf, module.MERGE_SHARE)
            for kernel in (crossings_kernel, python_kernel("solvers.index.crossings_kernel"))
        ]
        for one, two in zip(*results, strict=True):
            assert np.array_equal(one, two)


@pytest.mark.kernel
def test_two_thousand_candidates_are_indexed() -> None:
    rng = np.random.default_rng(0)
    features = rng.random((13, 3)) * [100, 1, 0.001]
    masks = rng.choice(1 << 13, 2000, replace=False)
    bits = masks[:, None] >> np.arange(13) & 1
    accuracies = 1 - np.exp(-(bits @ rng.random(13)) / 3)
    order = np.argsort(-accuracies)
    index = build_index((bits @ features)[order], accuracies[order])
    assert len(masks) > MIN_COMPILED_CURVES
    assert index.crossings > 100_000
    assert index.entries_if_all > 100 * len(index.members)
    for size in index.sizes[1:-1].tolist()[::20]:
        middle = size * (1 + 1e-7)
        place = int(np.searchsorted(index.sizes, middle, "right")) - 1
        expected = find_skyline(evaluate_horner((bits @ features)[order], middle), accuracies[order])[::-1].tolist()
        assert skylines(index)[place] == expected


def test_one_budget_gives_one_answer_for_each_range() -> None:
    index = build_budget_index(np.array([2.0, 1.5, inf, inf]), np.array([0.9, 0.8, 0.5, 0.4]))
    assert skylines(index) == [[0], [2]]
    assert index.sizes.tolist() == [1.0, np.nextafter(2.0, 3.0)]


def test_the_largest_affordable_size_is_exact() -> None:
    rng = np.random.default_rng(0)
    curves = rng.random((50, 3))
    costs = SetCosts(np.arange(3)[:, None], curves)
    sizes = costs.find_affordable_sizes(curves, 5.0)
    some = np.isfinite(sizes)
    assert some.all()
    assert np.all(evaluate_horner(curves, sizes) <= 5.0)
    assert np.all(evaluate_horner(curves, np.nextafter(sizes, inf)) > 5.0)
    assert costs.find_affordable_sizes(np.array([[9.0, 0.0, 0.0]]), 5.0).tolist() == [-inf]


def test_a_last_root_far_beyond_the_others_is_not_lost() -> None:
    curves = np.array([[0.0, 3.67e-11, 541356.9, 0.0], [4.09e-6, 0.0, 0.0, 8.4e-12]])
    index = build_index(curves, np.array([0.9, 0.5]))
    first = index.members[index.offsets[0] : index.offsets[1]].tolist()
    assert first == [1, 0]


def test_a_crossing_just_above_the_only_size_is_no_fault() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        curves = rng.integers(0, 4, (6, 3)) / 10
        accuracies = np.sort(rng.choice(99, 6, replace=False))[::-1] / 100
        index = build_index(curves, accuracies.copy(), 1.0)
        assert len(index.sizes) >= 1
        assert len(index.offsets) == len(index.sizes) + 1
