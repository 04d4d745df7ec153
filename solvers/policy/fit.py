"""From a table of features or a trace to a plan: classifiers, the nodes' policies, the trade-off curve.

The rows are cut into K parts, and everything is learned K times: member k of the policy learns from all rows but those
of part k, classifiers and decisions alike, and is validated on part k. What is kept is all K members. An item's id says
which of them decides for it, so that the costs measured on validation are unbiased for what is kept, and not for
something like it; only the answers are the mean of all members, which can hardly be worse than each of them.

1. With many sensors, groups are chosen (``subsets``), and the DAG is drawn (``graph``).
2. The classifiers of all nodes are fitted, and the losses of stopping taken from them (``classifier_training``,
   ``losses``).
3. Graph reduce learns the nodes' policies under all trade-offs at once (``graph_reduce``), by each learner that is
   asked for.
4. Rows walk through; the better learner's curve is kept (``budget_mixture``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from models import DatasetFacts, Fault, FeaturesSpec, FeatureTable, InvalidRequest, Trace, TraceSpec
from models.arrays import Bools, Floats, Int16s, Int32s, Int64s
from models.policy import PolicyOptions, TrafficCounts
from solvers.alternatives import Replay
from solvers.base import Fitted, Progress, Run, part_of
from solvers.budget_mixture import lower_hull
from solvers.cell_encoding import CellEncoding
from solvers.policy.classifier_training import TrainingRows, cut, in_parallel
from solvers.policy.classless import (
    answer_tradeoffs,
    check_answers,
    draw_answer_graph,
    foreseen,
    losses_of,
    quality_of,
)
from solvers.policy.curve import Measured, bounds_of, choosing_rows, reached
from solvers.policy.embedding_axes import EmbeddingAxes
from solvers.policy.filter_tree import Tournament, learn_by_filter_tree
from solvers.policy.fixed_points import FixedPoints
from solvers.policy.graph import Graph
from solvers.policy.graph_reduce import reduce_graph
from solvers.policy.hard_budgets import BUDGETS, DEADLINES, ROUNDING, apart, beyond, limits_of
from solvers.policy.losses import Losses
from solvers.policy.node_classifiers import Classifiers, Member
from solvers.policy.node_features import node_features
from solvers.policy.node_policies import from_regression, from_tournaments
from solvers.policy.piecewise_basis import KNOTS, Basis
from solvers.policy.plan import PolicyPlan
from solvers.policy.regression import RIDGE, NodeTraining, Regressed, learn_by_regression
from solvers.policy.rollout import walk
from solvers.policy.sensor_times import fetches_of, times_of_sets, worst_times
from solvers.policy.sensors import Sensors, costs_of
from solvers.policy.states import States, draw_graph, drawn, enumerated_states, groups_asked, grown_states, grows
from solvers.policy.summary import summarize
from solvers.policy.tradeoff_spread import tradeoffs_of
from solvers.policy.traffic import Passed, counts_of
from solvers.policy.travelled import Travelled
from solvers.policy.worth import worth
from solvers.statistics import standard_error_of_mean
from solvers.trees.boosting import Growth
from solvers.trees.oblivious_trees import STAGE

Learner = Literal["regression", "filter_tree"]

MIN_ROWS = 20
MOST_SINGLE = 10
"""Sensors whose every set can be a node."""
MOST_NUMBERS = 1 << 22
"""Numbers in the leaves of all nodes' forests: 16 MB; with more edges there are fewer trees."""
MOST_GROWN, LEAST_GROWN = 3_000_000, 1_900_000
"""The same for a grown graph, of whose edges some two thirds are kept: 8 MB, or less where there is no room for it."""
ROOM = 4_000_000
"""Numbers in a grown plan: 16 MB of the 20 that it is to take at most."""
FEW_TREES, SHALLOW, FAR = 24, 3, 0.95
"""Forests of advantages have few trees of at most this depth, and learn so fast that all of them go so far towards the
mean of a leaf. On three drawn traces of six classifiers policies erred no more than with 80 trees of depth 4 (16.1 to
20.6 % of fresh items beside 16.2 to 20.7 %), in two fifths of the room; that is what they were chosen by, too."""
GROWN_SMOOTHING = 0.5
"""The share of losses that a grown graph learns from as expected."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicies:
    """What one learner made of the DAG. policies: of each node that has one; errors, costs, acquired: (L, n), what each
    row met under each trade-off: 1 if wrongly answered, what it paid, how many sensors it acquired; passed: (L,)
    the ways that rows took; loss: the mean of errors and weighed costs."""

    learner: Learner
    policies: dict[int, Any]
    errors: Floats
    costs: Floats
    acquired: Floats
    passed: Sequence[Passed]
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """All that the nodes' policies are learned from. judged: (n, C) for each node, how likely the classes are by the
    member that had not seen the row, or (n, M) how good answers without classes are; fixed: points beside those that
    are learned; costs: (n, M); means: (M,); tradeoffs: (L,); rows: for each node those, (n,), that its policy learns
    from; caps: (L,) what no item may cost more than, at average prices, and deadlines: (L,) how long it may take;
    infinite for trade-offs of the curve, which stand first, before those of hard budgets and those of deadlines;
    set_times: (S,) of nodes."""

    options: PolicyOptions
    training: TrainingRows
    graph: Graph
    judged: Sequence[Floats]
    losses: Losses
    fixed: FixedPoints
    costs: Floats
    means: Floats
    tradeoffs: Floats
    seeds: Sequence[int]
    rows: Sequence[Bools]
    caps: Floats
    deadlines: Floats
    set_times: Floats

    @property
    def curve(self) -> slice:
        """The trade-offs of the curve."""
        return slice(0, self.hard.start)

    @property
    def hard(self) -> slice:
        """Those of hard budgets."""
        return slice(int((np.isinf(self.caps) & np.isinf(self.deadlines)).sum()), self.timed.start)

    @property
    def timed(self) -> slice:
        """Those of deadlines."""
        return slice(int(np.isinf(self.deadlines).sum()), len(self.deadlines))


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """What sensors cost and how long they take. costs: (n, M) of each row; means: (M,); times: (M,) at most, in unit;
    (0,): not known; fetches: (M,) what brings each."""

    costs: Floats
    means: Floats
    times: Floats
    unit: str
    fetches: Int32s

    @classmethod
    def of(cls, dataset: FeatureTable | Trace, sensors: Sequence[str], options: PolicyOptions) -> "Prices":
        """Read them of a dataset."""
        costs = costs_of(dataset)
        means = np.minimum(costs.mean(axis=0), costs.max(axis=0))  # rounding can lift a mean above every cost
        times, unit = worst_times(dataset, costs, options.worst_case_quantile)
        return cls(costs, means, times, unit, fetches_of(sensors, options.parallel))


def fit(
    dataset: FeatureTable | Trace, options: PolicyOptions, rng: np.random.Generator, run: Run
) -> Fitted[PolicyPlan]:
    """Build a policy from a table of features or from a trace.

    Raises InvalidRequest for fewer than 20 rows or a single class, for more than 10 sensors that are to be acquired
    singly, and for costs that depend on sizes that the table does not have.

    The summary: unit, rows, nodes, edges, the groups if sensors are acquired in groups, every sensor with its cost and
    the error of its own classifier, the learners that were tried with their losses, the curve, and for comparison the
    error and cost of all sensors and of none; the traffic under each point of the curve, as of ``TrafficCounts``.
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
    cells = sensors.cells(dataset)
    folds = cut(dataset.labels, options.folds, rng)
    outputs = int(dataset.labels.max()) + 1 if quality is None else len(sensors.names)
    training = TrainingRows(Basis.of(sensors, cells), cells, dataset.labels, outputs, folds, quality)
    learners = _learners(options, is_grown or quality is not None)
    ready = None if quality is None else draw_answer_graph(sensors.telling, prices.costs, quality, prices.fetches)
    states, seeds, (start, end, total) = _states(training, options, prices, rng, run, len(learners), is_grown, ready)
    knows_limits = quality is not None or (is_grown and learners == ("regression",))
    task = _task(options, training, states, seeds, prices, _smoothing(options, is_grown), knows_limits)
    graph = task.graph
    learning = part_of(run.progress, start, end, total)
    learned = [
        learn(task, learner, partial(_tell, learning, len(graph) * at, len(graph) * len(learners), learner))
        for at, learner in enumerate(learners)
    ]
    run.progress(total - 1, total, "drawing the curve")
    best = min(learned, key=lambda learned: learned.loss)
    plan, passed = _plan(dataset.spec.unit, prices, task, states.members, best, is_grown)
    measured = [_measured(task, each) for each in learned]
    chosen = reached(measured, folds, plan.point_bounds, options.confidence)
    plan = replace(plan, point_reached=chosen, choosing=int(choosing_rows(folds).sum()))
    run.progress(total, total, "done")
    observed = task.losses.observed
    summary = summarize(
        plan, {each.learner: each.loss for each in learned}, states.groups, _kept(plan, graph, observed)
    )
    summary["traffic"] = passed.model_dump(mode="json")
    return Fitted(plan, summary, worth(dataset, plan.sensors, graph, observed, prices.costs, _points(task, best), rng))


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
    losses, trade_offs = _losses(states, training, smoothing), tradeoffs_of(options, prices.means)
    if must_begin and options.tradeoffs == "auto":
        trade_offs = answer_tradeoffs(trade_offs, states.posteriors[-1], prices.means)
    set_times = times_of_sets(graph.members, prices.times, prices.fetches)
    set_costs = graph.members.astype(np.float64) @ prices.means
    caps = limits_of(set_costs, BUDGETS) if knows_limits else np.empty(0)
    deadlines = np.empty(0)
    if knows_limits and not np.allclose(set_times, set_costs, rtol=ROUNDING, atol=0):
        deadlines = limits_of(set_times, DEADLINES)
    if must_begin:  # within each limit the best that answers alone is one of those learned for
        firsts = graph.actions_of(0)
        caps = apart(np.concatenate([caps, set_costs[firsts]])) if len(caps) else caps
        deadlines = apart(np.concatenate([deadlines, set_times[firsts]])) if len(deadlines) else deadlines
    return Task(
        options,
        training,
        graph,
        states.posteriors,
        losses,
        FixedPoints.of(graph, losses.observed, prices.costs, must_begin=must_begin),
        prices.costs,
        prices.means,
        np.append(trade_offs, np.full(len(caps) + len(deadlines), trade_offs[0])),
        seeds,
        states.rows,
        np.concatenate([np.full(len(trade_offs), np.inf), caps, np.full(len(deadlines), np.inf)]),
        np.concatenate([np.full(len(trade_offs) + len(caps), np.inf), deadlines]),
        set_times,
    )


