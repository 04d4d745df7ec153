"""Advice on a dataset: split the rows, build all kinds, select, and report."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models import Dataset, DatasetFacts, FeatureTable, Trace, apply_weights
from models.advice import AdviceLimits, AdviceRows, AdviceVerdict, KindAdvice, TradeOffPoint
from models.arrays import Int32s, Int64s
from models.savings import SimpleBaseline
from solvers import KINDS
from solvers.advice.candidates import Candidate, CandidateRows, evaluate_candidates
from solvers.advice.choice import AdviceGoal, choose_candidate, compare_replays, is_within
from solvers.advice.fixed_sets import replay_fixed_sets, replay_most_common
from solvers.advice.summary import format_query, write_summary
from solvers.base import BuildContext, make_generator, require_min_items, scale_progress
from solvers.item_splits import GroupedRows, effective_rows, stratify_labels_by_item
from solvers.kind import AnyKind
from solvers.partial_traces import impute_uncalled
from solvers.policy.sensors import compute_item_sensor_costs
from solvers.savings import AS_LOGGED, BaselineReplays, Replay, estimate_mean_interval, measure_savings
from solvers.statistics import accuracy_interval, mean_accuracy
from solvers.trace_baselines import find_current_baseline, replay_baselines_on

_OF_TWENTY = (10, 15)
"""Of 20 rows of a class, rows for training, and for training and validation."""
MIN_ROWS = 100
"""Minimum number of rows: half for training, a quarter for validation, a quarter for holdout."""


@dataclass(frozen=True, slots=True, eq=False)
class AdviceSplit:
    """Indices of training, validation, and holdout rows."""

    training: Int64s
    validation: Int64s
    holdout: Int64s

    @classmethod
    def from_labels(cls, labels: Int32s, items: Int64s, rng: np.random.Generator) -> "AdviceSplit":
        """Split items at random, stratified by class.

        The first item of each class is a training item.

        Args:
            labels: (n,), class codes.
        """
        grouped = GroupedRows.from_codes(items)
        own = stratify_labels_by_item(grouped, labels)
        order = rng.permutation(len(own))
        by_class = order[np.argsort(own[order], kind="stable")]
        starts = np.searchsorted(own[by_class], own[by_class])
        place = (np.arange(len(own)) - starts) * 13 % 20  # 13: spreads few items over all parts
        part = np.empty(len(own), dtype=np.int64)
        part[by_class] = np.digitize(place, _OF_TWENTY)
        return cls(*(np.flatnonzero(part[grouped.place] == number) for number in range(3)))

    @property
    def unseen(self) -> Int64s:
        """Indices of validation rows, then holdout rows."""
        return np.concatenate((self.validation, self.holdout))


@dataclass(frozen=True, slots=True, eq=False)
class AdviceSource:
    """The unseen rows that advice is based on.

    Attributes:
        items: (n,), equal for rows of one item.
        today: the name of the baseline that is used today; None if unknown.
        unit: the unit of costs.
        loss_scale: the largest loss, in that unit; 0 if all errors are equal.
    """

    items: Int64s
    today: str | None
    unit: str
    loss_scale: float

    def find_mean_loss(self, accuracy: float) -> float | None:
        """Return the mean loss at an accuracy; None if all errors are equal."""
        return self.loss_scale * (1 - accuracy) if self.loss_scale else None


def advise(dataset: Dataset, limits: AdviceLimits, seed: int, seconds: float, run: BuildContext) -> dict[str, Any]:
    """Build every kind that the dataset allows, and return the fields of ``Advice``.

    A kind that exceeds its share of ``seconds`` is excluded. Raises InvalidRequest for fewer than 100 rows.
    """
    check(DatasetFacts.from_dataset(dataset))
    dataset = apply_weights(dataset)
    estimated = impute_uncalled(dataset, seed)
    rng = make_generator(seed)
    parts = AdviceSplit.from_labels(dataset.labels, dataset.item_codes, rng)
    learned, unseen = estimated.take(parts.training), estimated.take(parts.unseen)
    split = CandidateRows(dataset.take(parts.training), dataset.take(parts.unseen), learned, unseen)
    baselines = _replay_baselines(
        learned, unseen, seed, replace(run, progress=scale_progress(run.progress, 0, 10, 100))
    )
    rest = replace(run, progress=scale_progress(run.progress, 10, 99, 100))
    candidates, excluded = evaluate_candidates(_list_kinds(dataset), split, seed, seconds, rest)
    late = [one.kind for one in excluded if one.timed_out]
    items = unseen.item_codes
    today = find_current_baseline(baselines, learned, np.arange(learned.rows)) if isinstance(learned, Trace) else None
    source = AdviceSource(items, today, dataset.spec.unit, dataset.loss_scale)
    advised = _recommend(limits, parts, source, candidates, baselines, late, rng)
    run.progress(100, 100, "done")
    rows = AdviceRows(training=len(parts.training), validation=len(parts.validation), holdout=len(parts.holdout))
    requested = {name: getattr(limits, name) for name in AdviceLimits.model_fields}
    return {**requested, **advised, "unit": dataset.spec.unit, "rows": rows, "excluded": tuple(excluded)}


def check(facts: DatasetFacts) -> None:
    """Raise InvalidRequest for a dataset with too few rows or items."""
    require_min_items(facts, MIN_ROWS, "advice")


def _list_kinds(dataset: Dataset) -> list[AnyKind]:
    """List the kinds that accept the dataset, the fastest first.

    Slower kinds may use the time that faster kinds leave.
    """
    kinds = [one for one in KINDS.values() if isinstance(dataset, one.datasets)]
    return sorted(kinds, key=lambda one: one.build_order)


def _replay_baselines(learned: Dataset, unseen: Dataset, seed: int, run: BuildContext) -> dict[str, Replay]:
    if isinstance(unseen, Trace):
        assert isinstance(learned, Trace)
        free = replay_most_common(learned, unseen) if unseen.classes else {}
        return replay_baselines_on(learned.with_reject(), unseen.with_reject()) | free
    assert isinstance(learned, FeatureTable)

    def report(done: int, of: int) -> None:
        run.progress(done, of, f"simple baselines: {done} of {of} feature sets")

    return replay_fixed_sets(learned, unseen, compute_item_sensor_costs(unseen), seed, report)


def _recommend(
    limits: AdviceLimits,
    parts: AdviceSplit,
    source: AdviceSource,
    candidates: list[Candidate],
    baselines: dict[str, Replay],
    late: list[str],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Select on validation rows, and report on holdout rows."""
    validation = np.arange(len(parts.validation))
    holdout = len(validation) + np.arange(len(parts.holdout))
    validated = [replay.take(validation) for replay in (*baselines.values(), *(one.replay for one in candidates))]
    items, unit = source.items, source.unit
    logged = baselines[AS_LOGGED].take(validation) if AS_LOGGED in baselines else None
    goal = AdviceGoal.from_limits(limits, validated, effective_rows(items[validation]), source.loss_scale, logged)
    in_time = AdviceLimits(deadline=limits.deadline)
    allowed = {name: replay for name, replay in baselines.items() if is_within(in_time, replay.take(validation))}
    replays = BaselineReplays.from_replays(allowed, items, source.today, unit, source.loss_scale) if allowed else None
    compared = None if replays is None else replays.take(holdout)
    kinds = _report(candidates, goal, validation, holdout, replace(source, items=items[holdout]), compared, rng)
    affordable = [name for name, replay in allowed.items() if is_within(limits, replay.take(validation))]
    simple = min(affordable, key=lambda name: goal.rank_replay(baselines[name].take(validation)), default=None)
    feasible = [one for one in (choose_candidate(candidates, goal, validation),) if one is not None]
    tried = [one.replay.take(validation) for one in feasible] + [
        baselines[name].take(validation) for name in affordable
    ]
    reached = not tried or any(goal.is_reached(replay) for replay in tried)
    every = tuple(
        sorted((_baseline(n, r.take(holdout), source) for n, r in baselines.items()), key=lambda one: one.cost)
    )
    nearest = None if simple is None else next(one for one in every if one.name == simple)
    recommended, sentence = write_summary(
        limits, unit, kinds, nearest, late, reached=reached, has_log=logged is not None
    )
    return {"recommended": recommended, "summary": sentence, "kinds": kinds, "alternatives": every}


