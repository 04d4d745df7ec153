"""Advice on a dataset: cut the rows, build all, choose, report."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models import Dataset, DatasetFacts, FeatureTable, Trace
from models.advice import AdviceLimits, AdviceRows, AdviceVerdict, KindAdvice, TradeOffPoint
from models.arrays import Int32s, Int64s
from models.savings import SimpleBaseline
from solvers import KINDS
from solvers.advice.candidates import Candidate, evaluate_candidates
from solvers.advice.choice import AdviceGoal, choose_candidate, compare_replays, is_within
from solvers.advice.fixed_sets import replay_fixed_sets, replay_most_common
from solvers.advice.summary import format_query, write_summary
from solvers.base import BuildContext, make_generator, part_of, refuse_few_items
from solvers.item_splits import ItemRows, effective_rows, rarest_labels
from solvers.kind import AnyKind
from solvers.policy.sensors import item_sensor_costs
from solvers.savings import BaselineReplays, Replay, mean_interval, measure_savings
from solvers.statistics import wilson_interval
from solvers.trace_baselines import baselines_on, most_accurate

_OF_TWENTY = (10, 15)
"""Of twenty rows of a class so many are for building, and so many for building and choosing."""
MIN_ROWS = 100
"""Rows that advice needs: half to build from, a quarter to choose by, a quarter to report on."""


@dataclass(frozen=True, slots=True, eq=False)
class AdviceSplit:
    """The rows of a dataset by their use: (b,), (c,) and (r,) indices."""

    build: Int64s
    validation: Int64s
    holdout: Int64s

    @classmethod
    def from_labels(cls, labels: Int32s, items: Int64s, rng: np.random.Generator) -> "AdviceSplit":
        """Split items at random, each part with its share of every class; a class's first item is for building.

        labels, items: (n,) codes of each row's class and item.
        """
        grouped = ItemRows.from_codes(items)
        own = rarest_labels(grouped, labels)
        order = rng.permutation(len(own))
        by_class = order[np.argsort(own[order], kind="stable")]
        starts = np.searchsorted(own[by_class], own[by_class])
        place = (np.arange(len(own)) - starts) * 13 % 20  # 13: a class with few items has some in every part
        part = np.empty(len(own), dtype=np.int64)
        part[by_class] = np.digitize(place, _OF_TWENTY)
        return cls(*(np.flatnonzero(part[grouped.place] == number) for number in range(3)))

    @property
    def unseen(self) -> Int64s:
        """The rows that nothing learns from."""
        return np.concatenate((self.validation, self.holdout))


def advise(dataset: Dataset, limits: AdviceLimits, seed: int, seconds: float, run: BuildContext) -> dict[str, Any]:
    """Build every method that the dataset allows, and say which to take within the limits: fields of ``Advice``.

    seconds: for all of it, about; what does not end in its share is left out. Raises InvalidRequest for fewer than 100
    rows.
    """
    check(DatasetFacts.from_dataset(dataset))
    rng = make_generator(seed)
    parts = AdviceSplit.from_labels(dataset.labels, dataset.item_codes, rng)
    learned, fresh = dataset.take(parts.build), dataset.take(parts.unseen)
    alone = _alone(learned, fresh, seed, replace(run, progress=part_of(run.progress, 0, 10, 100)))
    rest = replace(run, progress=part_of(run.progress, 10, 99, 100))
    candidates, left_out = evaluate_candidates(_methods(dataset), learned, fresh, seed, seconds, rest)
    late = [one.kind for one in left_out if one.timed_out]
    items = fresh.item_codes
    today = most_accurate(learned, np.arange(learned.rows)) if isinstance(learned, Trace) else None
    advised = _advised(limits, parts, items, today, dataset.spec.unit, candidates, alone, late, rng)
    run.progress(100, 100, "done")
    rows = AdviceRows(training=len(parts.build), validation=len(parts.validation), holdout=len(parts.holdout))
    asked = {name: getattr(limits, name) for name in AdviceLimits.model_fields}
    return {**asked, **advised, "unit": dataset.spec.unit, "rows": rows, "excluded": tuple(left_out)}


def check(facts: DatasetFacts) -> None:
    """Refuse a dataset with too few rows, or items where these repeat."""
    refuse_few_items(facts, MIN_ROWS, "advice")


def _methods(dataset: Dataset) -> list[AnyKind]:
    """List the kinds that take such a dataset, the quick ones first: the time that they leave is for the others."""
    able = [one for one in KINDS.values() if isinstance(dataset, one.datasets)]
    return sorted(able, key=lambda one: one.build_order)


def _alone(learned: Dataset, fresh: Dataset, seed: int, run: BuildContext) -> dict[str, Replay]:
    """Try the simple alternatives on rows that nothing learned from."""
    if isinstance(fresh, Trace):
        assert isinstance(learned, Trace)
        free = replay_most_common(learned, fresh) if fresh.classes else {}
        return baselines_on(learned, fresh) | free
    assert isinstance(learned, FeatureTable)

    def report(done: int, of: int) -> None:
        run.progress(done, of, f"simple alternatives: {done} of {of} sets of features")

    return replay_fixed_sets(learned, fresh, item_sensor_costs(fresh), seed, report)


def _advised(
    limits: AdviceLimits,
    parts: AdviceSplit,
    items: Int64s,
    today: str | None,
    unit: str,
    candidates: list[Candidate],
    alone: dict[str, Replay],
    late: list[str],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Choose by the rows that choose, and say what the others say to it."""
    validation = np.arange(len(parts.validation))
    holdout = len(validation) + np.arange(len(parts.holdout))
    by_choosing = [replay.take(validation) for replay in (*alone.values(), *(one.replay for one in candidates))]
    aim = AdviceGoal.from_limits(limits, by_choosing, effective_rows(items[validation]))
    in_time = AdviceLimits(deadline=limits.deadline)
    allowed = {name: replay for name, replay in alone.items() if is_within(in_time, replay.take(validation))}
    alternatives = BaselineReplays.from_replays(allowed, items, today, unit).take(holdout) if allowed else None
    methods = _reported(candidates, aim, validation, holdout, items[holdout], alternatives, rng)
    affordable = [name for name, replay in allowed.items() if is_within(limits, replay.take(validation))]
    simple = min(affordable, key=lambda name: aim.rank_replay(alone[name].take(validation)), default=None)
    able = [one for one in (choose_candidate(candidates, aim, validation),) if one is not None]
    tried = [one.replay.take(validation) for one in able] + [alone[name].take(validation) for name in affordable]
    reached = not tried or any(aim.is_reached(replay) for replay in tried)
    every = tuple(sorted((_alternative(n, r.take(holdout)) for n, r in alone.items()), key=lambda one: one.cost))
    nearest = None if simple is None else next(one for one in every if one.name == simple)
    take, sentence = write_summary(limits, unit, methods, nearest, late, reached=reached)
    return {"recommended": take, "summary": sentence, "kinds": methods, "alternatives": every}


