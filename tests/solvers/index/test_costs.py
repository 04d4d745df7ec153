"""Costs of one set at many sizes are those of many sets at one size."""

import numpy as np
import pytest

from models.index import size_from_lengths, size_to_tuple
from solvers.index.costs import MAX_TERM, SetCosts, evaluate_at_sizes


@pytest.mark.parametrize("powers", [np.empty((1, 0)), np.arange(4)[:, None]])
def test_costs_at_sizes_equal_those_of_decisions_bit_for_bit(powers: np.ndarray) -> None:
    """A budget that is a set's cost must afford the set."""
    rng = np.random.default_rng(0)
    costs = SetCosts(powers.astype(np.int64), rng.random((5, len(powers))))
    sums = costs.sum_features(np.arange(32))
    sizes = rng.uniform(1, 1000, (200, powers.shape[1]))
    for curve, one in zip(sums, np.array([costs.evaluate(sums, size) for size in sizes.tolist()]).T, strict=True):
        assert evaluate_at_sizes(curve, costs.powers, sizes).tolist() == one.tolist()


def test_costs_at_sizes_of_several_dimensions_stay_finite() -> None:
    powers = np.array([[0, 0], [1, 1], [2, 0]])
    sizes = np.array([[2.0, 3.0], [1e160, 1e160]])
    assert evaluate_at_sizes(np.array([1.0, 2.0, 0.5]), powers, sizes[:1]).tolist() == [1 + 12 + 2]
    assert evaluate_at_sizes(np.array([0.0, 0.0, 1.0]), powers, sizes)[1] == MAX_TERM


@pytest.mark.parametrize("size", [None, 64.0, (640.0, 480.0)])
def test_a_size_is_read_back_from_its_lengths(size: float | tuple[float, ...] | None) -> None:
    assert size_from_lengths(size_to_tuple(size)) == size
