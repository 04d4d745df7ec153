"""Off-policy evaluation: estimates the cost and accuracy that another version would have had on logged rows.

A decision rule calls classifiers in each row. A row supports the rule if all calls that the rule makes were logged. The
outcome of the rule is then known. If all rows support the rule, the outcomes are replayed. Otherwise, each supporting
row represents 1 / e rows. Here e is the joint propensity of the row: the probability that all calls of its path were
logged. There are two estimates:

- self-normalized inverse propensity score (SNIPS): the weighted mean of the known outcomes
- doubly robust (DR): a cross-fitted prediction for all rows, corrected by the weighted errors of the predictions

Both assume that the logging of a call depends only on the embedding and, if propensities are recorded, on facts that
were known before the call. Each recorded propensity is conditional on the earlier calls of its row, so the joint
propensity is their product. If a single random draw decides on all calls, the joint propensity is the smallest of them.
An example is exploration of either all other classifiers or none (``joint_propensity`` of the trace's spec).

Source: Swaminathan, Joachims, *The self-normalized estimator for counterfactual learning*, 2015; Dudík, Langford, Li,
*Doubly robust policy evaluation and learning*, 2011; Robins, *A new approach to causal inference*, 1986 (sequences of
calls). The libraries ``obp`` and ``scope-rl`` had their last releases in April and July 2023; ``econml`` estimates
effects of one action per row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models import Dataset, Trace
from models.arrays import Bools, Floats, Int64s
from models.overlap import Overlap
from solvers.partial_traces import (
    FAST_KINDS,
    MAX_UNLIKELY,
    MIN_CALLS,
    MIN_PROPENSITY,
    CrossFittedRegressions,
    recorded_propensities,
)
from solvers.statistics import Z_95, effective_sample_size, standard_error_of_mean, wilson_interval

MIN_EFFECTIVE_ROWS = 30.0
"""Minimum effective sample size of an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionRule:
    """The calls, answers, and costs of a version, or of a baseline, in n logged rows.

    Attributes:
        paths: (n, m), calls of the rule; calls after one that was not logged are unknown.
        supported: (n,), whether all calls of the rule were logged.
        quality: (n,), quality of the answers from 0 to 1; NaN if the row does not support the rule.
        costs: (n,), cost of the calls, at least 0; NaN if the row does not support the rule.
        fixed_cost: additional cost of each row, for example of the embedding.
    """

    paths: Bools
    supported: Bools
    quality: Floats
    costs: Floats
    fixed_cost: float = 0.0

    @property
    def is_replayed(self) -> bool:
        """Whether all rows support the rule."""
        return bool(self.supported.all())


