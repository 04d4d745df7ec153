"""Two-stage rules: call a cheap classifier, and escalate if its confidence is below an accept threshold.

Pairs and thresholds are tuned on training rows. On holdout rows, the rules are baselines of every artifact kind.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.budget_mixture import lower_hull

MAX_STAGES = 12
"""Classifiers considered for pairs, those on the Pareto front first."""
THRESHOLDS = 40
"""Quantiles of a confidence tried as thresholds."""
MAX_RULES = 8
"""Maximum number of rules, spread evenly over the lower hull of cost and error."""


@dataclass(frozen=True, slots=True)
class TwoStageRule:
    """Accept the answer of ``first`` at or above the threshold, else escalate to ``second``."""

    first: int
    second: int
    threshold: float


def tune_two_stages(
    confidences: Floats,
    right: Floats,
    costs: Floats,
    costs_of_both: Callable[[int, int], Floats | None],
    tradeoff: float | None = None,
) -> list[TwoStageRule]:
    """Tune pairs and thresholds; return the lower hull of mean cost and error, by rising cost.

    Args:
        confidences: (n, k); NaN for classifiers without confidence.
        right: (n, k), quality of each answer, in [0, 1].
        costs: (n, k), cost of the first stage.
        costs_of_both: returns the cost of both stages, (n,); None for an invalid pair.
        tradeoff: weight of a unit of cost; the best rule for this weight is also returned. None returns only the hull.
    Complexity: O(k² n + k n log n) for at most 12 classifiers.
    """
    found: list[TwoStageRule] = []
    means: list[tuple[float, float]] = []
    places = select_stages(costs.mean(axis=0), right.mean(axis=0))
    for i in places.tolist():
        if not len(confidences) or np.isnan(confidences[:, i]).any():
            continue
        order = np.argsort(confidences[:, i], kind="stable")
        sure = confidences[order, i]
        starts = np.unique(np.searchsorted(sure, np.quantile(sure, np.linspace(0, 1, THRESHOLDS))))
        for j in places.tolist():
            both = costs_of_both(i, j) if j != i else None
            if both is None:
                continue
            more_right = np.append(0.0, np.cumsum((right[:, j] - right[:, i])[order]))
            more_cost = np.append(0.0, np.cumsum((both - costs[:, i])[order]))
            for start in starts[starts > 0].tolist():
                found.append(TwoStageRule(i, j, float(sure[start])))
                cost = float(costs[:, i].mean() + more_cost[start] / len(sure))
                means.append((cost, float(1 - right[:, i].mean() - more_right[start] / len(sure))))
    if not found:
        return []
    hull = lower_hull(*np.array(means).T)
    kept = np.linspace(0, len(hull) - 1, min(MAX_RULES, len(hull))).round().astype(int)
    if tradeoff is not None:
        cost, error = np.array(means)[hull].T
        kept = np.append(kept, (error + tradeoff * cost).argmin())
    return [found[hull[place]] for place in np.unique(kept).tolist()]


def select_stages(costs: Floats, accuracies: Floats) -> Int64s:
    """Return at most 12 classifiers: the Pareto front, then the most accurate others."""
    order = np.lexsort((-accuracies, costs))
    best = np.maximum.accumulate(np.append(-np.inf, accuracies[order]))[:-1]
    unbeaten = order[accuracies[order] > best]
    some = unbeaten[np.unique(np.linspace(0, len(unbeaten) - 1, min(MAX_STAGES, len(unbeaten))).round().astype(int))]
    others = [place for place in np.argsort(-accuracies, kind="stable").tolist() if place not in set(some.tolist())]
    return np.array([*some.tolist(), *others][:MAX_STAGES], dtype=np.int64)


def escalated_mask(rule: TwoStageRule, confidences: Floats) -> Bools:
    """Return which rows escalate to the second classifier, (n,)."""
    return np.asarray(confidences[:, rule.first] < rule.threshold)
