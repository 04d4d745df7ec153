"""From a trace to a plan: thresholds, times and probabilities on one half of the rows, proof on the other.

A random half of the rows, the build half, gives each IDK classifier its confidence threshold (``thresholds``), its
times, and the share of rows that it answers. The best cascade for every deadline follows by the algorithm of the
dependence, and is then replayed on the held-out half.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models import CascadeOptions, CascadeQuery, Classifier, DatasetFacts, Fault, InvalidRequest, Trace
from models.cascade import Algorithm
from models.errors import Infeasible
from solvers.base import Fitted, Run
from solvers.cascade.groups import group_frontier
from solvers.cascade.plan import CascadePlan
from solvers.cascade.power import power_frontier
from solvers.cascade.problem import Front, Ints, Problem, step_function
from solvers.cascade.ratio import ratio_frontier
from solvers.cascade.replay import Rows, replay
from solvers.cascade.sets import MAX_CLASSIFIERS, count_left, set_states
from solvers.cascade.solve import discard_reason
from solvers.cascade.thresholds import find_threshold, mean_and_worst

MIN_ROWS = 20
"""Rows that a trace needs: ten to build from and ten to check on."""


@dataclass(frozen=True, slots=True, eq=False)
class _Learned:
    """What the build half told: columns of the trace that can be used (the deterministic one last), as classifiers with
    their thresholds (NaN: any answer is accepted); the others with the reason."""

    columns: tuple[int, ...]
    classifiers: tuple[Classifier, ...]
    thresholds: tuple[float, ...]
    bounds: tuple[float | None, ...]
    left_out: tuple[dict[str, Any], ...]

    def index(self, name: str) -> int:
        """Find a classifier by its name."""
        return next(i for i, k in enumerate(self.classifiers) if k.name == name)


def fit(dataset: Trace, options: CascadeOptions, rng: np.random.Generator, run: Run) -> Fitted[CascadePlan]:
    """Build the best cascade for every deadline from a trace.

    Classifiers without confidence, or whose precision never reaches the target, are left out. The deterministic one is
    the one named, else the most accurate on the build half (then the cheaper, then by name). An IDK classifier that
    answered all N build rows does not become deterministic: where probabilities are used it is given N / (N + 1), as if
    one more row had been left; ``joint`` counts what happened, and the deterministic one follows all the same.

    The target precision holds for each classifier among all rows at or above its threshold. Rows that earlier
    classifiers left are harder, so a cascade's accuracy can be lower: the summary shows it on both halves.

    The summary: unit, rows, options in force, classifiers, left_out, discarded, what was proved; ``replays``: without
    deadline and for each of the options' deadlines the cascade with what was predicted and what both halves say;
    ``baselines``: always the deterministic, always the cheapest. Raises InvalidRequest for fewer than 20 rows, an
    unknown deterministic classifier, or more than 20 IDK classifiers in ``joint``.

    O(n N log N) time for n classifiers and N rows, and the algorithm's (``sets``: n 2^n for joint).
    """
    check(DatasetFacts.of(dataset), options)
    total = 3 + len(options.deadlines) + len(dataset.spec.classifiers)
    build, held_out = _halves(dataset.rows, rng)
    run.progress(0, total, "finding thresholds")
    learned = _learn(dataset, options, build, lambda done, message: run.progress(done, total, message))
    run.progress(total - 2 - len(options.deadlines), total, "ordering the classifiers")
    plan = _plan(dataset, options, build, learned)
    rows = {"build": _rows(dataset, learned, build), "held_out": _rows(dataset, learned, held_out)}
    replays = []
    for i, deadline in enumerate((None, *options.deadlines)):
        run.progress(total - 1 - len(options.deadlines) + i, total, "replaying the held-out half")
        replays.append(_replayed(plan, learned, rows, deadline))
    summary = _summary(dataset, options, learned, plan) | {"replays": replays}
    summary["rows"] = {"build": len(build), "held_out": len(held_out)}
    summary["baselines"] = _baselines(dataset, learned, build, held_out)
    summary["notes"] = _notes(options, replays)
    run.progress(total, total, "done")
    return Fitted(plan, summary)


def check(facts: DatasetFacts, options: CascadeOptions) -> None:
    """Refuse a trace with too few rows, and an unknown deterministic classifier."""
    if facts.rows < MIN_ROWS:
        raise InvalidRequest.at(Fault(("dataset",), f"has {facts.rows} rows, a cascade needs at least {MIN_ROWS}"))
    names = facts.classifiers
    if options.deterministic is not None and options.deterministic not in names:
        asked = f"is {options.deterministic!r}, the trace has the classifiers {', '.join(names)}"
        raise InvalidRequest.at(Fault(("deterministic",), asked))


def _halves(rows: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    order = rng.permutation(rows)
    return np.sort(order[: rows // 2]), np.sort(order[rows // 2 :])


def _learn(dataset: Trace, options: CascadeOptions, build: Ints, told: Any) -> _Learned:
    """Find out which classifiers can be used, and how good and fast they are, on the build half."""
    last = _deterministic(dataset, options, build)
    columns, classifiers, thresholds, bounds = [], [], [], []
    left_out: list[dict[str, Any]] = []
    for j, spec in enumerate(dataset.spec.classifiers):
        told(j, f"finding the threshold of {spec.name}")
        if j == last:
            continue
        if spec.confidence is None:
            left_out.append({"name": spec.name, "reason": "gives no confidence", "best_precision_bound": None})
            continue
        confidences = dataset.confidences[build, j]
        found = find_threshold(
            confidences, dataset.correct[build, j], options.target_precision, options.wilson_confidence
        )
        if found.confidence is None:
            reason = f"its precision is never proved to be {options.target_precision:g}"
            left_out.append({"name": spec.name, "reason": reason, "best_precision_bound": found.bound})
            continue
        columns.append(j)
        share = min(float((confidences >= found.confidence).mean()), len(build) / (len(build) + 1))
        classifiers.append(_classifier(dataset, options, build, j, share))
        thresholds.append(found.confidence)
        bounds.append(found.bound)
    return _Learned(
        (*columns, last),
        (*classifiers, _classifier(dataset, options, build, last, 1.0)),
        (*thresholds, np.nan),
        (*bounds, None),
        tuple(left_out),
    )


def _deterministic(dataset: Trace, options: CascadeOptions, build: Ints) -> int:
    names = [spec.name for spec in dataset.spec.classifiers]
    if options.deterministic is not None:
        return names.index(options.deterministic)
    right = dataset.correct[build].sum(axis=0).tolist()
    costs = dataset.costs[build].mean(axis=0).tolist()
    return min(range(len(names)), key=lambda j: (-right[j], costs[j], names[j]))


def _classifier(dataset: Trace, options: CascadeOptions, build: Ints, j: int, share: float) -> Classifier:
    mean, worst = mean_and_worst(dataset.costs[build, j], options.worst_case_quantile)
    spec = dataset.spec.classifiers[j]
    return Classifier(
        name=spec.name, execution_time=mean, success_probability=share, group=spec.group, worst_case_time=worst
    )


def _plan(dataset: Trace, options: CascadeOptions, build: Ints, learned: _Learned) -> CascadePlan:
    """Order the classifiers for every deadline."""
    *idk, last = learned.classifiers
    reasons = {k.name: discard_reason(k, last, None) for k in idk}
    useful = [k for k in idk if reasons[k.name] is None]
    problem = Problem.of(useful, last, "independent" if options.dependence == "joint" else options.dependence)
    if options.dependence == "joint":
        problem = _counted(problem, learned, _rows(dataset, learned, build))
    front, algorithm = _frontier(problem, options)
    steps = step_function(problem, front)
    proved = steps[-1].expected if front.lower_bound is None else min(front.lower_bound, steps[-1].expected)
    names = [k.name for k in problem.idk] + [last.name]
    calls = [[*step.members, len(problem.idk)] for step in steps]
    return CascadePlan(
        names=tuple(names),
        thresholds=np.array([learned.thresholds[learned.index(name)] for name in names]),
        execution_times=np.append(problem.times, last.execution_time),
        worst_case_times=np.append(problem.worst, last.worst_case),
        maximum_durations=np.array([step.maximum for step in steps]),
        expected_durations=np.array([step.expected for step in steps]),
        offsets=np.cumsum([0, *map(len, calls)], dtype=np.int64),
        members=np.array([k for call in calls for k in call], dtype=np.int32),
        reaching=np.array([u for step in steps for u in problem.reaching(step.members)]),
        algorithm=algorithm,
        optimal=front.lower_bound is None,
        unit=dataset.spec.unit,
        discarded=tuple(sorted((name, reason) for name, reason in reasons.items() if reason is not None)),
        lower_bound=proved,
    )


def _counted(problem: Problem, learned: _Learned, rows: Rows) -> Problem:
    """Count in the build half what each set of IDK classifiers leaves unclassified."""
    n = len(problem.idk)
    if n > MAX_CLASSIFIERS:
        limit = f"joint is exact for at most {MAX_CLASSIFIERS} IDK classifiers, {n} can be used"
        hint = "name fewer classifiers or use independent, dependent or grouped"
        raise InvalidRequest.at(Fault(("dependence",), f"{limit}: {hint}"))
    order = [learned.index(k.name) for k in problem.idk]
    return replace(problem, counts=count_left(rows.answers[:, order]))


def _frontier(problem: Problem, options: CascadeOptions) -> tuple[Front, Algorithm]:
    match options.dependence:
        case "independent":
            return ratio_frontier(problem), "ratio-frontier"
        case "dependent":
            return power_frontier(problem), "power-frontier"
        case "grouped":
            return group_frontier(problem)
        case _:
            return set_states(problem), "set-states"


def _rows(dataset: Trace, learned: _Learned, rows: Ints) -> Rows:
    """Take rows of the trace, in the columns of the classifiers that can be used."""
    where = np.ix_(rows, np.array(learned.columns))
    thresholds = np.where(np.isnan(learned.thresholds), -np.inf, learned.thresholds)
    confidences = np.nan_to_num(dataset.confidences[where])
    return Rows(confidences >= thresholds, dataset.correct[where], dataset.costs[where])


def _replayed(plan: CascadePlan, learned: _Learned, rows: dict[str, Rows], deadline: float | None) -> dict[str, Any]:
    """Say what was predicted for a deadline, and what both halves of the rows say to it."""
    try:
        decision = plan.decide(CascadeQuery(deadline=deadline))
    except Infeasible as error:
        return {"deadline": deadline, "feasible": False, "reason": str(error)}
    names = [k.name for k in learned.classifiers]
    cascade = [learned.index(name) for name in decision.cascade]
    reached = [step.probability_of_reaching for step in decision.steps] + [0.0]
    answered = {name: reached[i] - reached[i + 1] for i, name in enumerate(decision.cascade)}
    build = replay(rows["build"], cascade, names)
    return {
        "deadline": deadline,
        "feasible": True,
        "cascade": list(decision.cascade),
        "predicted": {
            "mean_duration": decision.expected_duration,
            "maximum_duration": decision.maximum_duration,
            "accuracy": build["accuracy"],
            "answered": answered,
        },
        "build": build,
        "held_out": replay(rows["held_out"], cascade, names),
    }


def _notes(options: CascadeOptions, replays: list[dict[str, Any]]) -> list[str]:
    """Say what a reader of the summary should not overlook."""
    found = replays[0]["held_out"]
    notes = []
    if found["accuracy"] < options.target_precision:
        notes.append(
            f"on the held-out half the cascade is right {found['accuracy']:.4f} of the time: the target precision "
            f"{options.target_precision:g} holds for each classifier alone, not for the items that earlier ones left"
        )
    longest, promised = found["maximum_duration"], replays[0]["predicted"]["maximum_duration"]
    if longest > promised:
        notes.append(
            f"on the held-out half an item took {longest:.6g}, the worst-case times of the build half add up to "
            f"{promised:.6g}: give deadlines a margin"
        )
    return notes


def _baselines(dataset: Trace, learned: _Learned, build: Ints, held_out: Ints) -> list[dict[str, Any]]:
    """Replay two strategies that need no cascade on the held-out half."""
    names = [spec.name for spec in dataset.spec.classifiers]
    costs = dataset.costs[build].mean(axis=0).tolist()
    cheapest = min(range(len(names)), key=lambda j: (costs[j], names[j]))
    every = np.ones((len(held_out), len(names)), dtype=bool)
    rows = Rows(every, dataset.correct[held_out], dataset.costs[held_out])
    chosen = {"always-deterministic": learned.columns[-1], "always-cheapest": cheapest}
    return [
        {"strategy": strategy, "classifier": names[j], "held_out": replay(rows, [j], names)}
        for strategy, j in chosen.items()
    ]


def _summary(dataset: Trace, options: CascadeOptions, learned: _Learned, plan: CascadePlan) -> dict[str, Any]:
    return {
        "unit": dataset.spec.unit,
        "dependence": options.dependence,
        "algorithm": plan.algorithm,
        "optimal": plan.optimal,
        "lower_bound": plan.lower_bound,
        "steps": len(plan.maximum_durations),
        "deterministic": learned.classifiers[-1].name,
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
            for k, threshold, bound in zip(learned.classifiers, learned.thresholds, learned.bounds, strict=True)
        ],
        "left_out": list(learned.left_out),
        "discarded": [{"name": name, "reason": reason} for name, reason in plan.discarded],
    }
