"""Replay of a cascade plan on unseen rows, for each deadline and each point of the frontier."""

import numpy as np

from models import Trace
from models.arrays import Int64s
from solvers.base import round_up
from solvers.cascade.classifier_measurements import share_setup
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.plan import CascadePlan
from solvers.cascade.replay import ReplayRows as DeadlineRows
from solvers.cascade.replay import simulate_rows
from solvers.savings import Replay, SettingReplay


def replay_settings(plan: CascadePlan, dataset: Trace) -> list[SettingReplay]:
    """Replay rows at every point of the frontier, and for each deadline.

    Complexity: O(N) per call.
    """
    rows, dataset = np.arange(dataset.rows), dataset.with_reject()
    return [*replay_frontier(plan, dataset, rows), *_replay_deadlines(plan, dataset, rows)]


def replay_frontier(plan: CascadePlan, dataset: Trace, rows: Int64s) -> list[SettingReplay]:
    """Replay rows at every point that a query can select.

    These are the hull of all points and, for each maximum duration, the hull of the points within it.
    """
    places = _column_places(dataset, plan.point_names)
    where = np.ix_(rows, places)
    known = CalibratedRows(
        dataset.confidences[where],
        1 - dataset.quality[where],
        dataset.costs[where],
        plan.point_worst_times,
        np.ones(len(places), dtype=bool),
        dataset.item_codes[rows],
        _find_label_codes(dataset.classes, plan.point_labels)[dataset.predictions[where]],
        share_setup(dataset, rows, places, 1.0),
    )
    walked = []
    for query, point in plan.list_reachable_points():
        calls = plan.call_slice(point)
        cost, wrong, _ = known.replay_rows(
            ThresholdCascade(
                tuple(plan.point_members[calls].tolist()),
                tuple(plan.point_thresholds[calls].tolist()[:-1]),
                tuple(map(tuple, plan.label_thresholds[calls].tolist()[:-1])) if plan.point_labels else (),
            )
        )
        walked.append(SettingReplay({name: round_up(limit) for name, limit in query.items()}, Replay(1 - wrong, cost)))
    return walked


def _replay_deadlines(plan: CascadePlan, dataset: Trace, rows: Int64s) -> list[SettingReplay]:
    known = DeadlineRows.from_trace(dataset, rows, _column_places(dataset, plan.names).tolist(), plan.thresholds)
    points = []
    for step, deadline in enumerate(plan.maximum_durations.tolist()):
        costs, right, _ = simulate_rows(known, plan.members[plan.offsets[step] : plan.offsets[step + 1]].tolist())
        points.append(SettingReplay({"deadline": deadline}, Replay(right.astype(np.float64), costs)))
    return points


def _find_label_codes(classes: tuple[str, ...], labels: tuple[str, ...]) -> Int64s:
    """Return the index in ``labels`` of each class, (c + 1,); -1 for other classes and for no answer."""
    codes = {name: code for code, name in enumerate(labels)}
    return np.array([*(codes.get(name, -1) for name in classes), -1], dtype=np.int64)


def _column_places(dataset: Trace, names: tuple[str, ...]) -> Int64s:
    every = [classifier.name for classifier in dataset.spec.classifiers]
    return np.array([every.index(name) for name in names], dtype=np.int64)
