"""Whether what came true has drifted from estimates: sums that can be added up anywhere, and a sequential test.

OCCAM (Section 6) names drift as what it leaves open: its guarantee holds while queries come from where its samples came
from. The test is by betting. A bettor who starts with 1 and stakes a share of it on each outcome being off by more than
a margin keeps, if it is not, a wealth that ever reaches w with a probability of at most 1/w, however often one looks
(Ville's inequality). Wealth under several stakes is averaged; its logarithms are sums over outcomes, so the order of
these and the servers that count them do not matter.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from models.arrays import Floats
from solvers.statistics import normal_interval, wilson

FALSE_ALARM = 0.01
"""The probability, at most, of ever raising drift in any quantity while there is none: half of it for the errors of the
estimates themselves, which the margin allows for, half for the bets; all tests share each half."""
TESTS = ("accuracy.above", "accuracy.below", "cost.above", "time.above")
"""What is tested. That an item costs less than estimated is shown, not tested: no bound on a share is known there."""
STAKES = 0.75 * 0.5 ** np.arange(8)
SLACK, SLACK_SHARE = 0.01, 0.1
"""How far means may be from their estimates, beside sampling: a point of accuracy; a tenth of cost and time."""
LARGEST_SHARE = 20.0
"""No single outcome counts for more than so many times its estimate: one wrong clock raises nothing."""
FALLS = (0.02, 0.05, 0.1)
"""Falls of accuracy of which it is said after how many outcomes they are seen."""
SEEN = 0.9
"""How probable it is by then that drift has been raised."""
MOST_OUTCOMES = 10**7
"""A fall that takes more is never seen, as far as anybody cares."""
_LOG_ENOUGH = math.log(len(TESTS) / (FALSE_ALARM / 2))
_OWN = FALSE_ALARM / 2 / len(TESTS)
_Z_OWN = NormalDist().inv_cdf(1 - _OWN)
_Z_SEEN = NormalDist().inv_cdf(SEEN)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One quantity of n outcomes, of those that say it.

    estimated: (n,), NaN where nothing was; realised: (n,); judged_on: (n,) or one for all, on how many items the
    estimate was counted, 0 where that is unknown.
    """

    estimated: Floats
    realised: Floats
    judged_on: Floats | float


def counted_on(items: int, coverage: float | None) -> int:
    """Say on how many of the items that a build judged by an accuracy was counted: on those that got an answer.

    >>> counted_on(400, 0.1), counted_on(400, None), counted_on(0, 0.1)
    (40, 400, 0)
    """
    return items if coverage is None or not items else max(round(items * coverage), 1)


def margin(accuracies: Floats, judged_on: Floats | float) -> Floats:
    """Say how far true accuracies may be from estimates, (n,), that were counted on so many items, (n,) or one number.

    A point, and what the interval of Clopper and Pearson allows, on the side where it allows more: it holds for any
    number of items, where Wilson's fails for few.

    >>> margin(np.array([0.5, 1.0]), 10_000).round(4).tolist()
    [0.0252, 0.0107]
    """
    from scipy.special import betaincinv

    pairs, place = np.unique(accuracies + 1j * np.asarray(judged_on), return_inverse=True)  # most decisions are alike
    shares, n = pairs.real, pairs.imag
    right, wrong = shares * n, (1 - shares) * n
    most = np.where(wrong > 0, betaincinv(right + 1, wrong, 1 - _OWN), 1.0)
    least = np.where(right > 0, betaincinv(right, wrong + 1, _OWN), 0.0)
    return np.asarray(np.where(n > 0, SLACK + np.maximum(most - shares, shares - least), SLACK)[place])


def margin_of_means(judged_on: Floats | float) -> Floats:
    """Say by how much true mean costs and times may exceed estimates that are means over so many items, as a share.

    A tenth, and 3.02 standard errors of a mean whose items spread as much as their mean.

    >>> margin_of_means(10_000).round(3).item()
    0.13
    """
    n = np.asarray(judged_on, dtype=np.float64)
    return np.asarray(SLACK_SHARE + np.where(n > 0, _Z_OWN / np.sqrt(np.maximum(n, 1)), 0.0))


def tally(quantity: str, outcomes: Outcomes) -> dict[str, float]:
    """Sum up outcomes of ``accuracy`` (realised is 0 or 1), ``cost`` or ``time``: what to add to what was counted.

    O(n) time. Those without an estimate are summed up apart and tested by nobody.
    """
    there = ~np.isnan(outcomes.estimated)
    estimated, realised, alone = outcomes.estimated[there], outcomes.realised[there], outcomes.realised[~there]
    judged_on = np.broadcast_to(outcomes.judged_on, there.shape)[there]
    sums = _moments(f"{quantity}.with", realised) | _moments(f"{quantity}.alone", alone)
    if len(estimated):
        sums[f"{quantity}.estimated"] = math.fsum(estimated.tolist())
        sums |= _bets(quantity, estimated, realised, judged_on)
    return sums