def _losses(states: States, training: TrainingRows, smoothing: float) -> Losses:
    """Tell what stopping at each node costs."""
    if training.quality is None:
        return Losses.of(states.posteriors, training.labels, smoothing)
    return losses_of(states.posteriors, states.graph.members, training.quality, smoothing)


def _smoothing(options: PolicyOptions, is_grown: bool) -> float:
    """Say how much of a loss is expected, not observed. Of few sets all of it: whether a classifier that has seen a row
    errs on its neighbours leads nodes around that set, and then the row judges them too well. Of a grown graph the
    classifier of all sensors may know less of a row than one of few that matter."""
    if options.smoothing is not None:
        return options.smoothing
    return GROWN_SMOOTHING if is_grown else 1.0


def _learners(options: PolicyOptions, by_regression: bool) -> tuple[Learner, ...]:
    """Say which learners to try; a grown graph has nodes that know too much for a tournament's polynomials."""
    if options.learner == "auto":
        return ("regression",) if by_regression else ("regression", "filter_tree")
    return (options.learner,)


def _states(
    training: TrainingRows,
    options: PolicyOptions,
    prices: Prices,
    rng: np.random.Generator,
    run: Run,
    learners: int,
    is_grown: bool,
    ready: Graph | None,
) -> tuple[States, list[int], tuple[int, int, int]]:
    """Grow or enumerate states: these, a seed for each node's policy, and from where to where, of what, the progress of
    learning is counted. ready: a graph that is drawn already."""
    if is_grown:
        progress = part_of(run.progress, 0, 60, 100)
        states = grown_states(training, options, prices.means, prices.times, prices.fetches, rng, progress)
        return states, rng.integers(2**32, size=len(states.graph)).tolist(), (60, 99, 100)
    graph, groups = draw_graph(training, options, prices.means, prices.fetches) if ready is None else (ready, ())
    seeds = rng.integers(2**32, size=2 * len(graph)).tolist()
    total = len(graph) * (1 + learners) + 1
    fitting = part_of(run.progress, 0, len(graph), total)
    states = enumerated_states(training, options, graph, seeds[: len(graph)], fitting)
    return replace(states, groups=groups), seeds[len(graph) :], (len(graph), total - 1, total)


