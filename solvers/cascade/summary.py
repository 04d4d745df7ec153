"""Summary of a cascade build: classifiers, replays on both halves, baselines, and notes."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Int64s
from models.cascade import CascadeOptions, CascadeQuery
from models.errors import Infeasible
from models.savings import Savings
from parsimony.runs.steps import REJECT
from solvers.base import round_up
from solvers.cascade.classifier_measurements import MeasuredClassifiers
from solvers.cascade.frontier.cross_fit import PointOutcomes
from solvers.cascade.plan import CascadePlan
from solvers.cascade.replay import ReplayRows, replay_cascade, simulate_rows
from solvers.item_splits import GroupedRows
from solvers.savings import BaselineReplays, Replay, SettingReplay, measure_best_savings, split_in_halves
from solvers.statistics import compute_runs_test_score, standard_error_of_mean
from solvers.trace_baselines import find_current_baseline, replay_trace_baselines

DEPENDENCE_SCORE = 4.0
"""Minimum number of standard deviations by which runs are fewer than in random order, for a warning."""


def summarize(
    dataset: Trace, options: CascadeOptions, measured: MeasuredClassifiers, plan: CascadePlan
) -> dict[str, Any]:
    """Return the classifiers, and the proved bounds of the cascades."""
    return {
        "unit": dataset.spec.unit,
        "dependence": options.dependence,
        "algorithm": plan.algorithm,
        "optimal": plan.optimal,
        "lower_bound": plan.lower_bound,
        "steps": len(plan.maximum_durations),
        "deterministic": measured.classifiers[-1].name,
        "classifiers": [
            {
                "name": k.name,
                "group": k.group,
                "threshold": None if np.isnan(threshold) else threshold,
                "best_precision_bound": bound,
                "success_probability": k.success_probability,
                "execution_time": k.execution_time,
                "worst_case_time": k.worst_case,
            }
            for k, threshold, bound in zip(measured.classifiers, measured.thresholds, measured.bounds, strict=True)
        ],
        "left_out": list(measured.left_out),
        "discarded": [{"name": name, "reason": reason} for name, reason in plan.discarded],
        **plan.describe_setup(),
    }


def replay_deadline(
    plan: CascadePlan, dataset: Trace, halves: dict[str, Int64s], deadline: float | None
) -> dict[str, Any]:
    """Return predicted results for a deadline, and results measured on both halves of the rows."""
    try:
        decision = plan.decide(CascadeQuery(deadline=deadline))
    except Infeasible as error:
        return {"deadline": deadline, "feasible": False, "reason": str(error)}
    names = [classifier.name for classifier in dataset.spec.classifiers]
    columns = [names.index(name) for name in decision.cascade]
    thresholds = [np.nan if one.confidence_threshold is None else one.confidence_threshold for one in decision.steps]
    by_half = {
        half: replay_cascade(
            ReplayRows.from_trace(dataset, rows, columns, thresholds), range(len(columns)), decision.cascade
        )
        for half, rows in halves.items()
    }
    reached = [step.probability_of_reaching for step in decision.steps] + [0.0]
    answered = {name: reached[i] - reached[i + 1] for i, name in enumerate(decision.cascade)}
    return {
        "deadline": deadline,
        "feasible": True,
        "cascade": list(decision.cascade),
        "predicted": {
            "mean_duration": decision.expected_duration,
            "maximum_duration": decision.maximum_duration,
            "accuracy": by_half["build"]["accuracy"],
            "answered": answered,
        },
        **by_half,
    }


def describe_overruns(dataset: Trace, options: CascadeOptions, build: Int64s) -> dict[str, Any]:
    """Return the expected rate of calls above their worst-case time, and order-dependent classifiers.

    A classifier is order-dependent if its times depend on the order of rows.

    The worst-case time is an order statistic of n rows: the next of n + 1 exchangeable times exceeds the k-th with
    probability 1 - k / (n + 1). Bursts violate exchangeability; a runs test on the first row of each item detects them.
    """
    n = len(build)
    rank = int(np.ceil(options.worst_case_quantile * (n - 1))) + 1
    names = [classifier.name for classifier in dataset.spec.classifiers]
    first = GroupedRows.from_codes(dataset.item_codes).first  # rows of one item are similar without a burst
    scores = {name: compute_runs_test_score(dataset.costs[first, j]) for j, name in enumerate(names)}
    return {
        "rows": n,
        "exceedance_per_call": 1 - rank / (n + 1),
        "dependent_on_time": {name: score for name, score in scores.items() if score < -DEPENDENCE_SCORE},
    }


def add_holdout_results(
    plan: CascadePlan, measured: MeasuredClassifiers, rows: ReplayRows, items: Int64s
) -> CascadePlan:
    """Return the plan with the results of each step's cascade on the holdout half.

    Args:
        items: (n,), equal for rows of one item.
    """
    calls = [plan.members[start:end].tolist() for start, end in pairwise(plan.offsets.tolist())]
    walks = [simulate_rows(rows, [measured.index_of(plan.names[k]) for k in own]) for own in calls]
    return replace(
        plan,
        accuracies=np.array([float(right.mean()) for _, right, _ in walks]),
        durations=np.array([float(duration.mean()) for duration, _, _ in walks]),
        duration_errors=np.array([float(standard_error_of_mean(duration, items)) for duration, _, _ in walks]),
    )


def replay_baselines(
    dataset: Trace, measured: MeasuredClassifiers, build: Int64s, held_out: Int64s
) -> list[dict[str, Any]]:
    """Replay two baselines on the holdout half: always the deterministic, and always the cheapest classifier."""
    names = [spec.name for spec in dataset.spec.classifiers]
    costs = dataset.costs[build].mean(axis=0).tolist()
    cheapest = min((j for j, name in enumerate(names) if name != REJECT), key=lambda j: (costs[j], names[j]))
    every = np.ones((len(held_out), len(names)), dtype=bool)
    rows = ReplayRows(every, dataset.quality[held_out], dataset.costs[held_out])
    chosen = {"always-deterministic": measured.columns[-1], "always-cheapest": cheapest}
    return [
        {"strategy": strategy, "classifier": names[j], "held_out": replay_cascade(rows, [j], names)}
        for strategy, j in chosen.items()
    ]


def list_warnings(options: CascadeOptions, replays: list[dict[str, Any]], deadlines: dict[str, Any]) -> list[str]:
    """Return warnings for readers of the summary."""
    held_out = replays[0]["held_out"]
    notes = []
    if held_out["accuracy"] < options.target_precision:
        notes.append(
            f"accuracy on the holdout half is {held_out['accuracy']:.4f}: the target precision "
            f"{options.target_precision:g} holds for each classifier alone, not on the items that reach it"
        )
    longest, promised = held_out["maximum_duration"], replays[0]["predicted"]["maximum_duration"]
    if longest > promised:
        notes.append(
            f"an item of the holdout half took {longest:.6g}, more than the sum of worst-case times, "
            f"{promised:.6g}; add a margin to deadlines"
        )
    if deadlines["dependent_on_time"]:
        names = ", ".join(deadlines["dependent_on_time"])
        notes.append(
            f"times of {names} depend on the order of rows (runs test): in bursts calls exceed worst-case "
            f"times more often than the {deadlines['exceedance_per_call']:.2g} expected; add a margin to deadlines"
        )
    return notes


def measure_cascade_savings(
    plan: CascadePlan, dataset: Trace, outcomes: PointOutcomes, tuning: Int64s | None, rng: np.random.Generator
) -> Savings:
    """Measure savings on one half of the measured rows.

    The other half selects the operating point and the baselines.

    Args:
        outcomes: cross-fitted outcomes of the points.
        tuning: rows that tune the baselines; None: the rows that select the point.
    """
    rows = outcomes.rows
    points = {
        f"budget {round_up(query['budget']):g}": SettingReplay(
            {"budget": round_up(query["budget"])}, Replay(outcomes.right[i], outcomes.costs[i])
        )
        for query, i in plan.list_reachable_points()
        if query.keys() == {"budget"}
    }
    parts = split_in_halves(dataset.item_codes[rows], rng)
    tuned_on = rows[parts[0]] if tuning is None else tuning
    baselines = replay_trace_baselines(dataset, tuned_on)
    alternatives = BaselineReplays.from_replays(
        baselines,
        dataset.item_codes,
        find_current_baseline(baselines, dataset, tuned_on),
        dataset.spec.unit,
        dataset.loss_scale,
    )
    return measure_best_savings(points, alternatives.take(rows), parts, rng)
