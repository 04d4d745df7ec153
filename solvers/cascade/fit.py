"""Fit of a cascade to a trace: the frontier by cross-fitting, and the cascades for deadlines by halves.

Budgets and accuracies select points of the frontier, which is fitted to all rows (``frontier.fit``). A deadline alone
selects a cascade by the paper's method. These cascades are fitted to one half of the rows and replayed on the other
half.

The build half, a random half of the rows, determines each IDK classifier's accept threshold (``thresholds``), its
times, and the share of rows it answers. Then the algorithm for the chosen ``dependence`` finds the best cascade for
every deadline.
"""

from dataclasses import replace

import numpy as np

from models import DatasetFacts, Fault, InvalidRequest, Trace
from models.arrays import Int64s
from models.cascade import Algorithm, CascadeOptions, Classifier
from solvers.base import BuildContext, FitResult, count_split_rows, require_min_items
from solvers.cascade.classifier_measurements import (
    MeasuredClassifiers,
    measure_classifiers,
    select_replay_rows,
    share_setup,
)
from solvers.cascade.deadline_thresholds import measure_execution_times
from solvers.cascade.dependent_classifiers import build_dependent_frontier
from solvers.cascade.frontier.fit import fit_frontier
from solvers.cascade.groups.search import solve_group_frontier
from solvers.cascade.independent_classifiers import build_independent_frontier
from solvers.cascade.plan import CascadePlan
from solvers.cascade.problem import CascadeFront, CascadeProblem, build_step_function
from solvers.cascade.solve import discard_reason
from solvers.cascade.subset_search import MAX_CLASSIFIERS, count_unclassified, solve_set_states
from solvers.cascade.summary import (
    add_holdout_results,
    describe_overruns,
    list_warnings,
    measure_cascade_savings,
    replay_baselines,
    replay_deadline,
    summarize,
)
from solvers.chat_rules import check_tool_rule
from solvers.item_splits import GroupedRows, assign_group_folds, split_rows
from solvers.shared_setup import measure_setup

FOLDS = 5
"""Cross-fitting folds of the frontier."""
MIN_ROWS = 20
"""Minimum number of rows: ten for each half."""


