"""Exact dominance test of cost curves: whether one polynomial is never above another.

The test computes roots; it does not sample sizes.

A curve is a polynomial in one size, given by the coefficients of 1, n, n², … Dominance (Definition 3.1) covers all
sizes n ≥ 1, or 1 ≤ n ≤ N where sizes are limited. A curve that only touches another is not above it. Coefficients are
floating-point numbers, which are exact rationals: where rounding could matter, Sturm's theorem counts the roots in an
interval in rational arithmetic.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, inf, prod

import numpy as np

from models.arrays import Bools, Floats, Int64s

SIGN_TOLERANCE = 1e-9
"""The sign of a value below this share of its terms' magnitude is not trusted."""
_WITNESSES = 1.0 + np.concatenate(([0.0], np.logspace(-2, 6, 33)))
"""Sizes at which being above is tested: one hit refutes dominance, none proves nothing."""


def is_at_most_everywhere(curves: Floats, other: Floats, largest: float = inf) -> Bools:
    """Return whether each curve is at most ``other`` at every size from 1 to ``largest``, (m,).

    Args:
        curves: (m, d + 1), coefficients by rising power.
        other: (d + 1,).
    Complexity: O(m · d²), and O(d³) rational operations for each curve of degree 3 or more whose terms cross, or that
        is too close to decide in floating point.

    >>> is_at_most_everywhere(np.array([[0.0, 6.0, 0.0], [0.0, 6.1, 0.0]]), np.array([9.0, 0.0, 1.0])).tolist()
    [True, False]
    """
    answer = np.asarray(np.all(curves <= other, axis=1))
    undecided = np.flatnonzero(~answer)
    if not len(undecided):
        return answer
    differences = other - curves[undecided]
    scales = np.abs(other) + np.abs(curves[undecided])
    shift = _make_shift_matrix(np.arange(curves.shape[1])[:, None])
    yes, no = _decide_by_terms(differences @ shift, scales @ shift, largest)
    if largest < inf or curves.shape[1] > 3:
        no |= _find_negative_samples(differences, scales, largest)
    if curves.shape[1] == 3:
        closed = _decide_by_discriminant(differences @ shift, scales @ shift, largest)
        yes, no = yes | closed[0], no | closed[1]
    answer[undecided[yes & ~no]] = True
    for i in undecided[~yes & ~no].tolist():
        exact = [Fraction(a) - Fraction(b) for a, b in zip(other.tolist(), curves[i].tolist(), strict=True)]
        answer[i] = not has_negative_value(exact, largest)
    return answer


def is_at_most_termwise(curves: Floats, other: Floats, powers: Int64s) -> Bools:
    """Return whether each curve is provably never above ``other``: (m,).

    The test is for sizes of several dimensions. With n_i = 1 + u_i, the difference of two curves is a polynomial in u ≥
    0. If all its coefficients are at least 0, the difference is, too. The test is sufficient, not necessary. If it
    misses a dominance, more candidates are kept than needed, never too few.

    Args:
        curves: (m, t).
        other: (t,).
        powers: (t, k).

    >>> powers = np.array([[0, 0], [1, 1]])
    >>> is_at_most_termwise(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([0.0, 1.0]), powers).tolist()
    [True, False]
    """
    answer = np.asarray(np.all(curves <= other, axis=1))
    shift = _make_shift_matrix(powers)
    shifted, scales = (other - curves) @ shift, (np.abs(other) + np.abs(curves)) @ shift
    for i in np.flatnonzero(~answer & np.all(shifted >= -SIGN_TOLERANCE * scales, axis=1)).tolist():
        exact = [Fraction(a) - Fraction(b) for a, b in zip(other.tolist(), curves[i].tolist(), strict=True)]
        columns = shift.astype(np.int64).T.tolist()
        answer[i] = all(sum(a * b for a, b in zip(exact, column, strict=True)) >= 0 for column in columns)
    return answer