def _reported(
    candidates: list[Candidate],
    aim: AdviceGoal,
    validation: Int64s,
    holdout: Int64s,
    items: Int64s,
    alternatives: BaselineReplays | None,
    rng: np.random.Generator,
) -> tuple[KindAdvice, ...]:
    """Report on each method's best setting, the best method first, then those of which nothing is within the limits."""
    by_method: dict[str, list[Candidate]] = {}
    for one in candidates:
        by_method.setdefault(one.kind, []).append(one)
    chosen = {method: choose_candidate(own, aim, validation) for method, own in by_method.items()}
    able = sorted(
        (one for one in chosen.values() if one is not None),
        key=lambda one: aim.rank_replay(one.replay.take(validation)),
    )
    methods = []
    for place, one in enumerate(able):
        first, other = able[0].replay.take(holdout), one.replay.take(holdout)
        own = compare_replays(first, other, items, rng, frugal=aim.wanted is not None) if place else "best"
        points = _points(by_method[one.kind], holdout)
        methods.append(_method(one, own, holdout, items, alternatives, points, rng))
    unable = [method for method, one in chosen.items() if one is None]
    return (*methods, *(_beyond(method, _points(by_method[method], holdout)) for method in unable))


def _method(
    one: Candidate,
    verdict: AdviceVerdict,
    holdout: Int64s,
    items: Int64s,
    alternatives: BaselineReplays | None,
    points: tuple[TradeOffPoint, ...],
    rng: np.random.Generator,
) -> KindAdvice:
    replay = one.replay.take(holdout)
    accuracy = float(replay.right.mean())
    return KindAdvice(
        kind=one.kind,
        verdict=verdict,
        params=dict(one.params),
        query=dict(one.query),
        accuracy=accuracy,
        accuracy_interval=wilson_interval(accuracy, float(effective_rows(items))),
        cost=float(replay.costs.mean()),
        cost_interval=mean_interval(replay.costs, items, rng),
        savings=None if alternatives is None else measure_savings(format_query(one.query), replay, alternatives, rng),
        points=points,
    )


def _beyond(method: str, points: tuple[TradeOffPoint, ...]) -> KindAdvice:
    """Tell of a method of which nothing is within the limits."""
    nothing: dict[str, None] = dict.fromkeys(("accuracy", "accuracy_interval", "cost", "cost_interval", "savings"))
    return KindAdvice(kind=method, verdict="infeasible", params={}, query={}, points=points, **nothing)


def _points(candidates: list[Candidate], holdout: Int64s) -> tuple[TradeOffPoint, ...]:
    replays_here = [one.replay.take(holdout) for one in candidates]
    pairs = {(float(replay.costs.mean()), float(replay.right.mean())) for replay in replays_here}
    return tuple(TradeOffPoint(accuracy=accuracy, cost=cost) for cost, accuracy in sorted(pairs))


def _alternative(name: str, replay: Replay) -> SimpleBaseline:
    return SimpleBaseline(name=name, accuracy=float(replay.right.mean()), cost=float(replay.costs.mean()))
