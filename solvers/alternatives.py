"""The yardstick: what a person could do without a plan, and what a plan is worth beside it.

Simple alternatives are single classifiers or fixed sets of features, and coins: one that sends each item to either of
two alternatives reaches every point on the line between them. What is saved is held against the cheapest of these that
is at least as accurate as the plan; what is gained, against the most accurate that costs no more. All are measured on
the same rows, which must have had no part in choosing the plan, and resampled together (paired bootstrap, Efron and
Tibshirani, *An Introduction to the Bootstrap*, Chapters 8 and 13), so that rows which are hard for all do not blur the
comparison. Alternatives may be picked by the very rows that report: that can only make them look better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s
from models.worth import Alternative, Beside, Interval, Today, Verdict, Worth, share
from solvers.item_splits import resampled_shares, split_rows

RESAMPLINGS = 1000
_AT_ONCE = 50
"""Resamplings that are reckoned together: what a cache holds."""
_LEVEL = 0.95
NEARLY = 0.01
"""How much less accurate than the most accurate alternative a point may be that a headline speaks of."""
_DOUBT = 1e-12
ROUNDED = 1e-9
"""Shares that differ by less are equal: sums of the same rows round differently."""
_MOST_NAMES = 3
LEAST_SAVED = -1000.0
"""What a plan is said to save that costs anything where an alternative is free."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What one way of deciding did with rows. right: (n,) 1 where it was, 0 where not, or did not answer; costs: (n,)
    what each row cost."""

    right: Floats
    costs: Floats

    def take(self, rows: Int64s) -> "Replay":
        """Take some of the rows."""
        return Replay(self.right[rows], self.costs[rows])


@dataclass(frozen=True, slots=True, eq=False)
class TradeOff:
    """One setting of a plan: the query that asks for it, and what it did with rows."""

    query: dict[str, Any]
    replay: Replay


@dataclass(frozen=True, slots=True, eq=False)
class Alternatives:
    """Simple things to do instead: their names, (a,), what each did with the same rows, (n, a) both, and the items of
    the rows, (n,), equal for rows of one item. today: which of them people pay for today; None: unknown. unit: of
    costs."""

    names: tuple[str, ...]
    right: Floats
    costs: Floats
    items: Int64s
    today: str | None = None
    unit: str = ""

    @classmethod
    def of(cls, replays: dict[str, Replay], items: Int64s, today: str | None = None, unit: str = "") -> "Alternatives":
        """Stand replays of the same rows side by side."""
        every = replays.values()
        right, costs = (np.column_stack(each) for each in ([r.right for r in every], [r.costs for r in every]))
        return cls(tuple(replays), right.astype(np.float64), costs.astype(np.float64), items, today, unit)

    def take(self, rows: Int64s) -> "Alternatives":
        """Take some of the rows."""
        return Alternatives(self.names, self.right[rows], self.costs[rows], self.items[rows], self.today, self.unit)


def set_name(features: Sequence[str], otherwise: str) -> str:
    """Name a fixed set of features: by these if they are few.

    >>> set_name(["sift", "texture"], "the 2 cheapest features"), set_name([], "")
    ('always sift + texture', 'the most common class')
    """
    if not features:
        return "the most common class"
    return f"always {' + '.join(features)}" if len(features) <= _MOST_NAMES else otherwise


def each_alone(dataset: Trace, rows: Int64s) -> dict[str, Replay]:
    """Let each classifier of a trace answer for some rows."""
    right, costs = dataset.quality[rows], dataset.costs[rows]
    names = [f"always {classifier.name}" for classifier in dataset.spec.classifiers]
    return {name: Replay(right[:, k], costs[:, k]) for k, name in enumerate(names)}


def halves(items: Int64s, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Split rows at random, by item, into those that choose and those that report."""
    choosing, reporting = split_rows(items, [(len(items) + 1) // 2], rng)
    return choosing, reporting


def worth_of_most_useful(
    points: dict[str, TradeOff], alternatives: Alternatives, parts: tuple[Int64s, Int64s], rng: np.random.Generator
) -> Worth:
    """Choose a point, by what it is called, by the one part of the rows, and say what it is worth on the other."""
    (choosing, reporting), every = parts, [one.replay.take(parts[0]) for one in points.values()]
    name, chosen = list(points.items())[most_useful(every, alternatives.take(choosing))]
    return worth_of(name, chosen.replay.take(reporting), alternatives.take(reporting), rng, query=chosen.query)


def most_useful(points: Sequence[Replay], alternatives: Alternatives) -> int:
    """Choose the point of a plan that a headline speaks of: the cheapest that is nearly as accurate as the most
    accurate alternative, else the most accurate point. To be called with rows that do not report."""
    wanted = alternatives.right.mean(axis=0).max() - NEARLY
    ranks = [
        (0, point.costs.mean(), -point.right.mean())
        if point.right.mean() >= wanted - _DOUBT
        else (1, -point.right.mean(), point.costs.mean())
        for point in points
    ]
    return min(range(len(points)), key=lambda place: ranks[place])


def worth_of(
    decision: str,
    plan: Replay,
    alternatives: Alternatives,
    rng: np.random.Generator,
    *,
    query: Mapping[str, Any] | None = None,
) -> Worth:
    """Say what a plan is worth. query: the limits that ask for the decision.

    O(B n a + B a²) for B resamplings of n rows and a alternatives."""
    n, a = alternatives.right.shape
    right = np.column_stack((alternatives.right, plan.right))
    costs = np.column_stack((alternatives.costs, plan.costs))
    whole = _compared(right.mean(axis=0)[None], costs.mean(axis=0)[None])
    resampled, means_drawn = [], []
    for _ in range(RESAMPLINGS // _AT_ONCE):
        shares = resampled_shares(alternatives.items, _AT_ONCE, rng)
        means_drawn.append(shares @ costs)
        resampled.append(_compared(shares @ right, means_drawn[-1]))
    all_saved, all_gained = (np.concatenate([each[k] for each in resampled]) for k in range(2))
    gained, saved = float(whole[1][0]), None if np.isnan(whole[0][0]) else float(whole[0][0])
    gained_interval = _interval(gained, all_gained)
    saved_interval = None if saved is None else _interval(saved, all_saved[~np.isnan(all_saved)])
    accuracies, means = right.mean(axis=0), costs.mean(axis=0)
    verdict = _verdict(saved_interval, gained_interval)
    order = np.lexsort((-accuracies[:a], means[:a])).tolist()
    measured = Worth(
        decision=decision,
        accuracy=float(accuracies[a]),
        cost=float(means[a]),
        beside=_beside(alternatives.names, accuracies, means),
        saved=saved,
        saved_interval=saved_interval,
        gained=gained,
        gained_interval=gained_interval,
        rows=n,
        verdict=verdict,
        headline="",
        advice=None,
        alternatives=tuple(
            Alternative(name=alternatives.names[k], accuracy=float(accuracies[k]), cost=float(means[k])) for k in order
        ),
        unit=alternatives.unit,
        query=dict(query or {}),
        today=_today(alternatives, accuracies, means, np.concatenate(means_drawn)),
    )
    return measured.model_copy(update={"headline": _headline(measured), "advice": _advice(measured)})


def _today(alternatives: Alternatives, accuracies: Floats, means: Floats, resampled: Floats) -> Today | None:
    """Compare with what people pay for today. resampled: (B, a + 1) mean costs, the plan's last."""
    if alternatives.today not in alternatives.names:
        return None
    k = alternatives.names.index(alternatives.today)
    name, accuracy, cost = alternatives.today, float(accuracies[k]), float(means[k])
    if cost <= 0:
        return Today(name=name, accuracy=accuracy, cost=cost, saved=None, saved_interval=None)
    saved = float(1 - means[-1] / cost)
    spread = 1 - resampled[:, -1] / np.maximum(resampled[:, k], 1e-300)
    return Today(name=name, accuracy=accuracy, cost=cost, saved=saved, saved_interval=_interval(saved, spread))


def _compared(accuracies: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Give the shares saved and the accuracy gained, (B,) both, from (B, a + 1) of alternatives and, last, the plan.

    Where both cost nothing, nothing is known of a share.
    """
    own_accuracy, own_cost = accuracies[:, -1], costs[:, -1]
    instead = least_costs(accuracies[:, :-1], costs[:, :-1], own_accuracy)
    with np.errstate(divide="ignore", invalid="ignore"):
        saved = np.where(instead > 0, 1 - own_cost / instead, np.where(own_cost > 0, LEAST_SAVED, np.nan))
    return saved, own_accuracy - most_accuracies(accuracies[:, :-1], costs[:, :-1], own_cost)


def least_costs(accuracies: Floats, costs: Floats, wanted: Floats) -> Floats:
    """Give the least cost at which alternatives or coins between two reach an accuracy: (B,) from (B, a), (B, a), (B,).

    Where none reaches it, the cost of the most accurate one: what reached more would cost at least as much.

    >>> least_costs(np.array([[0.5, 1.0]]), np.array([[1.0, 5.0]]), np.array([0.75])).tolist()
    [3.0]
    """
    reaching = accuracies >= wanted[:, None] - _DOUBT
    alone = np.where(reaching, costs, np.inf).min(axis=1)
    best = accuracies.max(axis=1, keepdims=True)
    most_accurate = np.where(accuracies >= best - _DOUBT, costs, np.inf).min(axis=1)
    rise = accuracies[:, None, :] - accuracies[:, :, None]  # from the second axis to the third
    mixed = ~reaching[:, :, None] & reaching[:, None, :]
    share = (wanted[:, None, None] - accuracies[:, :, None]) / np.where(mixed, rise, 1.0)
    cost = costs[:, :, None] + share * (costs[:, None, :] - costs[:, :, None])
    coin = np.where(mixed, cost, np.inf).min(axis=(1, 2))
    return np.asarray(np.where(np.isfinite(alone), np.minimum(alone, coin), most_accurate))


def most_accuracies(accuracies: Floats, costs: Floats, within: Floats) -> Floats:
    """Give the most accuracy that alternatives or coins between two reach at a cost: (B,) from (B, a), (B, a), (B,).

    Where none costs so little, the accuracy of the cheapest.

    >>> most_accuracies(np.array([[0.5, 1.0]]), np.array([[1.0, 5.0]]), np.array([3.0])).tolist()
    [0.75]
    """
    affordable = costs <= within[:, None] * (1 + _DOUBT)
    alone = np.where(affordable, accuracies, -np.inf).max(axis=1)
    least = costs.min(axis=1, keepdims=True)
    cheapest = np.where(costs <= least, accuracies, -np.inf).max(axis=1)
    rise = costs[:, None, :] - costs[:, :, None]
    mixed = affordable[:, :, None] & ~affordable[:, None, :]
    share = (within[:, None, None] - costs[:, :, None]) / np.where(mixed, rise, 1.0)
    accuracy = accuracies[:, :, None] + share * (accuracies[:, None, :] - accuracies[:, :, None])
    coin = np.where(mixed, accuracy, -np.inf).max(axis=(1, 2))
    return np.asarray(np.where(np.isfinite(alone), np.maximum(alone, coin), cheapest))


def _beside(names: Sequence[str], accuracies: Floats, costs: Floats) -> Beside:
    """Name what ``least_costs`` holds a plan, the last, against."""
    wanted, a = accuracies[-1], len(names)
    target = float(least_costs(accuracies[None, :a], costs[None, :a], accuracies[-1:])[0])
    reaching = [k for k in range(a) if accuracies[k] >= wanted - _DOUBT]
    pool = reaching or [k for k in range(a) if accuracies[k] >= accuracies[:a].max() - _DOUBT]
    k = min(pool, key=lambda k: (costs[k], -accuracies[k], names[k]))
    if costs[k] <= target * (1 + 1e-9):
        return Beside(kind="alone", name=names[k], accuracy=float(accuracies[k]), cost=float(costs[k]))
    pairs = ((i, j) for i in range(a) if i not in reaching for j in reaching)
    i, j = min(pairs, key=lambda pair: _coin(accuracies, costs, *pair)[1])
    heads = round(100 * _coin(accuracies, costs, i, j)[0])
    name = f"a coin ({heads} % {names[j]}, else {names[i]})" if heads < 100 else names[j]
    return Beside(kind="coin", name=name, accuracy=float(wanted), cost=target)


def _coin(accuracies: Floats, costs: Floats, i: int, j: int) -> tuple[float, float]:
    share = (accuracies[-1] - accuracies[i]) / (accuracies[j] - accuracies[i])
    return float(share), float(costs[i] + share * (costs[j] - costs[i]))


def mean_interval(values: Floats, items: Int64s, rng: np.random.Generator) -> Interval:
    """Bound the mean of (n,) values with 95 % confidence, by a bootstrap over items."""
    means = [resampled_shares(items, _AT_ONCE, rng) @ values for _ in range(RESAMPLINGS // _AT_ONCE)]
    return _interval(float(values.mean()), np.concatenate(means))


def _interval(value: float, resampled: Floats) -> Interval:
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(resampled, (tail, 1 - tail)).tolist()
    return min(low, value), max(high, value)


def _verdict(saved: Interval | None, gained: Interval) -> Verdict:
    if saved is not None and saved[0] > ROUNDED:
        return "saves"
    if gained[0] > ROUNDED:
        return "gains"
    return "worse" if (gained[1] if saved is None else saved[1]) < -ROUNDED else "nothing"


def _headline(worth: Worth) -> str:
    """Say what is saved of today's bill, then compare with the best baseline."""
    today = worth.today
    if today is None or today.saved is None or today.saved_interval is None:
        return _compared_with_baselines(worth)
    own, bill = (f"{cost:,.0f}" if cost >= 1000 else f"{cost:.4g}" for cost in (1000 * worth.cost, 1000 * today.cost))
    costs = f"{own} {worth.unit} per 1,000 items instead of {bill} with {today.name}"
    right = f"{worth.accuracy:.1%} correct instead of {today.accuracy:.1%}"
    sign, direction = (1, "less") if today.saved >= 0 else (-1, "more")
    low, high = sorted(100 * sign * bound for bound in today.saved_interval)
    change = f"{100 * sign * today.saved:.3g} % {direction}, 95 % interval {low:.3g} to {high:.3g} %"
    return f"{costs} ({change}), {right}; compared with the best baseline: {_compared_with_baselines(worth)}"


def _compared_with_baselines(worth: Worth) -> str:
    rows, rival = f"({worth.rows:,} rows that chose nothing)", worth.beside.name
    match worth.verdict:
        case "saves":
            return f"saves {share(worth.saved, worth.saved_interval)} beside {rival}{_accuracies(worth)} {rows}"
        case "gains":
            points = " to ".join(f"{100 * bound:.1f}" for bound in worth.gained_interval)
            more = f"is right {100 * worth.gained:.1f} points ({points}) more often"
            return f"{more} than what the same cost buys otherwise{_accuracies(worth)} {rows}"
        case "worse" if worth.beside.cost == 0 and worth.cost > 0:
            free = f"{rival} is free, and as accurate by what these rows can show"
            return f"costs {worth.cost:.3g} an item where {free} {rows}"
        case "worse" if worth.beside.cost > 0 and worth.cost > worth.beside.cost:
            times = f"{worth.cost / worth.beside.cost:.3g}"
            shown = "" if worth.beside.accuracy >= worth.accuracy - _DOUBT else " by what these rows can show"
            return f"costs {times} times as much as {rival}, which is as accurate{shown} {rows}"
        case "worse":
            return f"is less accurate than {rival} for the same cost {rows}"
        case _:
            return f"saves nothing that can be shown beside {rival}{_doubt(worth)} {rows}"


def _accuracies(worth: Worth) -> str:
    """Say how accurate the plan is, and which alternative is more accurate by more than a point."""
    best = max(worth.alternatives, key=lambda one: one.accuracy)
    said = f", {worth.accuracy:.1%} right"
    return said if best.accuracy <= worth.accuracy + NEARLY else f"{said}; {best.name} is {best.accuracy:.1%}"


def _doubt(worth: Worth) -> str:
    if worth.saved is None or worth.saved_interval is None or worth.beside.cost == 0 or is_same(worth):
        return ""
    low, high = (round(100 * bound) for bound in worth.saved_interval)
    return f": {round(100 * worth.saved)} % here, anything from {low} to {high} % is likely"


def is_same(worth: Worth) -> bool:
    """Tell whether the plan does what the alternative does: nothing is saved or gained on any resampling."""
    bounds = (*(worth.saved_interval or (0.0, 0.0)), *worth.gained_interval)
    return max(abs(bound) for bound in bounds) < ROUNDED


def _advice(worth: Worth) -> str | None:
    if worth.verdict in ("saves", "gains"):
        return None
    if worth.verdict == "worse":
        return f"take {worth.beside.name}; or try another method, or classifiers that differ more in cost"
    if is_same(worth):
        return (
            f"it does what {worth.beside.name} does: take that; or try another method, or classifiers that differ more"
        )
    more = f"{4 * worth.rows:,} rows to report would halve the interval"
    return f"{more}; else classifiers that differ more, or another method"
