"""From a table of features or a trace to a plan: classifiers, the nodes' policies, the trade-off curve.

The rows are cut into K parts, and everything is learned K times: member k of the policy learns from all rows but those
of part k, classifiers and decisions alike, and is validated on part k. What is kept is all K members. An item's id says
which of them decides for it, so that the costs measured on validation are unbiased for what is kept, and not for
something like it; only the answers are the mean of all members, which can hardly be worse than each of them.

1. The DAG is drawn (``graph``), or grown with many sensors (``growth``).
2. The classifiers of all nodes are fitted, and the losses of stopping taken from them (``classifier_training``,
   ``losses``).
3. Graph reduce learns the nodes' policies under all trade-offs at once (``graph_reduce``).
4. Rows walk through, and draw the curve (``budget_mixture``).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from models import DatasetFacts, Fault, FeaturesSpec, FeatureTable, InvalidRequest, Trace, TraceSpec
from models.arrays import Floats
from models.policy import PolicyOptions
from solvers.base import Fitted, Progress, Run, part_of, refuse_few_items
from solvers.policy.assemble import assemble
from solvers.policy.classifier_training import TrainingRows, cut
from solvers.policy.classless import (
    answer_tradeoffs,
    check_answers,
    draw_answer_graph,
    losses_of,
    quality_of,
)
from solvers.policy.curve import bounds_of
from solvers.policy.fixed_points import FixedPoints
from solvers.policy.graph import Graph
from solvers.policy.hard_budgets import BUDGETS, DEADLINES, ROUNDING, best_within, distinct, limits_of, log_losses_of
from solvers.policy.learning import LearnedPolicies, Prices, Task, learn
from solvers.policy.losses import Losses
from solvers.policy.plan import PolicyPlan
from solvers.policy.quality_axes import with_quality_axes
from solvers.policy.savings import policy_savings
from solvers.policy.sensor_times import fetched, fetches_of, times_of_sets
from solvers.policy.sensors import Sensors, refuse_unsized
from solvers.policy.states import States, drawn, enumerated_states, grown_states, grows
from solvers.policy.summary import summarize
from solvers.policy.tradeoff_spread import tradeoffs_of
from solvers.savings import Replay, SettingReplay

MIN_ROWS = 20
MOST_SINGLE = 10
"""Sensors whose every set can be a node."""
GROWN_SMOOTHING = 0.5
"""The share of losses that a grown graph learns from as expected, for the classifier of all sensors may know less of a
row than one of few that matter. Of few sets it is all: whether a classifier that has seen a row errs on its neighbours
leads nodes around that set, and then the row judges them too well."""


def fit(
    dataset: FeatureTable | Trace, options: PolicyOptions, rng: np.random.Generator, run: Run
) -> Fitted[PolicyPlan]:
    """Build a policy from a table of features or from a trace.

    Raises InvalidRequest for fewer than 20 rows or a single class, for more than 10 sensors that are to be acquired
    singly, and for costs that depend on sizes that the table does not have.

    The summary: unit, rows, nodes, edges, every sensor with its cost and
    the error of its own classifier, the loss on validation, the curve, and for comparison the error and cost of all
    sensors and of none; the traffic under each point of the curve, as of ``TrafficCounts``.
    """
    check(DatasetFacts.of(dataset), options)
    quality = quality_of(dataset)
    if quality is None and int(dataset.labels.max()) == 0:
        raise InvalidRequest.at(Fault(("dataset",), f"has the one class {dataset.classes[0]!r}, needs at least 2"))
    run.progress(0, 1, "reading the table")
    sensors = Sensors.of(dataset, embeds=options.embeds)
    fetches = int(fetches_of(sensors.names, options.parallel).max()) + 1
    is_grown = quality is None and grows(options, fetches)
    prices = Prices.of(dataset, sensors.names, options)  # of all rows: a worst case is not to be missed
    if is_grown and isinstance(dataset, FeatureTable):
        dataset = drawn(dataset, rng)
        prices = replace(Prices.of(dataset, sensors.names, options), times=prices.times)
    training = _training(dataset, sensors, quality, options, rng)
    sensors = training.sensors
    ready = None if quality is None else draw_answer_graph(sensors.telling, prices.costs, quality, prices.fetches)
    states, seeds, (start, end, total) = _states(training, options, prices, rng, run, is_grown, ready)
    knows_limits = quality is not None or is_grown
    task = _task(options, training, states, seeds, prices, GROWN_SMOOTHING if is_grown else 1.0, knows_limits)
    learned = learn(task, partial(_tell, part_of(run.progress, start, end, total), len(task.graph)))
    run.progress(total - 1, total, "drawing the curve")
    plan, passed = assemble(dataset.spec.unit, prices, task, states.members, learned, is_grown)
    run.progress(total, total, "done")
    graph, observed = task.graph, task.losses.observed
    summary = summarize(plan, learned.loss, _kept(plan, graph, observed))
    summary["traffic"] = passed.model_dump(mode="json")
    points = _points(task, learned)
    held = policy_savings(dataset, plan.sensors, graph, observed, task.judged, prices.costs, points, rng)
    return Fitted(plan, summary, held)


def _training(
    dataset: FeatureTable | Trace,
    sensors: Sensors,
    quality: Floats | None,
    options: PolicyOptions,
    rng: np.random.Generator,
) -> TrainingRows:
    """Cut the rows into parts, and give what classifiers learn from."""
    cells, folds = sensors.cells(dataset), cut(dataset.labels, dataset.item_codes, options.folds, rng)
    if quality is not None and isinstance(dataset, Trace) and options.embeds:
        sensors, cells = with_quality_axes(sensors, cells, dataset.embeddings, quality, folds)
    outputs = int(dataset.labels.max()) + 1 if quality is None else len(sensors.names)
    items = dataset.items if len(dataset.items) else None
    return TrainingRows(sensors, cells, dataset.labels, outputs, folds, quality, items=items)


def _task(
    options: PolicyOptions,
    training: TrainingRows,
    states: States,
    seeds: Sequence[int],
    prices: Prices,
    smoothing: float,
    knows_limits: bool,
) -> Task:
    """Put together what is learned from: what stopping costs, the trade-offs of the curve, and where limits are learned
    for hard budgets and deadlines, which are the same where sensors take as long as they cost."""
    must_begin, graph = training.quality is not None, states.graph
    losses, replay_settings = _losses(states, training, smoothing), tradeoffs_of(options, prices.means)
    if must_begin and options.tradeoffs == "auto":
        replay_settings = answer_tradeoffs(replay_settings, states.posteriors[-1], prices.means)
    set_times = times_of_sets(graph.members, prices.times, prices.fetches)
    set_costs = graph.members.astype(np.float64) @ prices.means
    caps, deadlines = _limits(training, states, set_costs, set_times) if knows_limits else (np.empty(0), np.empty(0))
    return Task(
        options,
        training,
        graph,
        states.posteriors,
        losses,
        FixedPoints.of(graph, losses.observed, prices.costs, must_begin=must_begin),
        prices.costs,
        prices.means,
        np.append(replay_settings, np.full(len(caps) + len(deadlines), replay_settings[0])),
        seeds,
        states.rows,
        np.concatenate([np.full(len(replay_settings), np.inf), caps, np.full(len(deadlines), np.inf)]),
        np.concatenate([np.full(len(replay_settings) + len(caps), np.inf), deadlines]),
        set_times,
    )


def _limits(training: TrainingRows, states: States, set_costs: Floats, set_times: Floats) -> tuple[Floats, Floats]:
    """List the hard budgets to learn for, and the deadlines, which have none of their own where sensors take as long as
    they cost."""
    is_one = np.allclose(set_times, set_costs, rtol=ROUNDING, atol=0)
    if training.quality is None:
        lost = log_losses_of(states.posteriors, training.labels)
        caps = limits_of(set_costs, BUDGETS, best_within(set_costs, lost))
        return caps, np.empty(0) if is_one else limits_of(set_times, DEADLINES, best_within(set_times, lost))
    every, firsts = np.arange(len(states.graph)), states.graph.actions_of(0)

    def with_firsts(sets: Floats, counts: tuple[int, int]) -> Floats:
        """Have what answers alone among them, so that the best within each limit is learned for."""
        limits = limits_of(sets, counts, every)
        return distinct(np.concatenate([limits, sets[firsts]])) if len(limits) else limits

    return with_firsts(set_costs, BUDGETS), np.empty(0) if is_one else with_firsts(set_times, DEADLINES)


def _losses(states: States, training: TrainingRows, smoothing: float) -> Losses:
    """Tell what stopping at each node costs."""
    if training.quality is None:
        return Losses.of(states.posteriors, training.labels, smoothing)
    return losses_of(states.posteriors, states.graph.members, training.quality, smoothing)


def _states(
    training: TrainingRows,
    options: PolicyOptions,
    prices: Prices,
    rng: np.random.Generator,
    run: Run,
    is_grown: bool,
    ready: Graph | None,
) -> tuple[States, list[int], tuple[int, int, int]]:
    """Grow or enumerate states: these, a seed for each node's policy, and from where to where, of what, the progress of
    learning is counted. ready: a graph that is drawn already."""
    if is_grown:
        progress = part_of(run.progress, 0, 60, 100)
        states = grown_states(training, options, prices.means, prices.times, prices.fetches, rng, progress)
        return states, rng.integers(2**32, size=len(states.graph)).tolist(), (60, 99, 100)
    graph = Graph.of_steps(len(prices.means), fetched(prices.fetches)) if ready is None else ready
    seeds = rng.integers(2**32, size=2 * len(graph)).tolist()
    total = 2 * len(graph) + 1
    fitting = part_of(run.progress, 0, len(graph), total)
    states = enumerated_states(training, options, graph, seeds[: len(graph)], fitting)
    return states, seeds[len(graph) :], (len(graph), total - 1, total)


def _kept(plan: PolicyPlan, graph: Graph, observed: Floats) -> Floats:
    """Take the losses of the nodes that a plan has of a graph: (S, n)."""
    places = {each.tobytes(): at for at, each in enumerate(graph.members)}
    return observed[[places[each.tobytes()] for each in plan.members]]


def _points(task: Task, learned: LearnedPolicies) -> dict[str, SettingReplay]:
    """Name what each trade-off did with the rows, and each sensor that is always the one to answer, which a budget of
    its cost asks for."""
    each = zip(task.tradeoffs[task.curve].tolist(), learned.errors, learned.costs, strict=False)
    points = {
        f"a trade-off of {tradeoff:.3g}": SettingReplay({"tradeoff": tradeoff}, Replay(1 - errors, costs))
        for tradeoff, errors, costs in each
    }
    alone = task.fixed.replays(task.training.sensors.names, task.graph)
    bounds = {name: bounds_of(one.costs[None], task.options.confidence)[0] for name, one in alone.items()}
    return points | {name: SettingReplay({"budget": float(bounds[name])}, one) for name, one in alone.items()}


def _tell(progress: Progress, total: int, done: int) -> None:
    progress(done, total, f"the policies of {done} nodes are learned")


def check(facts: DatasetFacts, options: PolicyOptions) -> None:
    """Refuse too few rows, too many sensors to acquire singly, embeddings that none has, and of traces without classes
    what needs them."""
    refuse_few_items(facts, MIN_ROWS, "a policy")
    if options.embeds and not (isinstance(facts.spec, TraceSpec) and facts.embedding_dimensions):
        named = "embeddings" if options.embeddings else "embedder"
        raise InvalidRequest.at(Fault((named,), "asks for embeddings, and the dataset has none"))
    if isinstance(facts.spec, TraceSpec) and not facts.spec.has_classes:
        return check_answers(facts, facts.spec, options)
    features = facts.spec.features if isinstance(facts.spec, FeaturesSpec) else ()
    if isinstance(facts.spec, FeaturesSpec):
        refuse_unsized(facts.spec)
    sensors = [each.name for each in features] or facts.classifiers
    fetches = int(fetches_of(sensors, options.parallel).max()) + 1
    if options.graph == "subsets" and fetches > MOST_SINGLE:
        asked = f"is subsets, which is for at most {MOST_SINGLE} sensors; there are {fetches}"
        raise InvalidRequest.at(Fault(("graph",), asked))
