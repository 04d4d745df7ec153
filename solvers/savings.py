"""Savings: compare a plan with the best simple baseline on holdout rows.

Baselines are single classifiers, fixed sets of features, and random mixtures of two of them. A mixture reaches every
point on the line between the two. ``saved`` compares with the cheapest baseline that is at least as accurate as the
plan. ``gained`` compares with the most accurate baseline that costs no more. If errors have losses, ``saved`` compares
the sum of cost and loss with the least sum of a baseline, and ``gained`` is 0. The plan and the baselines are measured
on the same holdout rows and resampled together (paired bootstrap). So rows that are difficult for all do not widen the
interval. The baseline is chosen on the holdout rows, which can only favor the baseline.

Source: Efron, Tibshirani, *An Introduction to the Bootstrap*, Chapters 8 and 13.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s
from models.savings import (
    ROUNDED,
    ComparedBaseline,
    CurrentBaseline,
    Interval,
    Savings,
    SimpleBaseline,
    Verdict,
    format_share,
)
from solvers.item_splits import bootstrap_shares, split_rows
from solvers.statistics import mean_accuracy

RESAMPLINGS = 1000
_RESAMPLINGS_AT_ONCE = 50
"""As many as fit into a processor's cache."""
_CONFIDENCE = 0.95
MAX_ACCURACY_LOSS = 0.01
"""The default operating point may be this much less accurate than the most accurate baseline."""
AS_LOGGED = "as logged"
"""The baseline that makes the same calls as the log of an application."""
_EPSILON = 1e-12
_MAX_NAMES = 3
MIN_SAVED = -1000.0
"""The share saved by a plan that costs anything where a baseline is free."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """The outcome of one decision rule in each row.

    Attributes:
        right: (n,), 1 if the answer is correct, 0 if it is wrong or missing.
        costs: (n,), cost of each row.
    """

    right: Floats
    costs: Floats

    def take(self, rows: Int64s) -> "Replay":
        """Return the outcomes on some of the rows."""
        return Replay(self.right[rows], self.costs[rows])


@dataclass(frozen=True, slots=True, eq=False)
class SettingReplay:
    """One setting of a plan and its outcome on rows.

    Attributes:
        query: the limits that select the setting.
        replay: the outcome of the setting.
        cost_error: additional standard error of the mean cost, due to the choice of training rows.
    """

    query: dict[str, Any]
    replay: Replay
    cost_error: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class BaselineReplays:
    """Outcomes of the simple baselines on the same rows.

    Attributes:
        names: (a,), names of the baselines.
        right: (n, a), 1 where a baseline is correct.
        costs: (n, a), cost of each row.
        items: (n,), equal for rows of the same item.
        today: the name of the baseline that is used today; None if unknown.
        unit: the unit of costs.
        loss_scale: the largest loss, in the unit of costs; 0 if all errors are equal.
    """

    names: tuple[str, ...]
    right: Floats
    costs: Floats
    items: Int64s
    today: str | None = None
    unit: str = ""
    loss_scale: float = 0.0

    @classmethod
    def from_replays(
        cls,
        replays: dict[str, Replay],
        items: Int64s,
        today: str | None = None,
        unit: str = "",
        loss_scale: float = 0.0,
    ) -> "BaselineReplays":
        """Combine replays of the same rows."""
        every = replays.values()
        right, costs = (np.column_stack(each) for each in ([r.right for r in every], [r.costs for r in every]))
        return cls(tuple(replays), right.astype(np.float64), costs.astype(np.float64), items, today, unit, loss_scale)

    def take(self, rows: Int64s) -> "BaselineReplays":
        """Return the outcomes on some of the rows."""
        return replace(self, right=self.right[rows], costs=self.costs[rows], items=self.items[rows])


def name_feature_set(features: Sequence[str], otherwise: str) -> str:
    """Return the name of a fixed set of features; it lists them if there are few.

    >>> name_feature_set(["sift", "texture"], "the 2 cheapest features"), name_feature_set([], "")
    ('always sift + texture', 'the most common class')
    """
    if not features:
        return "the most common class"
    return f"always {' + '.join(features)}" if len(features) <= _MAX_NAMES else otherwise


def replay_each_classifier(dataset: Trace, rows: Int64s) -> dict[str, Replay]:
    """Return, for each classifier of a trace, the replay in which it always answers."""
    right, costs = dataset.quality[rows], dataset.costs[rows]
    names = [f"always {classifier.name}" for classifier in dataset.spec.classifiers]
    return {name: Replay(right[:, k], costs[:, k]) for k, name in enumerate(names)}


def split_in_halves(items: Int64s, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Split rows at random, by item, into validation and holdout rows."""
    validation, holdout = split_rows(items, [(len(items) + 1) // 2], rng)
    return validation, holdout


def measure_best_savings(
    points: dict[str, SettingReplay],
    baselines: BaselineReplays,
    parts: tuple[Int64s, Int64s],
    rng: np.random.Generator,
) -> Savings:
    """Choose a setting on validation rows and measure its savings on holdout rows.

    Args:
        points: the settings, by name.
        baselines: outcomes of the baselines on all rows.
        parts: validation rows and holdout rows.
        rng: draws the bootstrap resamples.
    """
    (validation, holdout), every = parts, [one.replay.take(parts[0]) for one in points.values()]
    name, chosen = list(points.items())[choose_default_setting(every, baselines.take(validation))]
    plan, others = chosen.replay.take(holdout), baselines.take(holdout)
    return measure_savings(name, plan, others, rng, query=chosen.query, cost_error=chosen.cost_error)


def choose_default_setting(points: Sequence[Replay], baselines: BaselineReplays) -> int:
    """Return the index of the default operating point, selected on validation rows.

    With losses, it is the setting of the least sum of cost and loss. Otherwise it is the cheapest setting that is
    accurate enough: as accurate as the log or, without a log, within ``MAX_ACCURACY_LOSS`` of the most accurate
    baseline. If there is none, it is the most accurate setting.
    """
    if baselines.loss_scale:
        totals = [float((one.costs + baselines.loss_scale * (1 - one.right)).mean()) for one in points]
        return min(range(len(points)), key=lambda place: totals[place])
    wanted = _wanted_accuracy(baselines)
    ranks = [
        (0, point.costs.mean(), -point.right.mean())
        if point.right.mean() >= wanted - _EPSILON
        else (1, -point.right.mean(), point.costs.mean())
        for point in points
    ]
    return min(range(len(points)), key=lambda place: ranks[place])


def _wanted_accuracy(baselines: BaselineReplays) -> float:
    accuracies = baselines.right.mean(axis=0)
    if baselines.today == AS_LOGGED:
        return float(accuracies[baselines.names.index(AS_LOGGED)])
    return float(accuracies.max()) - MAX_ACCURACY_LOSS


def measure_savings(
    decision: str,
    plan: Replay,
    baselines: BaselineReplays,
    rng: np.random.Generator,
    *,
    query: Mapping[str, Any] | None = None,
    cost_error: float = 0.0,
) -> Savings:
    """Measure the savings of a plan compared with the best simple baseline.

    Args:
        decision: a description of the setting.
        plan: the plan's outcome on holdout rows.
        baselines: outcomes of the baselines on the same rows.
        rng: draws the bootstrap resamples.
        query: the limits that select the setting.
        cost_error: standard error of the plan's mean cost, in addition to the sampling error of the rows.
    Complexity: O(B n a + B a²) for B resamplings of n rows and a baselines.
    """
    n, a = baselines.right.shape
    own_right, own_costs = (
        np.column_stack(each) for each in ((baselines.right, plan.right), (baselines.costs, plan.costs))
    )
    right, costs = _comparable(own_right, own_costs, baselines.loss_scale)
    whole = _compared(right.mean(axis=0)[None], costs.mean(axis=0)[None])
    resampled, means_drawn, accuracies_drawn = [], [], []
    for _ in range(RESAMPLINGS // _RESAMPLINGS_AT_ONCE):
        shares = bootstrap_shares(baselines.items, _RESAMPLINGS_AT_ONCE, rng)
        drawn = shares @ costs
        if cost_error:
            drawn[:, -1] = np.maximum(drawn[:, -1] + rng.normal(0, cost_error, len(drawn)), 0.0)
        means_drawn.append(drawn)
        accuracies_drawn.append(shares @ right)
        resampled.append(_compared(accuracies_drawn[-1], drawn))
    all_saved, all_gained = (np.concatenate([each[k] for each in resampled]) for k in range(2))
    gained, saved = float(whole[1][0]), None if np.isnan(whole[0][0]) else float(whole[0][0])
    gained_interval = _interval(gained, all_gained)
    saved_interval = None if saved is None else _interval(saved, all_saved[~np.isnan(all_saved)])
    figures = _Figures.from_rows(baselines, own_right, own_costs)
    accuracies, means = right.mean(axis=0), costs.mean(axis=0)
    order = np.lexsort((-figures.accuracies[:a], figures.costs[:a])).tolist()
    measured = Savings(
        decision=decision,
        **figures.describe_outcome(a),
        baseline=_compared_baseline(figures, accuracies, means),
        saved=saved,
        saved_interval=saved_interval,
        gained=gained,
        gained_interval=gained_interval,
        rows=n,
        verdict=_verdict(saved_interval, gained_interval),
        headline="",
        advice=None,
        baselines=tuple(SimpleBaseline(name=baselines.names[k], **figures.describe_outcome(k)) for k in order),
        unit=baselines.unit,
        query=dict(query or {}),
        today=_today(baselines.today, figures, means, np.concatenate(means_drawn), np.concatenate(accuracies_drawn)),
    )
    return measured.model_copy(update={"headline": _headline(measured), "advice": _advice(measured)})


@dataclass(frozen=True, slots=True, eq=False)
class _Figures:
    """Mean outcomes, (a + 1,) each, of the baselines and, last, the plan.

    ``losses`` is None if all errors are equal.
    """

    names: tuple[str, ...]
    accuracies: Floats
    costs: Floats
    losses: Floats | None

    @classmethod
    def from_rows(cls, baselines: BaselineReplays, right: Floats, costs: Floats) -> "_Figures":
        accuracies, scale = mean_accuracy(right), baselines.loss_scale
        return cls(baselines.names, accuracies, costs.mean(axis=0), scale * (1 - accuracies) if scale else None)

    def describe_outcome(self, k: int) -> dict[str, Any]:
        """Return the fields that plans and baselines share."""
        loss = None if self.losses is None else float(self.losses[k])
        return {"accuracy": float(self.accuracies[k]), "cost": float(self.costs[k]), "loss": loss}


def _comparable(right: Floats, costs: Floats, loss_scale: float) -> tuple[Floats, Floats]:
    """Return the accuracies and costs to compare.

    With losses, accuracies are equal, and costs are the sums of cost and loss.
    """
    return (np.ones_like(right), costs + loss_scale * (1 - right)) if loss_scale else (right, costs)


def _today(
    name: str | None, figures: _Figures, means: Floats, resampled: Floats, accuracies: Floats
) -> CurrentBaseline | None:
    """Compare the plan with the baseline that is used today.

    Args:
        means: (a + 1,), means of the compared quantity; the plan's is last.
        resampled: (B, a + 1), the same means on resampled rows.
        accuracies: (B, a + 1), accuracies on resampled rows; not used if there are losses.
    """
    if name is None or name not in figures.names:
        return None
    k = figures.names.index(name)
    outcome = figures.describe_outcome(k)
    if figures.losses is None:
        gained = float(figures.accuracies[-1] - figures.accuracies[k])
        outcome |= {"gained": gained, "gained_interval": _interval(gained, accuracies[:, -1] - accuracies[:, k])}
    if means[k] <= 0:
        return CurrentBaseline(name=name, **outcome, saved=None, saved_interval=None)
    saved = float(1 - means[-1] / means[k])
    spread = 1 - resampled[:, -1] / np.maximum(resampled[:, k], 1e-300)
    return CurrentBaseline(name=name, **outcome, saved=saved, saved_interval=_interval(saved, spread))


def _compared(accuracies: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Return the share saved and the accuracy gained, (B,) each.

    The inputs, (B, a + 1), are those of the baselines and, last, the plan. The share is NaN if both cost nothing.
    """
    own_accuracy, own_cost = accuracies[:, -1], costs[:, -1]
    instead = cheapest_mixture_costs(accuracies[:, :-1], costs[:, :-1], own_accuracy)
    with np.errstate(divide="ignore", invalid="ignore"):
        saved = np.where(instead > 0, 1 - own_cost / instead, np.where(own_cost > 0, MIN_SAVED, np.nan))
    return saved, own_accuracy - best_mixture_accuracies(accuracies[:, :-1], costs[:, :-1], own_cost)


def cheapest_mixture_costs(accuracies: Floats, costs: Floats, wanted: Floats) -> Floats:
    """Return the least cost at which a baseline, or a random mixture of two, reaches an accuracy.

    If none reaches it, the cost of the most accurate baseline is returned, because more accuracy would cost at least as
    much.

    Args:
        accuracies: (B, a).
        costs: (B, a).
        wanted: (B,), the accuracy to reach.
    Returns:
        Costs, (B,).

    >>> cheapest_mixture_costs(np.array([[0.5, 1.0]]), np.array([[1.0, 5.0]]), np.array([0.75])).tolist()
    [3.0]
    """
    reaching = accuracies >= wanted[:, None] - _EPSILON
    alone = np.where(reaching, costs, np.inf).min(axis=1)
    best = accuracies.max(axis=1, keepdims=True)
    most_accurate = np.where(accuracies >= best - _EPSILON, costs, np.inf).min(axis=1)
    rise = accuracies[:, None, :] - accuracies[:, :, None]  # from the second axis to the third
    mixed = ~reaching[:, :, None] & reaching[:, None, :]
    share = (wanted[:, None, None] - accuracies[:, :, None]) / np.where(mixed, rise, 1.0)
    cost = costs[:, :, None] + share * (costs[:, None, :] - costs[:, :, None])
    mixture = np.where(mixed, cost, np.inf).min(axis=(1, 2))
    return np.asarray(np.where(np.isfinite(alone), np.minimum(alone, mixture), most_accurate))


def best_mixture_accuracies(accuracies: Floats, costs: Floats, within: Floats) -> Floats:
    """Return the highest accuracy of a baseline, or a random mixture of two, within a cost.

    If none is cheap enough, the accuracy of the cheapest baseline is returned.

    Args:
        accuracies: (B, a).
        costs: (B, a).
        within: (B,), maximum mean cost.
    Returns:
        Accuracies, (B,).

    >>> best_mixture_accuracies(np.array([[0.5, 1.0]]), np.array([[1.0, 5.0]]), np.array([3.0])).tolist()
    [0.75]
    """
    affordable = costs <= within[:, None] * (1 + _EPSILON)
    alone = np.where(affordable, accuracies, -np.inf).max(axis=1)
    least = costs.min(axis=1, keepdims=True)
    cheapest = np.where(costs <= least, accuracies, -np.inf).max(axis=1)
    rise = costs[:, None, :] - costs[:, :, None]
    mixed = affordable[:, :, None] & ~affordable[:, None, :]
    share = (within[:, None, None] - costs[:, :, None]) / np.where(mixed, rise, 1.0)
    accuracy = accuracies[:, :, None] + share * (accuracies[:, None, :] - accuracies[:, :, None])
    mixture = np.where(mixed, accuracy, -np.inf).max(axis=(1, 2))
    return np.asarray(np.where(np.isfinite(alone), np.maximum(alone, mixture), cheapest))


def _compared_baseline(figures: _Figures, accuracies: Floats, costs: Floats) -> ComparedBaseline:
    """Return the baseline of ``cheapest_mixture_costs`` for the plan (the last column)."""
    names, wanted = figures.names, accuracies[-1]
    a = len(names)
    target = float(cheapest_mixture_costs(accuracies[None, :a], costs[None, :a], accuracies[-1:])[0])
    reaching = [k for k in range(a) if accuracies[k] >= wanted - _EPSILON]
    pool = reaching or [k for k in range(a) if accuracies[k] >= accuracies[:a].max() - _EPSILON]
    k = min(pool, key=lambda k: (costs[k], -accuracies[k], names[k]))
    if costs[k] <= target * (1 + 1e-9):
        return ComparedBaseline(kind="single", name=names[k], **figures.describe_outcome(k))
    pairs = ((i, j) for i in range(a) if i not in reaching for j in reaching)
    i, j = min(pairs, key=lambda pair: _mixture(accuracies, costs, *pair)[1])
    percent = round(100 * _mixture(accuracies, costs, i, j)[0])
    name = f"a random mixture ({percent} % {names[j]}, else {names[i]})" if percent < 100 else names[j]
    return ComparedBaseline(kind="random_mixture", name=name, accuracy=min(max(float(wanted), 0.0), 1.0), cost=target)


def _mixture(accuracies: Floats, costs: Floats, i: int, j: int) -> tuple[float, float]:
    share = (accuracies[-1] - accuracies[i]) / (accuracies[j] - accuracies[i])
    return float(share), float(costs[i] + share * (costs[j] - costs[i]))


def estimate_mean_interval(values: Floats, items: Int64s, rng: np.random.Generator) -> Interval:
    """Return the 95 % confidence interval of the mean of (n,) values, by a bootstrap over items."""
    batches = range(RESAMPLINGS // _RESAMPLINGS_AT_ONCE)
    means = [bootstrap_shares(items, _RESAMPLINGS_AT_ONCE, rng) @ values for _ in batches]
    return _interval(float(values.mean()), np.concatenate(means))


def _interval(value: float, resampled: Floats) -> Interval:
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(resampled, (tail, 1 - tail)).tolist()
    return min(low, value), max(high, value)


def _verdict(saved: Interval | None, gained: Interval) -> Verdict:
    if gained[0] > ROUNDED or (saved is not None and saved[0] > ROUNDED):
        return "significant"
    return "worse" if (gained[1] if saved is None else saved[1]) < -ROUNDED else "not significant"


def _headline(savings: Savings) -> str:
    """Write the savings of the current cost, then the comparison with the best baseline."""
    today = savings.today
    if today is None or today.saved is None or today.saved_interval is None:
        return _compared_with_baselines(savings)
    own, bill = (_format_amount(1000 * (one.cost + (one.loss or 0.0))) for one in (savings, today))
    costs = f"{own} {savings.unit} per 1,000 items instead of {bill} with {today.name}"
    correct = f"{savings.accuracy:.1%} correct instead of {today.accuracy:.1%}"
    if today.gained_interval is not None:
        lowest, highest = (round(100 * bound, 1) + 0.0 for bound in today.gained_interval)
        correct += f" (95 % interval {lowest:+.1f} to {highest:+.1f} points)"
    if savings.loss is not None and today.loss is not None:
        costs = f"costs and losses of {costs}"
        losses = [_format_amount(1000 * loss) for loss in (savings.loss, today.loss)]
        correct = f"of which losses {losses[0]} instead of {losses[1]}"
    sign, direction = (1, "less") if today.saved >= 0 else (-1, "more")
    low, high = sorted(100 * sign * bound for bound in today.saved_interval)
    change = f"{100 * sign * today.saved:.3g} % {direction}, 95 % interval {low:.3g} to {high:.3g} %"
    return f"{costs} ({change}), {correct}; compared with the best baseline: {_compared_with_baselines(savings)}"


def _format_amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"


def _compared_with_baselines(savings: Savings) -> str:
    rows, baseline = f"({savings.rows:,} holdout rows)", savings.baseline
    match savings.verdict:
        case "significant" if savings.has_savings:
            share = format_share(savings.saved, savings.saved_interval)
            return f"saves {share} compared with {baseline.name}{_accuracies(savings)} {rows}"
        case "significant":
            points = " to ".join(f"{100 * bound:.1f}" for bound in savings.gained_interval)
            gain = f"gains {100 * savings.gained:.1f} points of accuracy ({points})"
            return f"{gain} at the same cost{_accuracies(savings)} {rows}"
        case "worse" if savings.loss is not None and baseline.loss is not None:
            totals = f"{savings.cost + savings.loss:.4g} per item instead of {baseline.cost + baseline.loss:.4g}"
            return f"costs and loses more than {baseline.name}: {totals} {rows}"
        case "worse" if baseline.cost == 0 and savings.cost > 0:
            return f"costs {savings.cost:.3g} per item; {baseline.name} is free and not measurably less accurate {rows}"
        case "worse" if baseline.cost > 0 and savings.cost > baseline.cost:
            is_as_accurate = baseline.accuracy >= savings.accuracy - _EPSILON
            equal = "as accurate" if is_as_accurate else "not measurably less accurate"
            return f"costs {savings.cost / baseline.cost:.3g} times as much as {baseline.name}, which is {equal} {rows}"
        case "worse":
            return f"is less accurate than {baseline.name} at the same cost {rows}"
        case _:
            return f"no significant savings compared with {baseline.name}{_uncertainty(savings)} {rows}"


def _accuracies(savings: Savings) -> str:
    """Write the plan's accuracy, and the best baseline's if it is higher by more than one point."""
    if savings.loss is not None:
        return f", {savings.cost:.4g} cost and {savings.loss:.4g} loss per item"
    best = max(savings.baselines, key=lambda one: one.accuracy)
    own = f", {savings.accuracy:.1%} correct"
    is_close = best.accuracy <= savings.accuracy + MAX_ACCURACY_LOSS
    return own if is_close else f"{own}; {best.name} is {best.accuracy:.1%}"


def _uncertainty(savings: Savings) -> str:
    interval = savings.saved_interval
    if savings.saved is None or interval is None or savings.baseline.cost == 0 or is_same_baseline(savings):
        return ""
    low, high = (round(100 * bound) for bound in interval)
    return f": {round(100 * savings.saved)} %, 95 % interval {low} to {high} %"


def is_same_baseline(savings: Savings) -> bool:
    """Return whether the plan is equivalent to the baseline: no resample has savings or a gain."""
    bounds = (*(savings.saved_interval or (0.0, 0.0)), *savings.gained_interval)
    return max(abs(bound) for bound in bounds) < ROUNDED


def _advice(savings: Savings) -> str | None:
    other = "try another artifact kind, or classifiers that differ more in cost"
    match savings.verdict:
        case "significant":
            return None
        case "worse":
            return f"use {savings.baseline.name}; or {other}"
        case _ if is_same_baseline(savings):
            return f"it does what {savings.baseline.name} does: use that; or {other}"
        case _:
            return f"{4 * savings.rows:,} holdout rows would halve the interval; or {other}"
