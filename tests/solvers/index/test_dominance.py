"""Whether a curve is ever above another, against its difference's turning points, and at the border."""

from math import inf

import numpy as np
import pytest

from solvers.index.dominance import is_at_most_everywhere, is_at_most_termwise


def curves_of(difference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split a difference into two curves of non-negative coefficients: (lower, upper)."""
    return np.maximum(-difference, 0), np.maximum(difference, 0)


def least(difference: np.ndarray, largest: float) -> float:
    """Find the least value at ends and turning points, as a share of what it is made of."""
    polynomial = np.trim_zeros(difference[::-1], "f")
    points = [1.0, largest if largest < inf else 1e7]
    if len(polynomial) > 2:
        points += [r.real for r in np.roots(np.polyder(polynomial)) if abs(r.imag) < 1e-4 and 1 <= r.real <= points[1]]
    values = [np.polyval(polynomial, x) / (1e-300 + np.polyval(np.abs(polynomial), x)) for x in points]
    return float(min(values))


@pytest.mark.parametrize("largest", [inf, 4.0, 2.5, 1.0])
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_dominance_is_what_the_turning_points_say(degree: int, largest: float) -> None:
    rng = np.random.default_rng(degree)
    for trial in range(80):
        if trial % 2:
            difference = rng.integers(-4, 5, degree + 1).astype(float)
        else:  # whole roots, so that curves touch
            difference = np.array([1.0])
            for root in rng.integers(0, 5, degree):
                difference = np.convolve(difference, [-root, 1.0])
            difference *= rng.choice([-1, 1])
        lower, upper = curves_of(difference)
        assert is_at_most_everywhere(lower[None], upper, largest)[0] == (least(difference, largest) >= -1e-7), (
            difference
        )


@pytest.mark.parametrize(
    ("difference", "largest", "expected"),
    [
        ([9, -6, 1], inf, True),  # touches at 3
        ([9 - 1e-12, -6, 1], inf, False),  # goes below by less than rounding would tell
        ([9 + 1e-12, -6, 1], inf, True),
        ([8, -6, 1], inf, False),  # 2 and 4
        ([8, -6, 1], 2.0, True),
        ([8, -6, 1], 2.0 + 1e-12, False),
        ([-1, 1], inf, True),  # equal at 1
        ([-1 - 1e-15, 1], inf, False),
        ([10, -1], 10.0, True),  # equal at the largest size
        ([10, -1], 10.1, False),
        ([10, -1], inf, False),
        ([5, 6, -1], 6.0, True),  # concave: the ends decide
        ([5, 6, -1], 7.0, False),
        ([0, 0, 0], inf, True),
        ([-36, 60, -37, 10, -1], inf, False),  # -(n - 2)²(n - 3)²
        ([36, -60, 37, -10, 1], inf, True),  # touches twice
        ([-8, 12, -6, 1], inf, False),  # (n - 2)³
        ([12, -16, 7, -1], 3.0, True),  # -(n - 2)²(n - 3): 0 at the end
    ],
)
def test_dominance_at_the_border(difference: list[float], largest: float, expected: bool) -> None:
    lower, upper = curves_of(np.array(difference, dtype=float))
    assert is_at_most_everywhere(lower[None], upper, largest).tolist() == [expected]


def test_many_curves_are_told_at_once() -> None:
    rng = np.random.default_rng(0)
    other = np.array([2.0, 0.2, 0.002])
    curves = np.abs(rng.normal(size=(500, 3))) * [2, 0.2, 0.002]
    dominated = is_at_most_everywhere(curves, other)
    assert dominated.tolist() == [least(other - curve, inf) >= 0 for curve in curves]


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([1, 0, 0, 0], True),  # 1 ≤ l·b
        ([0, 1, 0, 0], True),  # l ≤ l·b
        ([0, 0.5, 0.5, 0], True),  # the mean of l and b
        ([0, 1, 1, 0], False),
        ([2, 0, 0, 0], False),
        ([0, 0, 0, 1], True),
        ([1e-13, 0, 0, 1], False),
    ],
)
def test_sizes_of_two_dimensions_are_told_by_terms(curve: list[float], expected: bool) -> None:
    powers = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    dominated = is_at_most_termwise(np.array([curve], dtype=float), np.array([0.0, 0.0, 0.0, 1.0]), powers)
    assert dominated.tolist() == [expected]