def has_negative_value(coefficients: list[Fraction], largest: float = inf) -> bool:
    """Return whether a polynomial is negative at some size from 1 to ``largest``, in rational arithmetic.

    A polynomial is negative somewhere if it is negative at an end of the interval, or changes sign inside. Square-free
    factorization makes all roots simple. The polynomial changes sign at the roots of factors of odd multiplicity, which
    Sturm's theorem counts.

    >>> [has_negative_value([Fraction(c), Fraction(-6), Fraction(1)]) for c in (9, 8)]
    [False, True]
    """
    polynomial = _trim(coefficients)
    if not polynomial:
        return False
    top = polynomial[-1] if largest == inf else _value(polynomial, Fraction(largest))
    if top < 0 or _value(polynomial, Fraction(1)) < 0:
        return True
    return any(
        _count_roots(factor, largest) > 0
        for power, factor in _factor_square_free(polynomial)
        if power % 2 and len(factor) > 1
    )


def _decide_by_terms(shifted: Floats, scales: Floats, largest: float) -> tuple[Bools, Bools]:
    """Decide by the coefficients in u = n - 1 whether differences are ever negative.

    Return which are certainly never negative, and which certainly are.

    A difference is never negative if all coefficients are clearly positive or exactly zero. It is negative somewhere if
    its value at n = 1 is clearly negative. If sizes are unlimited, a clearly negative leading coefficient has the same
    effect.
    """
    yes = np.all((shifted >= SIGN_TOLERANCE * scales) | (scales == 0), axis=1)
    no = shifted[:, 0] < -SIGN_TOLERANCE * scales[:, 0]
    if largest == inf:
        leading = shifted.shape[1] - 1 - np.argmax(scales[:, ::-1] > 0, axis=1)
        rows = np.arange(len(shifted))
        no |= shifted[rows, leading] < -SIGN_TOLERANCE * scales[rows, leading]
    return np.asarray(yes), np.asarray(no)


def _find_negative_samples(differences: Floats, scales: Floats, largest: float) -> Bools:
    """Return the differences that are clearly negative at one of a few sizes."""
    sizes = np.append(_WITNESSES[largest > _WITNESSES], min(largest, _WITNESSES[-1]))
    values = sizes[None, :] ** np.arange(differences.shape[1])[:, None]
    return np.asarray(np.any(differences @ values < -SIGN_TOLERANCE * (scales @ values), axis=1))


def _decide_by_discriminant(shifted: Floats, scales: Floats, largest: float) -> tuple[Bools, Bools]:
    """Decide quadratics e0 + e1·u + e2·u² by their minimum, where rounding cannot matter.

    With e1 < 0 < e2 the minimum is at u = -e1 / 2 e2; it is inside the interval if below ``largest`` - 1, and negative
    if e1² > 4 e0 e2. A minimum at an end has been tested already.
    """
    e0, e1, e2 = shifted.T
    s0, s1, s2 = scales.T
    dips = (e1 < -SIGN_TOLERANCE * s1) & (e2 > SIGN_TOLERANCE * s2)
    left, right = e1 * e1, 4 * e0 * e2
    doubt = 10 * SIGN_TOLERANCE * (s1 * s1 + 4 * s0 * s2)
    end = largest - 1
    inside = dips if end == inf else dips & (-e1 < 2 * e2 * end * (1 - SIGN_TOLERANCE))
    beyond = np.zeros_like(dips) if end == inf else dips & (-e1 > 2 * e2 * end * (1 + SIGN_TOLERANCE))
    at_end = e0 if end == inf else e0 + end * (e1 + end * e2)
    clear_end = np.zeros_like(dips) if end == inf else at_end > SIGN_TOLERANCE * (s0 + end * (s1 + end * s2))
    clear_start = e0 > SIGN_TOLERANCE * s0
    concave = (e2 < -SIGN_TOLERANCE * s2) & (end < inf)
    yes = (inside & clear_start & (left < right - doubt)) | ((beyond | concave) & clear_start & clear_end)
    return np.asarray(yes), np.asarray(inside & (left > right + doubt))


