"""Fit of a policy to a feature table or a trace: classifiers, policies of nodes, and the trade-off curve.

K-fold cross-fitting: the classifiers and decisions of member k are fitted to all rows except fold k, and validated on
fold k. The plan keeps all K members. The item's id selects the member that decides, so the measured costs are unbiased
for the plan itself. Answers are the mean of all members, which is rarely worse than a single member.

1. Build the DAG (``graph``), or grow it with many sensors (``growth``).
2. Fit the classifiers of all nodes, and compute the losses of stopping (``classifier_training``, ``losses``).
3. Learn the policies of nodes under all trade-offs at once by graph reduce (``graph_reduce``).
4. Roll out rows, and compute the trade-off curve (``budget_mixture``).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from models import DatasetFacts, Fault, FeaturesSpec, FeatureTable, InvalidRequest, Trace, TraceSpec
from models.arrays import Floats
from models.losses import Losses
from models.policy import PolicyOptions
from solvers.base import BuildContext, FitResult, Progress, require_min_items, scale_progress
from solvers.chat_rules import check_tool_rule
from solvers.policy.assemble import assemble_plan
from solvers.policy.baseline_points import BaselinePoints
from solvers.policy.class_calibration import calibrate_states
from solvers.policy.classifier_training import LEARNING_RATE, TrainingRows, assign_training_folds
from solvers.policy.classless import (
    append_reject,
    build_answer_graph,
    check_classless_trace,
    compute_answer_losses,
    compute_answer_quality,
    compute_reject_quality,
    list_answer_tradeoffs,
)
from solvers.policy.graph import Graph
from solvers.policy.learned_limits import (
    BUDGET_COUNTS,
    DEADLINE_COUNTS,
    RELATIVE_TOLERANCE,
    distinct_amounts,
    find_pareto_sets,
    mean_log_losses,
    select_limits,
)
from solvers.policy.learning import PolicyTask, learn_policies
from solvers.policy.losses import StoppingLosses
from solvers.policy.plan import PolicyPlan
from solvers.policy.quality_axes import add_quality_axes
from solvers.policy.savings import measure_policy_savings
from solvers.policy.sensor_prices import SensorPrices
from solvers.policy.sensor_times import assign_fetches, compute_set_times, group_by_fetch
from solvers.policy.sensors import Sensors, check_sizes
from solvers.policy.setting_replays import replay_validation_rows
from solvers.policy.states import PolicyStates, fit_given_graph, grow_states, sample_rows, should_grow
from solvers.policy.summary import summarize
from solvers.policy.tradeoff_spread import list_tradeoffs

MIN_ROWS = 20
MAX_ENUMERATED_SENSORS = 10
"""Maximum number of fetches for which every set is a node."""
GROWN_SMOOTHING = 0.5
"""Share of expected losses in the losses that a grown graph learns from; the rest is observed.

