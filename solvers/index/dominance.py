"""Whether one cost curve is never above another: decided exactly, by the roots of their difference, never by sampling.

A curve is a polynomial in one size, given by the coefficients of 1, n, n², …; dominance (Definition 3.1) asks for all
sizes n ≥ 1, or 1 ≤ n ≤ N where sizes are limited. Touching counts as not above. Coefficients are floating-point
numbers, which are exact rationals: where rounding could matter, the question is answered in rational arithmetic by
Sturm's theorem, which counts the roots in an interval.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, inf, prod

import numpy as np

from models.arrays import Bools, Floats, Int64s

DOUBT = 1e-9
"""A value smaller than this share of what it was computed from is not trusted to have the right sign."""
_WITNESSES = 1.0 + np.concatenate(([0.0], np.logspace(-2, 6, 33)))
"""Sizes at which a curve may be seen to be above: seeing it once refutes, not seeing it proves nothing."""


def never_above(curves: Floats, other: Floats, largest: float = inf) -> Bools:
    """Tell which curves are at no size from 1 to ``largest`` above the other one.

    curves: (m, d + 1), other: (d + 1,) coefficients by rising power. O(m · d²) time, and some O(d³) in rational
    arithmetic for each curve of degree 3 or more that crosses in its terms, or that comes too close to call.

    >>> never_above(np.array([[0.0, 6.0, 0.0], [0.0, 6.1, 0.0]]), np.array([9.0, 0.0, 1.0])).tolist()
    [True, False]
    """
    answer = np.asarray(np.all(curves <= other, axis=1))
    open_ = np.flatnonzero(~answer)
    if not len(open_):
        return answer
    differences = other - curves[open_]
    scales = np.abs(other) + np.abs(curves[open_])
    shift = _shift_matrix(np.arange(curves.shape[1])[:, None])
    yes, no = _told_by_terms(differences @ shift, scales @ shift, largest)
    if largest < inf or curves.shape[1] > 3:
        no |= _seen_below_zero(differences, scales, largest)
    if curves.shape[1] == 3:
        closed = _told_by_discriminant(differences @ shift, scales @ shift, largest)
        yes, no = yes | closed[0], no | closed[1]
    answer[open_[yes & ~no]] = True
    for i in open_[~yes & ~no].tolist():
        exact = [Fraction(a) - Fraction(b) for a, b in zip(other.tolist(), curves[i].tolist(), strict=True)]
        answer[i] = not goes_below_zero(exact, largest)
    return answer


def never_above_by_terms(curves: Floats, other: Floats, powers: Int64s) -> Bools:
    """Tell which curves are above the other one at no size of several dimensions, as far as terms can tell.

    powers: (t, k); curves: (m, t), other: (t,). With n_i = 1 + u_i the difference is a polynomial in u ≥ 0; if all its
    coefficients are at least 0, so is the difference. The converse does not hold: a curve that is never above may not
    be recognised, which keeps more candidates than needed and never too few.

    >>> powers = np.array([[0, 0], [1, 1]])
    >>> never_above_by_terms(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([0.0, 1.0]), powers).tolist()
    [True, False]
    """
    answer = np.asarray(np.all(curves <= other, axis=1))
    shift = _shift_matrix(powers)
    shifted, scales = (other - curves) @ shift, (np.abs(other) + np.abs(curves)) @ shift
    for i in np.flatnonzero(~answer & np.all(shifted >= -DOUBT * scales, axis=1)).tolist():
        exact = [Fraction(a) - Fraction(b) for a, b in zip(other.tolist(), curves[i].tolist(), strict=True)]
        columns = shift.astype(np.int64).T.tolist()
        answer[i] = all(sum(a * b for a, b in zip(exact, column, strict=True)) >= 0 for column in columns)
    return answer


def goes_below_zero(coefficients: list[Fraction], largest: float = inf) -> bool:
    """Tell in rational arithmetic whether a polynomial is negative at some size from 1 to ``largest``.

    It is, if it is negative at an end, or changes its sign in between: divided by the common factor with its
    derivative, and then by that quotient's common factor with what is left, every root is a simple one; those of odd
    multiplicity are where the sign changes, and Sturm's theorem counts them.

    >>> [goes_below_zero([Fraction(c), Fraction(-6), Fraction(1)]) for c in (9, 8)]
    [False, True]
    """
    polynomial = _trimmed(coefficients)
    if not polynomial:
        return False
    top = polynomial[-1] if largest == inf else _value(polynomial, Fraction(largest))
    if top < 0 or _value(polynomial, Fraction(1)) < 0:
        return True
    return any(
        _roots_inside(factor, largest) > 0
        for power, factor in _square_free(polynomial)
        if power % 2 and len(factor) > 1
    )


def _told_by_terms(shifted: Floats, scales: Floats, largest: float) -> tuple[Bools, Bools]:
    """Decide by the coefficients in u = n - 1: all clearly positive (or without any rounding zero) is never negative;
    a clearly negative value at n = 1, or without limit a clearly negative first coefficient, is negative somewhere."""
    yes = np.all((shifted >= DOUBT * scales) | (scales == 0), axis=1)
    no = shifted[:, 0] < -DOUBT * scales[:, 0]
    if largest == inf:
        leading = shifted.shape[1] - 1 - np.argmax(scales[:, ::-1] > 0, axis=1)
        rows = np.arange(len(shifted))
        no |= shifted[rows, leading] < -DOUBT * scales[rows, leading]
    return np.asarray(yes), np.asarray(no)


def _seen_below_zero(differences: Floats, scales: Floats, largest: float) -> Bools:
    """Find the differences that are clearly negative at one of a few sizes."""
    sizes = np.append(_WITNESSES[largest > _WITNESSES], min(largest, _WITNESSES[-1]))
    values = sizes[None, :] ** np.arange(differences.shape[1])[:, None]
    return np.asarray(np.any(differences @ values < -DOUBT * (scales @ values), axis=1))


def _told_by_discriminant(shifted: Floats, scales: Floats, largest: float) -> tuple[Bools, Bools]:
    """Decide quadratics e0 + e1·u + e2·u² by their minimum, where rounding cannot matter.

    With e1 < 0 < e2 the minimum is at u = -e1 / 2 e2; it is inside the interval if below ``largest`` - 1, and negative
    if e1² > 4 e0 e2. A minimum at an end has been looked at already.
    """
    e0, e1, e2 = shifted.T
    s0, s1, s2 = scales.T
    dips = (e1 < -DOUBT * s1) & (e2 > DOUBT * s2)
    left, right = e1 * e1, 4 * e0 * e2
    doubt = 10 * DOUBT * (s1 * s1 + 4 * s0 * s2)
    end = largest - 1
    inside = dips if end == inf else dips & (-e1 < 2 * e2 * end * (1 - DOUBT))
    beyond = np.zeros_like(dips) if end == inf else dips & (-e1 > 2 * e2 * end * (1 + DOUBT))
    at_end = e0 if end == inf else e0 + end * (e1 + end * e2)
    clear_end = np.zeros_like(dips) if end == inf else at_end > DOUBT * (s0 + end * (s1 + end * s2))
    clear_start = e0 > DOUBT * s0
    concave = (e2 < -DOUBT * s2) & (end < inf)
    yes = (inside & clear_start & (left < right - doubt)) | ((beyond | concave) & clear_start & clear_end)
    return np.asarray(yes), np.asarray(inside & (left > right + doubt))


def _shift_matrix(powers: Int64s) -> Floats:
    return _shift_matrix_of(powers.shape, powers.astype(np.int64).tobytes())


@lru_cache(maxsize=8)
def _shift_matrix_of(shape: tuple[int, int], data: bytes) -> Floats:
    """Make the matrix that turns coefficients of n^p into those of u^q, n = 1 + u: ∏ binomial(p_i, q_i), over all q up
    to the largest p in each dimension. (t, q)."""
    powers = np.frombuffer(data, dtype=np.int64).reshape(shape)
    tops = powers.max(axis=0, initial=0) + 1
    every = np.indices(tops).reshape(len(tops), -1).T.tolist() if len(tops) else [[]]
    rows = [[prod(comb(a, b) for a, b in zip(p, q, strict=True)) for q in every] for p in powers.tolist()]
    return np.array(rows, dtype=np.float64)


def _trimmed(coefficients: list[Fraction]) -> list[Fraction]:
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


def _divided(polynomial: list[Fraction], divisor: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Divide polynomials: quotient and remainder."""
    rest, quotient = list(polynomial), [Fraction(0)] * max(len(polynomial) - len(divisor) + 1, 0)
    for i in reversed(range(len(quotient))):
        quotient[i] = rest[i + len(divisor) - 1] / divisor[-1]
        for j, coefficient in enumerate(divisor):
            rest[i + j] -= quotient[i] * coefficient
    return quotient, _trimmed(rest[: len(divisor) - 1])