def _make_shift_matrix(powers: Int64s) -> Floats:
    return _compute_shift_matrix(powers.shape, powers.astype(np.int64).tobytes())


@lru_cache(maxsize=8)
def _compute_shift_matrix(shape: tuple[int, int], data: bytes) -> Floats:
    """Return the matrix, (t, q), from coefficients of n^p to those of u^q, with n = 1 + u.

    Entries are ∏ binomial(p_i, q_i).

    The powers q are all combinations up to the largest p in each dimension.
    """
    powers = np.frombuffer(data, dtype=np.int64).reshape(shape)
    tops = powers.max(axis=0, initial=0) + 1
    every = np.indices(tops).reshape(len(tops), -1).T.tolist() if len(tops) else [[]]
    rows = [[prod(comb(a, b) for a, b in zip(p, q, strict=True)) for q in every] for p in powers.tolist()]
    return np.array(rows, dtype=np.float64)


def _trim(coefficients: list[Fraction]) -> list[Fraction]:
    while coefficients and coefficients[-1] == 0:
        coefficients = coefficients[:-1]
    return coefficients


def _value(polynomial: list[Fraction], at: Fraction) -> Fraction:
    value = Fraction(0)
    for coefficient in reversed(polynomial):
        value = value * at + coefficient
    return value


def _derivative(polynomial: list[Fraction]) -> list[Fraction]:
    return [power * coefficient for power, coefficient in enumerate(polynomial)][1:]


def _divide(polynomial: list[Fraction], divisor: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Return quotient and remainder of polynomials."""
    rest, quotient = list(polynomial), [Fraction(0)] * max(len(polynomial) - len(divisor) + 1, 0)
    for i in reversed(range(len(quotient))):
        quotient[i] = rest[i + len(divisor) - 1] / divisor[-1]
        for j, coefficient in enumerate(divisor):
            rest[i + j] -= quotient[i] * coefficient
    return quotient, _trim(rest[: len(divisor) - 1])


def _find_common_divisor(one: list[Fraction], two: list[Fraction]) -> list[Fraction]:
    """Return the greatest common divisor, with leading coefficient 1."""
    while two:
        one, two = two, _divide(one, two)[1]
    return [coefficient / one[-1] for coefficient in one]


def _factor_square_free(polynomial: list[Fraction]) -> list[tuple[int, list[Fraction]]]:
    """Return pairs of multiplicity and factor by Yun's square-free factorization."""
    factors = []
    shared = _find_common_divisor(polynomial, _derivative(polynomial)) if len(polynomial) > 1 else [Fraction(1)]
    rest, _ = _divide(polynomial, shared)
    power = 1
    while len(rest) > 1:
        both = _find_common_divisor(rest, shared)
        factors.append((power, _divide(rest, both)[0]))
        rest, shared = both, _divide(shared, both)[0]
        power += 1
    return factors


def _count_roots(factor: list[Fraction], largest: float) -> int:
    """Count the roots in (1, largest) of a polynomial without multiple roots, by Sturm's theorem."""
    chain = [factor, _derivative(factor)]
    while len(chain[-1]) > 1:
        rest = _divide(chain[-2], chain[-1])[1]
        chain.append([-coefficient for coefficient in rest])
    start = [_value(each, Fraction(1)) for each in chain]
    end = [each[-1] if largest == inf else _value(each, Fraction(largest)) for each in chain]
    at_end = int(end[0] == 0)
    return _count_sign_changes(start) - _count_sign_changes(end) - at_end


def _count_sign_changes(values: list[Fraction]) -> int:
    signs = [value > 0 for value in values if value != 0]
    return sum(a != b for a, b in pairwise(signs))