def _moments(name: str, values: Floats) -> dict[str, float]:
    if not len(values):
        return {}
    squares = math.fsum((values * values).tolist())
    return {f"{name}.n": len(values), f"{name}.sum": math.fsum(values.tolist()), f"{name}.squares": squares}


def _bets(quantity: str, estimated: Floats, realised: Floats, judged_on: Floats) -> dict[str, float]:
    """Bet on each outcome being off by more than the margin: logarithms of what becomes of each stake."""
    if quantity == "accuracy":
        off, allowed = realised - estimated, margin(estimated, judged_on)
        bets = _stake(f"{quantity}.above", off, allowed) | _stake(f"{quantity}.below", -off, allowed)
        return bets | {f"{quantity}.allowed": math.fsum(allowed.tolist())}
    paid = estimated > 0
    shares = np.minimum(realised[paid], LARGEST_SHARE * estimated[paid]) / estimated[paid]
    return _stake(f"{quantity}.above", shares - 1, margin_of_means(judged_on[paid]))


def _stake(test: str, off: Floats, allowed: Floats) -> dict[str, float]:
    """Stake on ``off``, (n,) and at least -1, being above what is allowed: no stake can lose more than there is."""
    gains = (off - allowed) / (1 + allowed)
    logs = np.log1p(STAKES[:, None] * gains).sum(axis=1)
    return {f"{test}.{place}": log for place, log in enumerate(logs.tolist())}


def drifted(sums: Mapping[str, float]) -> tuple[str, ...]:
    """Say which quantities have drifted from their estimates: one of its tests has won enough.

    >>> drifted(tally("accuracy", Outcomes(np.full(500, 0.9), np.zeros(500), 1000)))
    ('accuracy',)
    """
    won = [test for test in TESTS if _log_wealth(sums, test) >= _LOG_ENOUGH]
    return tuple(dict.fromkeys(test.partition(".")[0] for test in won))


def _log_wealth(sums: Mapping[str, float], test: str) -> float:
    logs = np.array([sums.get(f"{test}.{place}", 0.0) for place in range(len(STAKES))])
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).mean()))


def outcomes_to_see(fall: float, estimated: float, allowed: float) -> int | None:
    """Say after how many outcomes drift is raised nine times in ten if accuracy is by ``fall`` below its estimate.

    It is the test's own: its bets, against the margin allowed, on that many outcomes, of which so many are wrong as in
    nine streams in ten at least. None if it takes more than anybody sends: a fall within the margin is no drift.
    O(log of the answer) looks.

    >>> outcomes_to_see(0.05, 0.9, 0.02), outcomes_to_see(0.02, 0.9, 0.02)
    (3863, None)
    """
    right, wrong = (
        _stake("accuracy.below", np.array([estimated - outcome]), np.array([allowed])) for outcome in (1.0, 0.0)
    )

    def seen(count: int) -> bool:
        bad = _wrong_at_least(count, min(1 - estimated + fall, 1.0))
        return "accuracy" in drifted({test: bad * log + (count - bad) * right[test] for test, log in wrong.items()})

    most = 1
    while not seen(most):
        most *= 2
        if most > MOST_OUTCOMES:
            return None
    return bisect_left(range(most), True, lo=most // 2, key=seen)


def _wrong_at_least(count: int, share: float) -> int:
    """Say how many of so many outcomes are wrong in nine streams in ten, at least; by the normal approximation."""
    return max(math.floor(count * share - _Z_SEEN * math.sqrt(count * share * (1 - share))), 0)


@dataclass(frozen=True, slots=True)
class Compared:
    """A quantity's means, and bounds for the one to come; None where there are too few outcomes."""

    outcomes: int
    estimated: float | None
    realised: float | None
    low: float | None
    high: float | None


def compare(quantity: str, sums: Mapping[str, float]) -> Compared:
    """Compare means of what was estimated and what came true; of outcomes with estimates, if there are any.

    The bounds hold with 95 % confidence: Wilson's for shares, else the normal ones of a mean.
    """
    estimated = sums.get(f"{quantity}.estimated")
    kind = "alone" if estimated is None else "with"
    n, total, squares = (sums.get(f"{quantity}.{kind}.{name}", 0.0) for name in ("n", "sum", "squares"))
    if not n:
        return Compared(0, None, None, None, None)
    mean = total / n
    low, high = wilson(mean, float(n)) if quantity == "accuracy" else _normal(mean, n, squares)
    return Compared(int(n), None if estimated is None else estimated / n, mean, low, high)


def _normal(mean: float, n: float, squares: float) -> tuple[float | None, float | None]:
    if n < 2:
        return None, None
    return normal_interval(mean, math.sqrt(max(squares / n - mean * mean, 0.0) / (n - 1)))