def _common(one: list[Fraction], two: list[Fraction]) -> list[Fraction]:
    """Find the greatest common divisor, with leading coefficient 1."""
    while two:
        one, two = two, _divided(one, two)[1]
    return [coefficient / one[-1] for coefficient in one]


def _square_free(polynomial: list[Fraction]) -> list[tuple[int, list[Fraction]]]:
    """Split into factors by the multiplicity of their roots (Yun's algorithm): pairs of multiplicity and factor."""
    factors = []
    shared = _common(polynomial, _derivative(polynomial)) if len(polynomial) > 1 else [Fraction(1)]
    rest, _ = _divided(polynomial, shared)
    power = 1
    while len(rest) > 1:
        both = _common(rest, shared)
        factors.append((power, _divided(rest, both)[0]))
        rest, shared = both, _divided(shared, both)[0]
        power += 1
    return factors


def _roots_inside(factor: list[Fraction], largest: float) -> int:
    """Count the roots above 1 and below ``largest`` of a polynomial without multiple roots (Sturm's theorem)."""
    chain = [factor, _derivative(factor)]
    while len(chain[-1]) > 1:
        rest = _divided(chain[-2], chain[-1])[1]
        chain.append([-coefficient for coefficient in rest])
    start = [_value(each, Fraction(1)) for each in chain]
    end = [each[-1] if largest == inf else _value(each, Fraction(largest)) for each in chain]
    at_end = int(end[0] == 0)
    return _changes(start) - _changes(end) - at_end


def _changes(values: list[Fraction]) -> int:
    signs = [value > 0 for value in values if value != 0]
    return sum(a != b for a, b in pairwise(signs))