The classifier of all sensors may be less accurate than one of few relevant sensors. With few sensors the share is 1: a
classifier that was fitted to a row is biased on that row's neighbors, and so are observed losses of nodes nearby.
"""


def fit(
    dataset: FeatureTable | Trace, options: PolicyOptions, rng: np.random.Generator, run: BuildContext
) -> FitResult[PolicyPlan]:
    """Fit a policy to a feature table or a trace.

    Returns:
        The plan; its savings; and its summary: unit, rows, nodes, edges, cost and single error of every sensor,
            validation loss, curve, error and cost of all sensors and of none, and the traffic (``TrafficCounts``).
    Raises:
        InvalidRequest: fewer than 20 rows, a single class, more than 10 fetches with all subsets, or costs that depend
            on sizes although the table has none.
    """
    check_dataset(DatasetFacts.from_dataset(dataset), options)
    quality = compute_answer_quality(dataset)
    if quality is None and int(dataset.labels.max()) == 0:
        raise InvalidRequest.from_faults(
            Fault(("dataset",), f"must have at least 2 classes, has only {dataset.classes[0]!r}")
        )
    run.progress(0, 1, "reading the dataset")
    sensors = Sensors.from_dataset(dataset, embeds=options.embeds)
    fetches = int(assign_fetches(sensors.names, options.parallel).max()) + 1
    is_grown = quality is None and should_grow(options, fetches)
    prices = SensorPrices.from_dataset(dataset, sensors.names, options)  # of all rows, to include the worst case
    if is_grown and isinstance(dataset, FeatureTable):
        dataset = sample_rows(dataset, rng)
        prices = replace(SensorPrices.from_dataset(dataset, sensors.names, options), times=prices.times)
    training = _training_rows(dataset, sensors, quality, options, rng)
    sensors = training.sensors
    given_graph = (
        None if quality is None else build_answer_graph(sensors.has_columns, prices.costs, quality, prices.fetches)
    )
    states, seeds, (start, end, total) = _build_states(training, options, prices, rng, run, is_grown, given_graph)
    if training.losses is not None and training.losses.are_unequal:
        states = calibrate_states(states, training, partial(_report_calibrated, run.progress, start, total))
    learns_limits = quality is not None or is_grown
    task = _build_task(options, training, states, seeds, prices, GROWN_SMOOTHING if is_grown else 1.0, learns_limits)
    learned = learn_policies(
        task, partial(_report_learned, scale_progress(run.progress, start, end, total), len(task.graph))
    )
    run.progress(total - 1, total, "computing the trade-off curve")
    plan, passed, measured = assemble_plan(dataset.spec.unit, prices, task, states.members, learned, is_grown)
    run.progress(total, total, "done")
    graph, observed = task.graph, task.losses.observed
    summary = summarize(plan, learned.loss, _plan_losses(plan, graph, observed))
    summary["traffic"] = passed.model_dump(mode="json")
    points = replay_validation_rows(plan, measured)
    held = measure_policy_savings(dataset, plan.sensors, graph, observed, task.predictions, prices.costs, points, rng)
    return FitResult(plan, summary, held)


def _training_rows(
    dataset: FeatureTable | Trace,
    sensors: Sensors,
    quality: Floats | None,
    options: PolicyOptions,
    rng: np.random.Generator,
) -> TrainingRows:
    cells, folds = (
        sensors.read_cells(dataset),
        assign_training_folds(dataset.labels, dataset.item_codes, options.folds, rng),
    )
    if quality is not None and isinstance(dataset, Trace) and options.embeds:
        sensors, cells = add_quality_axes(sensors, cells, dataset.embeddings, quality, folds)
    outputs = int(dataset.labels.max()) + 1 if quality is None else len(sensors.names)
    items = dataset.items if len(dataset.items) else None
    losses = None if dataset.losses is None else dataset.losses.among_true_classes()
    return TrainingRows(
        sensors,
        cells,
        dataset.labels,
        outputs,
        folds,
        quality,
        LEARNING_RATE,
        items,
        losses,
        dataset.loss_scale or None,
        compute_reject_quality(dataset),
    )


def _build_task(
    options: PolicyOptions,
    training: TrainingRows,
    states: PolicyStates,
    seeds: Sequence[int],
    prices: SensorPrices,
    smoothing: float,
    learns_limits: bool,
) -> PolicyTask:
    graph = states.graph
    losses = _stopping_losses(states, training, smoothing)
    replay_settings = list_tradeoffs(options, prices.means, training.loss_scale, prices.groups)
    if training.quality is not None and options.tradeoffs == "auto":
        answers, _ = append_reject(states.posteriors[-1], graph.members[-1], training.reject_quality)
        paid = np.append(prices.means, np.zeros(answers.shape[1] - len(prices.means)))
        replay_settings = list_answer_tradeoffs(replay_settings, answers, paid)
    set_times = compute_set_times(graph.members, prices.times, prices.fetches, prices.groups)
    costs_by_set = graph.mark_paid(slice(None)).astype(np.float64) @ prices.means
    caps, deadlines = (
        _list_limits(training, states, costs_by_set, set_times) if learns_limits else (np.empty(0), np.empty(0))
    )
    return PolicyTask(
        options,
        training,
        graph,
        states.posteriors,
        losses,
        BaselinePoints.from_graph(graph, losses, prices.costs, has_to_acquire=training.has_to_acquire),
        prices.costs,
        prices.means,
        np.append(replay_settings, np.full(len(caps) + len(deadlines), replay_settings[0])),
        seeds,
        states.rows,
        np.concatenate([np.full(len(replay_settings), np.inf), caps, np.full(len(deadlines), np.inf)]),
        np.concatenate([np.full(len(replay_settings) + len(caps), np.inf), deadlines]),
        set_times,
    )


def _list_limits(
    training: TrainingRows, states: PolicyStates, costs_by_set: Floats, set_times: Floats
) -> tuple[Floats, Floats]:
    """Return the hard budgets and deadlines to learn for.

    There are no deadlines if every set takes as long as it costs.
    """
    is_one = np.allclose(set_times, costs_by_set, rtol=RELATIVE_TOLERANCE, atol=0)
    if training.quality is None:
        log_losses = mean_log_losses(states.posteriors, training.labels)
        caps = select_limits(costs_by_set, BUDGET_COUNTS, find_pareto_sets(costs_by_set, log_losses))
        return caps, np.empty(0) if is_one else select_limits(
            set_times, DEADLINE_COUNTS, find_pareto_sets(set_times, log_losses)
        )
    every, firsts = np.arange(len(states.graph)), states.graph.list_actions(0)

    def with_firsts(sets: Floats, counts: tuple[int, int]) -> Floats:
        """Select limits, and add the cost of each set that can answer alone.

        So the best single answer within each limit is learned for.
        """
        limits = select_limits(sets, counts, every)
        return distinct_amounts(np.concatenate([limits, sets[firsts]])) if len(limits) else limits

    return with_firsts(costs_by_set, BUDGET_COUNTS), np.empty(0) if is_one else with_firsts(set_times, DEADLINE_COUNTS)


def _stopping_losses(states: PolicyStates, training: TrainingRows, smoothing: float) -> StoppingLosses:
    if training.quality is None:
        losses = training.losses or Losses.zero_one(training.classes)
        return StoppingLosses.from_posteriors(states.posteriors, training.labels, smoothing, losses)
    members = states.graph.members
    return compute_answer_losses(states.posteriors, members, training.quality, smoothing, training.reject_quality)


def _build_states(
    training: TrainingRows,
    options: PolicyOptions,
    prices: SensorPrices,
    rng: np.random.Generator,
    run: BuildContext,
    is_grown: bool,
    given_graph: Graph | None,
) -> tuple[PolicyStates, list[int], tuple[int, int, int]]:
    """Grow or enumerate the states; a ``given_graph`` is used instead if it is set.

    Returns:
        The states, a seed for each node's policy, and the range and total of the progress of learning.
    """
    if is_grown:
        progress = scale_progress(run.progress, 0, 60, 100)
        states = grow_states(training, options, prices, rng, progress)
        return states, rng.integers(2**32, size=len(states.graph)).tolist(), (60, 99, 100)
    graph = given_graph
    if graph is None:
        every = Graph.from_steps(len(prices.fetches), group_by_fetch(prices.fetches))
        graph = replace(every, groups=prices.groups)
    seeds = rng.integers(2**32, size=2 * len(graph)).tolist()
    total = 2 * len(graph) + 1
    fitting = scale_progress(run.progress, 0, len(graph), total)
    states = fit_given_graph(training, options, graph, seeds[: len(graph)], fitting)
    return states, seeds[len(graph) :], (len(graph), total - 1, total)


def _plan_losses(plan: PolicyPlan, graph: Graph, observed: Floats) -> Floats:
    places = {each.tobytes(): at for at, each in enumerate(graph.members)}
    return observed[[places[each.tobytes()] for each in plan.members]]


def _report_calibrated(progress: Progress, start: int, total: int, done: int) -> None:
    progress(start, total, f"calibrated {done} classifiers")


def _report_learned(progress: Progress, total: int, done: int) -> None:
    progress(done, total, f"learned the policies of {done} nodes")


def check_dataset(facts: DatasetFacts, options: PolicyOptions) -> None:
    """Raise InvalidRequest for too few rows, too many sensors, or unsupported options."""
    require_min_items(facts, MIN_ROWS, "a policy")
    check_tool_rule(facts, options)
    if options.embeds and not (isinstance(facts.spec, TraceSpec) and facts.embedding_dimensions):
        option = "embeddings" if options.embeddings else "embedder"
        raise InvalidRequest.from_faults(Fault((option,), "needs embeddings, and the dataset has none"))
    if isinstance(facts.spec, TraceSpec) and not facts.spec.has_classes:
        return check_classless_trace(facts, facts.spec, options)
    features = facts.spec.features if isinstance(facts.spec, FeaturesSpec) else ()
    if isinstance(facts.spec, FeaturesSpec):
        check_sizes(facts.spec)
    sensors = [each.name for each in features] or facts.classifiers
    fetches = int(assign_fetches(sensors, options.parallel).max()) + 1
    if options.graph == "subsets" and fetches > MAX_ENUMERATED_SENSORS:
        reason = f"must be 'grown' for more than {MAX_ENUMERATED_SENSORS} sensors, got 'subsets' and {fetches} sensors"
        raise InvalidRequest.from_faults(Fault(("graph",), reason))
