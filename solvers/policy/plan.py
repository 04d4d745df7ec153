"""Policy plan: decisions for items, rollouts, and the trade-off curve."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest, Trace
from models.arrays import Bools, Floats, Int16s, Int64s
from models.policy import (
    AcquireDecision,
    AnswerDecision,
    ClassifyDecision,
    PolicyDecision,
    PolicyQuery,
    PolicyTarget,
    RejectDecision,
    StopDecision,
)
from models.policy_curves import Rollout, RolloutItem, Rollouts
from solvers.base import prepare_plan
from solvers.policy.classless import choose_best_acquired, known_advantages
from solvers.policy.item_draw import ItemDraw
from solvers.policy.node_classifiers import NodeClassifiers, tree_inputs
from solvers.policy.node_features import node_features
from solvers.policy.node_policies import NodeDecisions
from solvers.policy.plan_invariants import check_invariants
from solvers.policy.points import PolicyPoints
from solvers.policy.readings import SensorReadings
from solvers.policy.regression import choose_least
from solvers.policy.rollout import Walks, walk_items
from solvers.policy.sensors import Sensors


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRun:
    """Result of a rollout of n items.

    Attributes:
        labels: (n,), class codes, C for rejected items; without classes, the sensors that answer.
        scores: (n, C) class probabilities, or (n, M) expected quality of answers.
        costs: (n,), at mean prices.
        walks: the nodes each item passed.
    """

    labels: Int64s
    scores: Floats
    costs: Floats
    walks: Walks


@dataclass(frozen=True, eq=False)
class PolicyPlan(PolicyPoints):
    """Policy of every node of the DAG under each trade-off of the curve."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self)

    @cached_property
    def _sensors(self) -> Sensors:
        layout = (
            self.owners,
            self.labelled,
            self.classes,
            self.stored_encoding(),
            self.embedding_projection(),
            self.classless,
        )
        return Sensors(self.sensors, *layout)

    @cached_property
    def _readings(self) -> SensorReadings:
        return SensorReadings.from_ranges(self._sensors, self.ranges)

    @cached_property
    def _classifiers(self) -> NodeClassifiers:
        return NodeClassifiers(
            self.class_base,
            self.class_columns,
            self.class_thresholds,
            self.class_leaves.astype(np.float32),
            self.classless,
        )

    @cached_property
    def _decisions(self) -> NodeDecisions:
        prices = [self._graph.step_costs(node, self.costs) for node in range(len(self._graph))]
        return NodeDecisions(
            self.offsets,
            np.concatenate(prices),
            np.maximum(np.concatenate([self.tradeoffs, self.cap_tradeoffs, self.deadline_tradeoffs]), 0.0),
            self.base,
            self.edge_columns,
            self.edge_thresholds,
            self.edge_leaves,
            self.classless,
        )

    @property
    def dimensions(self) -> int:
        """Dimensions of an item's embedding; 0 if items have none."""
        return len(self.embedding_centre)

    def check(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other."""
        check_invariants(self)

    def decide(self, query: PolicyQuery) -> PolicyDecision:
        """Decide the next acquisition, or stop. The plan keeps no state between calls.

        The largest node whose sensors are all known decides, so that a started fetch of several sensors is completed.

        Raises:
            InvalidRequest: unknown sensors, invalid readings, or an embedding that is missing or of another length.
            Infeasible: an answer is required and none is within the limits.
        """
        cells, known = self._readings.read_query(query)
        draw = ItemDraw.from_item(query.item, self.class_base.shape[1])
        point = self._draw_point(self.select_mixture(query), draw, query)
        rows, inputs = cells[None], tree_inputs(self._sensors, cells[None])

        node = self._graph.find_largest_known(known)
        barred = self._barred_actions(node, point, query, known)
        target, loss = self._choose_target(node, draw.member, point, rows, inputs, barred)
        if target < 0:
            return self._stop_decision(node, known, inputs, point)
        return self._acquire_decision(node, known, target, loss, point)

    def stop(self, query: PolicyQuery) -> StopDecision:
        """Return the answer of the largest known node, without further acquisitions.

        Raises:
            InvalidRequest: a sensor must give the answer, and no sensor is known.
        """
        cells, known = self._readings.read_query(query)
        inputs = tree_inputs(self._sensors, cells[None])
        if self.classless and not known.any():
            raise InvalidRequest.from_faults(Fault(("acquired",), "must not be empty: an answer is required"))
        point = self._draw_point(
            self.select_mixture(query), ItemDraw.from_item(query.item, self.class_base.shape[1]), query
        )
        return self._stop_decision(self._graph.find_largest_known(known), known, inputs, point)

    def check_readings(self, acquired: Mapping[str, Any]) -> None:
        """Raise InvalidRequest for invalid readings of sensors."""
        self._readings.read_sensors(acquired)

    def is_labelled(self, sensor: str) -> bool:
        """Return whether a sensor is a classifier that returns a label; raise ValueError if it is not a sensor."""
        return bool(self.labelled[self.owners == self.sensors.index(sensor)].any())

    def has_columns(self, sensor: str) -> bool:
        """Return whether a sensor yields any column: value, label, or confidence.

        A classifier without classes and without confidence has none.
        """
        return bool(np.any(self.owners == self.sensors.index(sensor)))

    def is_final_call(self, sensors: Sequence[str]) -> bool:
        """Return whether the run ends after these sensors are acquired, and one of them answers, independently of their
        readings."""
        known = np.isin(self.sensors, sensors)
        return (
            self.classless
            and len(sensors) == 1
            and not len(self._graph.list_actions(self._graph.find_largest_known(known)))
        )

    def _stops_at_once(self, point: int) -> bool:
        return not self.classless and point < len(self.tradeoffs) and bool(self.tradeoffs[point] < 0)

    def _choose_target(
        self, node: int, member: int, point: int, rows: Floats, inputs: Floats, barred: Bools | None
    ) -> tuple[int, float]:
        """Return the next node and the expected loss, or -1 to stop; barred: (A,)."""
        if self._stops_at_once(point) or not len(self._graph.list_actions(node)):
            return -1, 0.0
        actions, advantages, stopping = self._choose_actions(node, member, point, rows, inputs, barred)
        action = int(actions[0])
        if not action:
            return -1, 0.0
        target = int(self._graph.list_actions(node)[action - 1])
        return target, self.loss_scale * max(0.0, float(stopping[0] + advantages[0, action - 1]))

    def _choose_actions(
        self, node: int, member: int, point: int, rows: Floats, inputs: Floats, barred: Bools | None
    ) -> tuple[Int16s, Floats, Floats]:
        """Choose actions for rows, (n,), with advantages, (n, A), and the expected loss of stopping, (n,).

        One member decides; for hard limits the mean of all members does, because the cost bound holds for any of them.
        """
        every = range(self.class_base.shape[1]) if point >= len(self.tradeoffs) else (member,)
        advantages, stopping, actions = [], [], np.zeros(len(rows), dtype=np.int16)
        for k in every:
            judged = self._classifiers.predict_posteriors(node, k, inputs)
            features = node_features(self._sensors, self.members[node], judged, rows)
            ahead = self._known_advantages(node, judged)
            actions, advantage = self._decisions.choose_actions(node, k, point, features, barred, ahead)
            advantages.append(advantage)
            stopping.append(self._choose_answer(judged, self.members[node])[1])
        mean = np.mean(advantages, axis=0)
        if len(advantages) > 1:
            allowed = mean if barred is None else np.where(barred, np.inf, mean)
            actions = choose_least(allowed, can_stop=self._decisions.can_stop(node))
        return actions, mean, np.mean(stopping, axis=0)

    def _known_advantages(self, node: int, judged: Floats) -> Floats | float:
        if not self.classless:
            return 0.0
        return known_advantages(judged, self.members[node], self.members[self._graph.list_actions(node)])

    def _choose_answer(self, judged: Floats, bought: Bools) -> tuple[Int64s, Floats]:
        """Return the answer of least expected loss, or the best acquired sensor, and that loss, (n,) each."""
        if not self.classless:
            return self.losses.choose(judged)
        best = choose_best_acquired(judged, bought)
        return best, 1.0 - judged[np.arange(len(best)), best] * bool(bought.any())

    def _acquire_decision(self, node: int, known: Bools, target: int, loss: float, point: int) -> AcquireDecision:
        missing = self.members[target] & ~known
        first, *others = np.flatnonzero(missing).tolist()
        fetched = missing & (self._limits.fetches == self._limits.fetches[first])
        return AcquireDecision(
            sensor=self.sensors[first],
            cost=float(self.costs[first]),
            expected_loss=loss,
            then=tuple(self.sensors[place] for place in others),
            together=tuple(self.sensors[place] for place in others if fetched[place]),
            time=self._limits.time_of(fetched),
            tradeoff=self._tradeoff(point),
            ignored=self._list_ignored(node, known),
        )

    def _stop_decision(self, node: int, known: Bools, inputs: Floats, point: int) -> StopDecision:
        judged = self._classifiers.mean_posteriors(node, inputs)
        best, share = (each[0] for each in self._choose_answer(judged, known))
        loss, tradeoff = self.loss_scale * max(0.0, float(share)), self._tradeoff(point)
        scores, ignored = judged[0].tolist(), self._list_ignored(node, known)
        if self.classless:
            qualities = {self.sensors[m]: scores[m] for m in np.flatnonzero(known).tolist()}
            return AnswerDecision(
                answer=self.sensors[best],
                quality=1.0 - float(share),
                qualities=qualities,
                expected_loss=loss,
                tradeoff=tradeoff,
                ignored=ignored,
            )
        probabilities = dict(zip(self.classes, scores, strict=False))
        if best == judged.shape[1]:
            return RejectDecision(probabilities=probabilities, expected_loss=loss, tradeoff=tradeoff, ignored=ignored)
        return ClassifyDecision(
            label=self.classes[best],
            probabilities=probabilities,
            expected_loss=loss,
            tradeoff=tradeoff,
            ignored=ignored,
        )

    def _list_ignored(self, node: int, known: Bools) -> tuple[str, ...]:
        return tuple(self.sensors[place] for place in np.flatnonzero(known & ~self.members[node]).tolist())

    def run(self, cells: Floats, items: Sequence[str], target: PolicyTarget) -> PolicyRun:
        """Roll out complete items, (n, D) from ``cells_of``, by the decisions of ``decide``, node by node."""
        drawn = [ItemDraw.from_item(item, self.class_base.shape[1]) for item in items]
        mixture = self.select_mixture(target)
        alike = mixture.first >= len(self.tradeoffs)  # all members decide together
        member = np.array([0 if alike else draw.member for draw in drawn], dtype=np.int64)
        point = np.array([self._draw_point(mixture, draw, target) for draw in drawn], dtype=np.int64)
        inputs = tree_inputs(self._sensors, cells)

        def choose(node: int, rows: Int64s) -> Int16s:
            actions = np.zeros(len(rows), dtype=np.int16)
            for k, h in set(zip(member[rows].tolist(), point[rows].tolist(), strict=True)):
                if not self._stops_at_once(h):
                    some = np.flatnonzero((member[rows] == k) & (point[rows] == h))
                    barred, taken = self._barred_actions(node, h, target), rows[some]
                    actions[some], *_ = self._choose_actions(node, k, h, cells[taken], inputs[taken], barred)
            return actions

        walks = walk_items(self._graph, len(cells), choose)
        judged = np.zeros((len(cells), self.class_base.shape[2]))
        labels = np.zeros(len(cells), dtype=np.int64)
        for node in np.unique(walks.ends).tolist():
            rows = np.flatnonzero(walks.ends == node)
            judged[rows] = self._classifiers.mean_posteriors(node, inputs[rows])
            labels[rows], _ = self._choose_answer(judged[rows], self.members[node])
        return PolicyRun(labels, judged, walks.total_costs(self._graph, self.costs), walks)

    def roll_out(self, items: Sequence[RolloutItem], target: PolicyTarget) -> Rollouts:
        """Roll out complete items: label, cost, and path of each.

        Raises:
            InvalidRequest: an item lacks a sensor or has invalid readings.
        """
        cells = self.cells_of_items(items)
        names = [str(at) if item.item is None else item.item for at, item in enumerate(items)]
        ran = self.run(cells, names, target)
        return Rollouts(items=tuple(self._to_rollouts(names, ran)), mean_cost=float(ran.costs.mean()))

    def cells_of_items(self, items: Sequence[RolloutItem]) -> Floats:
        """Return readings of complete items, (n, D), for ``run``; raises what ``roll_out`` raises."""
        return np.stack([self._readings.read_item(at, item) for at, item in enumerate(items)])

    def columns_of(self, sensor: str) -> tuple[str, ...]:
        """Return the dataset columns of a feature."""
        owned = np.flatnonzero(self._sensors.value_owners == self.sensors.index(sensor)).tolist()
        return tuple(self.columns[column] for column in owned)

    def column_counts(self) -> dict[str, int]:
        """Return the number of values of each sensor in requests."""
        counts = np.bincount(self._sensors.value_owners, minlength=len(self.sensors))
        return dict(zip(self.sensors, counts.tolist(), strict=True))

    def _to_rollouts(self, names: Sequence[str], ran: PolicyRun) -> Iterable[Rollout]:
        for at, name in enumerate(names):
            yield Rollout(
                item=name,
                label=self._label_of(int(ran.labels[at])),
                answer=self.sensors[int(ran.labels[at])] if self.classless else None,
                cost=float(ran.costs[at]),
                path=self.acquired_sensors(ran.walks.nodes[at]),
                time=self._limits.time_of(self.members[ran.walks.ends[at]]),
            )

    def _label_of(self, code: int) -> str | None:
        """Return a class name; None for rejected items and without classes."""
        return None if self.classless or code == self.class_base.shape[2] else self.classes[code]

    def acquired_sensors(self, nodes: Int64s) -> tuple[str, ...]:
        """Return the sensors acquired along an item's nodes, in order."""
        acquired: list[str] = []
        passed = nodes[nodes >= 0]
        for before, after in pairwise(passed):
            acquired += [self.sensors[m] for m in np.flatnonzero(self.members[after] & ~self.members[before]).tolist()]
        return tuple(acquired)

    def cells_of(self, dataset: FeatureTable | Trace) -> Floats:
        """Return readings of a dataset with the same sensors, (n, D), for ``run``."""
        return self._sensors.read_cells(dataset)