def _kept(plan: PolicyPlan, graph: Graph, observed: Floats) -> Floats:
    """Take the losses of the nodes that a plan has of a graph: (S, n)."""
    places = {each.tobytes(): at for at, each in enumerate(graph.members)}
    return observed[[places[each.tobytes()] for each in plan.members]]


def _measured(task: Task, learned: LearnedPolicies) -> Measured:
    """Give what rows met under every trade-off, or fixed point, that can be one of the curve."""
    errors, costs = (np.vstack(each) for each in _with_fixed(task, learned))
    return Measured(errors, costs, np.append(task.tradeoffs[: task.hard.stop], np.zeros(len(task.fixed))))


def _with_fixed(task: Task, learned: LearnedPolicies) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Give errors and costs of what was learned and can be a point of the curve, and of the fixed points behind it."""
    able = slice(0, task.hard.stop)
    return (learned.errors[able], task.fixed.errors), (learned.costs[able], task.fixed.costs)


def _points(task: Task, learned: LearnedPolicies) -> dict[str, Replay]:
    """Name what each trade-off did with the rows, and each sensor that is always the one to answer."""
    each = zip(task.tradeoffs[task.curve].tolist(), learned.errors, learned.costs, strict=False)
    points = {f"a trade-off of {tradeoff:.3g}": Replay(1 - errors, costs) for tradeoff, errors, costs in each}
    return points | task.fixed.replays(task.training.basis.sensors.names, task.graph)


def _tell(progress: Progress, before: int, total: int, learner: str, done: int) -> None:
    progress(before + done, total, f"{learner}: the policies of {done} nodes are learned")


def check(facts: DatasetFacts, options: PolicyOptions) -> None:
    """Refuse too few rows, too many sensors to acquire singly, embeddings that none has, and of traces without classes
    what needs them."""
    if facts.rows < MIN_ROWS:
        raise InvalidRequest.at(Fault(("dataset",), f"has {facts.rows} rows, a policy needs at least {MIN_ROWS}"))
    if options.embeds and not (isinstance(facts.spec, TraceSpec) and facts.embedding_dimensions):
        named = "embeddings" if options.embeddings else "embedder"
        raise InvalidRequest.at(Fault((named,), "asks for embeddings, and the dataset has none"))
    if isinstance(facts.spec, TraceSpec) and not facts.spec.has_classes:
        return check_answers(facts, facts.spec, options)
    features = facts.spec.features if isinstance(facts.spec, FeaturesSpec) else ()
    sensors = [each.name for each in features] or facts.classifiers
    fetches = int(fetches_of(sensors, options.parallel).max()) + 1
    if options.subsets == 0 and fetches > MOST_SINGLE:
        asked = f"is 0, which is for at most {MOST_SINGLE} sensors; there are {fetches}"
        raise InvalidRequest.at(Fault(("subsets",), asked))
    if options.parallel and not grows(options, fetches) and groups_asked(options, fetches):
        asked = f"stand beside {groups_asked(options, fetches)} groups that are chosen for {fetches} fetches"
        raise InvalidRequest.at(Fault(("parallel",), f'{asked}, and these may cut them: ask for "graph": "grown"'))


def learn(task: Task, learner: Learner, tell: Callable[[int], None]) -> LearnedPolicies:
    """Let one learner learn the policies of all nodes, and rows walk through them."""
    policies: dict[int, Any] = {}

    def learn_layer(nodes: Sequence[int], weights: Sequence[Floats]) -> list[Int16s]:
        jobs = [_job(task, learner, node, each) for node, each in zip(nodes, weights, strict=True)]
        before = len(policies)
        learned = in_parallel(jobs, lambda done: tell(before + done))
        policies.update(zip(nodes, learned, strict=True))
        return [each.actions for each in learned]

    chosen = reduce_graph(task.graph, task.losses.learned, task.costs, task.tradeoffs, learn_layer)
    errors, costs, acquired, passed = validate(task.graph, chosen, task.losses.observed, task.costs)
    losses = errors + task.tradeoffs[:, None] * costs
    loss = float(losses[task.curve].mean())
    return LearnedPolicies(learner, policies, errors, costs, acquired, passed, loss)


def _job(task: Task, learner: Learner, node: int, weights: Floats) -> Callable[[], Regressed | Tournament]:
    training, graph = task.training, task.graph
    features = node_features(training.basis.sensors, graph.members[node], task.judged[node], training.cells)
    weighed_costs = graph.step_costs(node, task.means)[:, None] * task.tradeoffs
    targets = graph.actions_of(node)
    barred = beyond(graph.members[targets].astype(np.float64) @ task.means, task.caps)
    barred |= beyond(task.set_times[targets], task.deadlines)
    node_training = NodeTraining(features, weights, training.folds, weighed_costs, task.rows[node], barred)
    if task.fixed.must_begin:
        ahead = foreseen(task.judged[node], graph.members[node], graph.members[graph.actions_of(node)])
        node_training = replace(node_training, may_stop=node > 0, foreseen=ahead)
    if learner == "filter_tree":
        return partial(learn_by_filter_tree, node_training, task.options.degree)
    return partial(learn_by_regression, node_training, _growth(task), task.seeds[node])


def _growth(task: Task) -> Growth:
    """Say how forests of advantages grow, so that together they do not become too large."""
    of_a_leaf = len(task.graph.targets) * task.training.members * len(task.tradeoffs)
    depth, numbers = min(task.options.depth, SHALLOW), MOST_NUMBERS
    if task.curve.stop < len(task.caps):
        classifiers = len(task.graph) * task.training.members * task.training.classes
        others = classifiers * (KNOTS * len(task.training.basis.owners) + (task.options.trees << task.options.depth))
        numbers = min(MOST_GROWN, max(LEAST_GROWN, (ROOM - others) * 3 // 2))
    trees = max(STAGE, min(task.options.trees, FEW_TREES, numbers // (of_a_leaf << depth)))
    return Growth(trees, depth, 1 - (1 - FAR) ** (1 / trees), RIDGE)


def validate(
    graph: Graph, chosen: Sequence[Int16s], observed: Floats, costs: Floats
) -> tuple[Floats, Floats, Floats, Sequence[Passed]]:
    """Walk every row under every trade-off: whether it is answered wrongly, what it costs, how many sensors it has at
    last, (L, n) each, and the ways taken, (L,). chosen: (n, L) actions for each node; observed: (S, n) losses; costs:
    (n, M)."""
    rows, at_points, passed = np.arange(observed.shape[1]), [], []
    for at in range(chosen[0].shape[1]):
        walks = walk(graph, len(rows), partial(_chosen, chosen, at))
        ends = walks.ends
        at_points.append(
            (observed[ends, rows], (graph.members[ends] * costs).sum(axis=1), graph.members[ends].sum(axis=1))
        )
        passed.append(Passed.of(graph, walks, observed))
    errors, spent, acquired = (np.array(each, dtype=np.float64) for each in zip(*at_points, strict=True))
    return errors, spent, acquired, passed


def _chosen(chosen: Sequence[Int16s], at: int, node: int, rows: Int64s) -> Int16s:
    return np.asarray(chosen[node][rows, at])


def _traffic(task: Task, part: Travelled, learned: LearnedPolicies, points: Sequence[int]) -> TrafficCounts:
    """Pick the ways that rows took under the points of the curve; those beyond all trade-offs are fixed."""
    passed = [*learned.passed[: task.hard.stop], *task.fixed.passed]
    taken = [passed[at] for at in points]
    return counts_of(part.graph, part.of_passed(taken))


def _plan(
    unit: str, prices: Prices, task: Task, members: list[list[Member]], learned: LearnedPolicies, is_grown: bool
) -> tuple[PolicyPlan, TrafficCounts]:
    """Keep the points of the curve that lie on its hull, fixed ones among them, the hard budgets and deadlines, and
    nothing of the other points; of a grown graph what items took. Tell the traffic, too."""
    training, capped, timed, fixed, able = task.training, task.hard, task.timed, len(task.fixed), task.hard.stop
    all_errors, all_costs = (np.vstack(each) for each in _with_fixed(task, learned))
    errors, costs = all_errors.mean(axis=1), all_costs.mean(axis=1)
    bounds = bounds_of(all_costs, task.options.confidence)
    acquired = np.append(learned.acquired[:able].mean(axis=1), task.fixed.sensors)
    first = np.roll(np.arange(len(bounds)), fixed)  # a fixed point, rather than a trade-off that reaches the same
    hull: list[int] = first[lower_hull(bounds[first], errors[first])].tolist()
    tradeoffs = np.append(task.tradeoffs[:able], np.full(fixed, -1.0))
    limits = np.append(task.caps[:able], np.full(fixed, np.inf))
    points = [*(min(at, able - 1) for at in hull), *range(capped.start, len(task.caps))]
    used = [learned.passed[at].edges > 0 for at in points] if is_grown else [np.ones_like(task.graph.targets) > 0]
    part = Travelled.of(task.graph, np.any(used, axis=0))
    graph, policies = part.graph, learned.policies
    if is_grown:
        policies = part.of_policies(task.graph, policies)
    together = from_regression if learned.learner == "regression" else from_tournaments
    decisions = together(graph.offsets, policies, points)
    if task.fixed.must_begin:
        fixed_at = {point: at - able for point, at in enumerate(hull) if at >= able}
        task.fixed.write(decisions, graph, fixed_at)
    classifiers = Classifiers.of(training.basis, graph.members, [members[node] for node in part.nodes.tolist()])
    plan = PolicyPlan(
        unit=unit,
        sensors=training.basis.sensors.names,
        classes=training.basis.sensors.classes,
        costs=task.means,
        owners=training.basis.sensors.owners,
        labelled=training.basis.sensors.labelled,
        knots=training.basis.knots,
        members=graph.members,
        offsets=graph.offsets,
        targets=graph.targets,
        weights=classifiers.weights,
        intercepts=classifiers.intercepts,
        class_columns=classifiers.columns,
        class_thresholds=classifiers.thresholds,
        class_leaves=classifiers.leaves,
        learner=learned.learner,
        degree=task.options.degree,
        tradeoffs=tradeoffs[hull],
        point_costs=costs[hull],
        point_bounds=bounds[hull],
        point_errors=errors[hull],
        point_sensors=acquired[hull],
        point_cost_errors=standard_error_of_mean(all_costs)[hull],
        confidence=task.options.confidence,
        rows=len(training.labels),
        graph="grown" if is_grown else "subsets",
        caps=task.caps[capped],
        point_caps=np.where(np.isinf(limits), -1.0, limits)[hull] if len(task.caps[capped]) else np.empty(0),
        cap_tradeoffs=task.tradeoffs[capped],
        cap_costs=np.minimum(learned.costs[capped].mean(axis=1), task.caps[capped]),
        cap_errors=learned.errors[capped].mean(axis=1),
        times=prices.times,
        time_unit=prices.unit,
        fetches=prices.fetches,
        deadlines=task.deadlines[timed],
        deadline_tradeoffs=task.tradeoffs[timed],
        deadline_costs=learned.costs[timed].mean(axis=1),
        deadline_errors=learned.errors[timed].mean(axis=1),
        **_encoding(training.basis.sensors.encoding),
        **_embedding(training.basis.sensors.embedding),
        answering="combined" if training.quality is None else "taken",
        **decisions,
    )
    return plan, _traffic(task, part, learned, hull)


def _embedding(embedding: EmbeddingAxes | None) -> dict[str, Any]:
    """Give the fields of a plan that keep how an embedding becomes numbers."""
    return {} if embedding is None else {"embedding_centre": embedding.centre, "embedding_axes": embedding.axes}


def _encoding(encoding: CellEncoding | None) -> dict[str, Any]:
    """Give the fields of a plan that keep how cells become numbers."""
    if encoding is None:
        return {}
    return {
        "cell_owners": encoding.owners,
        "cell_fills": encoding.fills,
        "cell_marks": encoding.marked,
        "cell_offsets": encoding.offsets,
        "cell_categories": encoding.categories,
        "cells_missing": encoding.missing,
    }