def _report(
    candidates: list[Candidate],
    goal: AdviceGoal,
    validation: Int64s,
    holdout: Int64s,
    source: AdviceSource,
    alternatives: BaselineReplays | None,
    rng: np.random.Generator,
) -> tuple[KindAdvice, ...]:
    """Report each kind's best setting: the best kind first, infeasible kinds last."""
    by_kind: dict[str, list[Candidate]] = {}
    for one in candidates:
        by_kind.setdefault(one.kind, []).append(one)
    chosen = {kind: choose_candidate(own, goal, validation) for kind, own in by_kind.items()}
    feasible = sorted(
        (one for one in chosen.values() if one is not None),
        key=lambda one: goal.rank_replay(one.replay.take(validation)),
    )
    kinds = []
    for place, one in enumerate(feasible):
        first, other = (goal.make_comparable(each.replay.take(holdout)) for each in (feasible[0], one))
        verdict: AdviceVerdict = "best"
        if place:
            verdict = compare_replays(first, other, source.items, rng, compare_costs=goal.compares_costs)
        points = _points(by_kind[one.kind], holdout)
        kinds.append(_kind_advice(one, verdict, holdout, source, alternatives, points, rng))
    infeasible = [kind for kind, one in chosen.items() if one is None]
    return (*kinds, *(_infeasible(kind, _points(by_kind[kind], holdout)) for kind in infeasible))