@dataclass(frozen=True, slots=True, eq=False)
class RuleScores:
    """Values per row whose means estimate the quality and the cost of a rule.

    Attributes:
        quality: (n,), doubly robust values of the quality; known values if outcomes are replayed.
        costs: (n,), the same for costs.
        weights: (n,), inverse joint propensities of supported rows, else 0; 1 if outcomes are replayed.
        is_replayed: whether all rows support the rule.
    """

    quality: Floats
    costs: Floats
    weights: Floats
    is_replayed: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated mean, its 95 % confidence interval, and the effective sample size."""

    value: float
    interval: tuple[float, float]
    effective_rows: float


def make_single_call_rule(trace: Trace, chosen: Int64s) -> DecisionRule:
    """Return the rule that calls one classifier per row.

    chosen: (n,), index of the classifier.
    """
    rows = np.arange(trace.rows)
    paths = np.zeros((trace.rows, len(trace.spec.classifiers)), dtype=np.bool_)
    paths[rows, chosen] = True
    supported = trace.called[rows, chosen] if trace.is_partial else np.ones(trace.rows, dtype=np.bool_)
    quality, costs = (np.where(supported, each[rows, chosen], np.nan) for each in (trace.quality, trace.costs))
    return DecisionRule(paths=paths, supported=supported, quality=quality, costs=costs)


def joint_propensities(trace: Trace, rules: Sequence[DecisionRule], estimator: CrossFittedRegressions) -> list[Floats]:
    """Return for each rule the probability that all calls of its path are logged, (n,).

    It is undefined in rows that do not support the rule.

    If all calls of a path have recorded propensities, these are used. For other rows, the probability that all
    classifiers of the path are called is estimated from the embedding.
    """
    joints = [recorded_propensities(trace, rule.paths) for rule in rules]
    unknown = [rule.supported & np.isnan(joint) for rule, joint in zip(rules, joints, strict=True)]
    paths = np.concatenate([rule.paths[rows] for rule, rows in zip(rules, unknown, strict=True)])
    if len(paths):
        sets, place = np.unique(paths, axis=0, return_inverse=True)
        logged = np.stack([trace.called[:, own].all(axis=1) for own in sets], axis=1)
        estimated = np.maximum(estimator.predict(logged.astype(np.float64)), MIN_PROPENSITY)
        places = np.split(place.reshape(-1), np.cumsum([rows.sum() for rows in unknown])[:-1])
        for joint, rows, own in zip(joints, unknown, places, strict=True):
            joint[rows] = estimated[np.flatnonzero(rows), own]
    return joints


def score_rules(dataset: Dataset, rules: Sequence[DecisionRule], seed: int = 0) -> list[RuleScores]:
    """Return the scores of rules on logged rows; scores are NaN for rules without support.

    If ``rules`` contains the rules that always call one classifier, they predict the outcomes of rules with one call
    per row.

    Complexity: that of a regression per fold, rule, and set of classifiers whose propensities are unknown.
    """
    learned = [k for k, rule in enumerate(rules) if not rule.is_replayed and has_enough_items(dataset, rule)]
    if not (learned and isinstance(dataset, Trace)):
        return [_replay(rule) for rule in rules]
    estimator = CrossFittedRegressions.from_trace(dataset, seed, FAST_KINDS)
    always = {int(rules[k].paths[0].argmax()): at for at, k in enumerate(learned) if _makes_one_call(rules[k])}
    quality, costs = (
        estimator.predict_values(np.stack([getattr(rules[k], name) for k in learned], axis=1))
        for name in ("quality", "costs")
    )
    columns = {k: _columns(rules[k].paths, at, always) for at, k in enumerate(learned)}
    joints = dict(zip(learned, joint_propensities(dataset, [rules[k] for k in learned], estimator), strict=True))
    rows = np.arange(dataset.rows)
    return [
        _correct(rule, joints[k], quality[rows, columns[k]], costs[rows, columns[k]]) if k in columns else _replay(rule)
        for k, rule in enumerate(rules)
    ]


def has_enough_items(dataset: Dataset, rule: DecisionRule) -> bool:
    """Return whether at least 30 items have a row in which all calls of a rule were logged."""
    return len(np.unique(dataset.item_codes[rule.supported])) >= MIN_CALLS


def _makes_one_call(rule: DecisionRule) -> bool:
    """Return whether a rule makes the same single call in all rows."""
    return int(rule.paths[0].sum()) == 1 and bool((rule.paths == rule.paths[0]).all())


def _columns(paths: Bools, own: int, always: dict[int, int]) -> Int64s:
    """Return for each row the column of predictions to use, (n,).

    If each row has a single call, it is the column of that call. Otherwise it is the rule's own column.

    With several calls, the path depends on the outcomes of calls. So the column must not depend on the path.
    """
    columns = np.full(len(paths), own)
    if (paths.sum(axis=1) == 1).all():
        for classifier, column in always.items():
            columns[paths[:, classifier]] = column
    return columns


def _replay(rule: DecisionRule) -> RuleScores:
    weights = np.ones(len(rule.quality)) if rule.is_replayed else rule.supported.astype(np.float64)
    return RuleScores(rule.quality, rule.costs + rule.fixed_cost, weights, rule.is_replayed)


def _correct(rule: DecisionRule, joint: Floats, quality: Floats, costs: Floats) -> RuleScores:
    weights = np.where(rule.supported, 1 / np.where(rule.supported, joint, 1.0), 0.0)
    scores = [
        predicted + weights * np.where(rule.supported, known - predicted, 0.0)
        for known, predicted in ((rule.quality, quality), (rule.costs, costs))
    ]
    return RuleScores(scores[0], scores[1] + rule.fixed_cost, weights, is_replayed=False)


def measure_overlap(rule: DecisionRule, scores: RuleScores, items: Int64s) -> Overlap:
    """Return how well the rows support a rule.

    items: (n,), equal for rows of one item.

    The support is sufficient if at least 30 items support the rule, the effective sample size is at least 30, and the
    weighted rows represent at least 95 % of all rows, apart from random deviations.
    """
    effective, covered = effective_sample_size(scores.weights, items), float(scores.weights.mean())
    chance = Z_95 * float(standard_error_of_mean(scores.weights, items))
    supporting = len(np.unique(items[rule.supported]))
    enough = supporting >= MIN_CALLS and effective >= MIN_EFFECTIVE_ROWS and covered + chance >= 1 - MAX_UNLIKELY
    return Overlap(len(items), int(rule.supported.sum()), effective, covered, scores.is_replayed or enough)


def estimate_mean(values: Floats, weights: Floats, items: Int64s, *, is_share: bool) -> Estimate:
    """Return the mean of scores, (n,), and its 95 % interval.

    Args:
        weights: (n,), for the effective sample size.
        is_share: whether the mean lies in [0, 1].
    """
    effective, value = effective_sample_size(weights, items), float(values.mean())
    return _estimate(value, float(standard_error_of_mean(values, items)), effective, is_share=is_share)


def estimate_snips(known: Floats, weights: Floats, items: Int64s, *, is_share: bool) -> Estimate:
    """Return the self-normalized estimate from known outcomes, (n,), and weights, (n,).

    Unknown outcomes are NaN.
    """
    effective = effective_sample_size(weights, items)
    shares = weights / weights.mean()
    filled = np.where(weights > 0, known, 0.0)
    value = float((shares * filled).mean())
    error = float(standard_error_of_mean(shares * (filled - value), items))
    return _estimate(value, error, effective, is_share=is_share)


def _estimate(value: float, error: float, effective: float, *, is_share: bool) -> Estimate:
    """Return an estimate with a t interval, or with Wilson's interval for shares.

    Shares near 0 and 1 are skewed, so Wilson's interval is used. Its number of trials is the one that gives the
    standard error (Korn, Graubard, 1998). Half a wrong answer of mean weight is added to the error, because few rows
    may have large weights.
    """
    quantile = t_quantile(effective)
    if not is_share:
        return Estimate(value, (max(value - quantile * error, 0.0), value + quantile * error), effective)
    value = min(max(value, 0.0), 1.0)
    spread = value * (1 - value)
    trials = spread / (error**2 + 0.5 / effective**2) if spread > 0 else effective
    return Estimate(value, wilson_interval(value, trials, quantile), effective)


def t_quantile(effective: float) -> float:
    """Return the two-sided 95 % quantile of Student's t for an effective sample size.

    The error is at most 0.01 for sizes of 10 or more.

    >>> round(t_quantile(31.0), 2), round(t_quantile(1e9), 2)
    (2.04, 1.96)
    """
    return Z_95 + (Z_95**3 + Z_95) / (4 * max(effective - 1, 1.0))


def estimate_difference(
    values: Floats, others: Floats, items: Int64s, effective: float
) -> tuple[float, tuple[float, float]]:
    """Return the mean difference of paired scores, (n,) each, and its 95 % t interval.

    Args:
        effective: the smaller effective sample size of the two.
    """
    off = values - others
    value, error = float(off.mean()), t_quantile(effective) * float(standard_error_of_mean(off, items))
    return value, (value - error, value + error)