def fit(dataset: Trace, options: CascadeOptions, rng: np.random.Generator, run: BuildContext) -> FitResult[CascadePlan]:
    """Fit the best cascade for every deadline to a trace.

    Classifiers without confidence, or whose precision never reaches the target, are excluded. The deterministic
    classifier is the one in the options, else the most accurate one on the build half. Ties go to the cheaper
    classifier, then to the first name. An IDK classifier that answers all N build rows has the success probability N /
    (N + 1), so that it is not treated as deterministic; ``joint`` uses the counts instead.

    The target precision holds for each classifier on all rows above its threshold. A cascade's accuracy can be lower
    than the target, because rows that earlier classifiers leave unclassified are harder. The summary has the accuracy
    on both halves.

    Returns:
        The plan; its savings; and its summary: unit, rows, options, classifiers, left_out, discarded, optimality;
            ``replays``, the predicted and measured results for each deadline and without a deadline; ``baselines``,
            calling only the deterministic or only the cheapest classifier.
    Raises:
        InvalidRequest: fewer than 20 rows, an unknown deterministic classifier, or more than 20 IDK classifiers in
            ``joint``.
    Complexity: O(n N log N) for n classifiers and N rows, plus the algorithm's (``subset_search``: n 2^n for
    ``joint``).
    """
    check_dataset(DatasetFacts.from_dataset(dataset), options)
    dataset = dataset.with_reject()
    total = 3 + len(options.deadlines) + len(dataset.spec.classifiers)
    items = dataset.item_codes
    build, held_out = split_rows(items, [dataset.rows // 2], rng)
    if options.in_time_order:
        build, held_out = _split_in_order(items)
    run.progress(0, total, "fitting accept thresholds")
    measured = measure_classifiers(dataset, options, build, lambda done, message: run.progress(done, total, message))
    run.progress(total - 2 - len(options.deadlines), total, "ordering the classifiers")
    plan = _build_plan(dataset, options, build, measured)
    plan = add_holdout_results(plan, measured, select_replay_rows(dataset, measured, held_out), items[held_out])
    step = total - 1 - len(options.deadlines)
    folds = _split_folds(items, rng)
    if options.in_time_order:
        folds = [(build, held_out)]
    frontier, calibrated, outcomes = fit_frontier(
        dataset, options, folds, lambda message: run.progress(step, total, message)
    )
    plan = replace(plan, **frontier)
    replays = []
    for i, deadline in enumerate((None, *options.deadlines)):
        run.progress(total - 1 - len(options.deadlines) + i, total, "replaying the holdout half")
        replays.append(replay_deadline(plan, dataset, {"build": build, "held_out": held_out}, deadline))
    summary = summarize(dataset, options, measured, plan) | {"replays": replays, "frontier": calibrated}
    summary |= count_split_rows({"build": build, "held_out": held_out, "frontier": outcomes.rows}, items)
    summary["baselines"] = replay_baselines(dataset, measured, build, held_out)
    summary["deadlines"] = describe_overruns(dataset, options, build)
    summary["notes"] = list_warnings(options, replays, summary["deadlines"])
    run.progress(total, total, "done")
    tuning = build if options.in_time_order else None
    return FitResult(plan, summary, measure_cascade_savings(plan, dataset, outcomes, tuning, rng))


def check_dataset(facts: DatasetFacts, options: CascadeOptions) -> None:
    """Raise InvalidRequest for too few rows or an unknown deterministic classifier."""
    require_min_items(facts, MIN_ROWS, "a cascade")
    check_tool_rule(facts, options)
    names = facts.classifiers
    if options.deterministic is not None and options.deterministic not in names:
        reason = f"{options.deterministic!r} not found; available: {', '.join(names)}"
        raise InvalidRequest.from_faults(Fault(("deterministic",), reason))


def _split_in_order(items: Int64s) -> tuple[Int64s, Int64s]:
    """Split items by their first row: earlier half to build, later half as holdout."""
    grouped = GroupedRows.from_codes(items)
    is_early = grouped.place < len(grouped.first) // 2
    return np.flatnonzero(is_early), np.flatnonzero(~is_early)


def _split_folds(items: Int64s, rng: np.random.Generator) -> list[tuple[Int64s, Int64s]]:
    """Return the training rows and the measured rows of each fold."""
    fold = assign_group_folds(items, FOLDS, rng)
    return [(np.flatnonzero(fold != part), np.flatnonzero(fold == part)) for part in range(FOLDS)]


def _build_plan(dataset: Trace, options: CascadeOptions, build: Int64s, measured: MeasuredClassifiers) -> CascadePlan:
    *idk, last = measured.classifiers
    reasons = {k.name: discard_reason(_exclude_setup(dataset, build, k), last, None) for k in idk}
    useful = [k for k in idk if reasons[k.name] is None]
    problem = CascadeProblem.from_classifiers(
        useful, last, "independent" if options.dependence == "joint" else options.dependence
    )
    order = [measured.index_of(k.name) for k in (*problem.idk, last)]
    columns = np.array(measured.columns)[order]
    setup = share_setup(dataset, build, columns, options.worst_case_quantile).average_rows()
    problem = replace(problem, setup=setup)
    if options.dependence == "joint" or len(setup):
        _refuse_many_classifiers(problem, options)
    if options.dependence == "joint":
        rows = select_replay_rows(dataset, measured, build)
        problem = replace(problem, counts=count_unclassified(rows.answers[:, order[:-1]]))
    front, algorithm = _solve_all_deadlines(problem, options)
    steps = build_step_function(problem, front)
    proved = steps[-1].expected if front.lower_bound is None else min(front.lower_bound, steps[-1].expected)
    names = [k.name for k in problem.idk] + [last.name]
    calls = [[*step.members, len(problem.idk)] for step in steps]
    return CascadePlan(
        names=tuple(names),
        thresholds=np.array([measured.thresholds[measured.index_of(name)] for name in names]),
        execution_times=np.append(problem.times, last.execution_time),
        worst_case_times=np.append(problem.worst, last.worst_case),
        maximum_durations=np.array([step.maximum for step in steps]),
        expected_durations=np.array([step.expected for step in steps]),
        offsets=np.cumsum([0, *map(len, calls)], dtype=np.int64),
        members=np.array([k for call in calls for k in call], dtype=np.int32),
        reaching=np.array([u for step in steps for u in problem.reaching_probabilities(step.members)]),
        algorithm=algorithm,
        optimal=front.lower_bound is None,
        unit=dataset.spec.unit,
        discarded=tuple(sorted((name, reason) for name, reason in reasons.items() if reason is not None)),
        lower_bound=proved,
        **measure_setup(dataset),
        setup_worst_times=share_setup(dataset, np.arange(dataset.rows), columns, options.worst_case_quantile).worst,
        step_setup_costs=setup.costs,
        step_setup_worst_times=setup.worst,
    )


def _exclude_setup(dataset: Trace, build: Int64s, classifier: Classifier) -> Classifier:
    """Return a classifier whose set-up work other classifiers have done."""
    if not dataset.spec.setup:
        return classifier
    place = [each.name for each in dataset.spec.classifiers].index(classifier.name)
    mean, _ = measure_execution_times(dataset.separate_costs[build, place], 1.0)
    return classifier.model_copy(update={"execution_time": mean})


def _refuse_many_classifiers(problem: CascadeProblem, options: CascadeOptions) -> None:
    """Raise InvalidRequest for too many IDK classifiers for the dynamic program over sets."""
    n = len(problem.idk)
    if n <= MAX_CLASSIFIERS:
        return
    what = "'joint'" if options.dependence == "joint" else f"setup with {options.dependence!r}"
    hint = "use fewer classifiers" + ("" if len(problem.setup) else ", or independent, dependent, or grouped")
    limit = f"{what} supports at most {MAX_CLASSIFIERS} IDK classifiers, got {n}"
    raise InvalidRequest.from_faults(Fault(("dependence",), f"{limit}; {hint}"))


def _solve_all_deadlines(problem: CascadeProblem, options: CascadeOptions) -> tuple[CascadeFront, Algorithm]:
    match "joint" if len(problem.setup) else options.dependence:
        case "independent":
            return build_independent_frontier(problem), "ratio-frontier"
        case "dependent":
            return build_dependent_frontier(problem), "power-frontier"
        case "grouped":
            return solve_group_frontier(problem)
        case _:
            return solve_set_states(problem), "set-states"