def _kind_advice(
    one: Candidate,
    verdict: AdviceVerdict,
    holdout: Int64s,
    source: AdviceSource,
    alternatives: BaselineReplays | None,
    points: tuple[TradeOffPoint, ...],
    rng: np.random.Generator,
) -> KindAdvice:
    replay = one.replay.take(holdout)
    accuracy = float(mean_accuracy(replay.right))
    return KindAdvice(
        kind=one.kind,
        verdict=verdict,
        params=dict(one.params),
        query=dict(one.query),
        accuracy=accuracy,
        accuracy_interval=accuracy_interval(replay.right, source.items),
        loss=source.find_mean_loss(accuracy),
        cost=float(replay.costs.mean()),
        cost_interval=estimate_mean_interval(replay.costs, source.items, rng),
        savings=None if alternatives is None else measure_savings(format_query(one.query), replay, alternatives, rng),
        points=points,
    )


def _infeasible(kind: str, points: tuple[TradeOffPoint, ...]) -> KindAdvice:
    nothing: dict[str, None] = dict.fromkeys(("accuracy", "accuracy_interval", "cost", "cost_interval", "savings"))
    return KindAdvice(kind=kind, verdict="infeasible", params={}, query={}, points=points, **nothing)


def _points(candidates: list[Candidate], holdout: Int64s) -> tuple[TradeOffPoint, ...]:
    replays_here = [one.replay.take(holdout) for one in candidates]
    pairs = {(float(replay.costs.mean()), float(mean_accuracy(replay.right))) for replay in replays_here}
    return tuple(TradeOffPoint(accuracy=accuracy, cost=cost) for cost, accuracy in sorted(pairs))


def _baseline(name: str, replay: Replay, source: AdviceSource) -> SimpleBaseline:
    accuracy, cost = float(mean_accuracy(replay.right)), float(replay.costs.mean())
    return SimpleBaseline(name=name, accuracy=accuracy, cost=cost, loss=source.find_mean_loss(accuracy))
