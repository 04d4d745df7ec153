"""What a policy build keeps, and how it answers: classifiers, decisions, and the trade-off curve."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest, Trace
from models.arrays import Bools, Floats, Int16s, Int64s
from models.policy import AcquireDecision, AnswerDecision, ClassifyDecision, PolicyQuery, PolicyTarget
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
    """What became of n items. labels: (n,) codes of classes, or, without classes, the sensors that answer; judged: (n,
    C) how likely the classes are, or (n, M) how good sensors' answers are expected to be; costs: (n,) at average
    prices; walks: the nodes they passed."""

    labels: Int64s
    judged: Floats
    costs: Floats
    walks: Walks


@dataclass(frozen=True, eq=False)
class PolicyPlan(PolicyPoints):
    """A decision for every node of the DAG, under each of the trade-offs of the curve."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self)

    @cached_property
    def _sensors(self) -> Sensors:
        layout = (self.owners, self.labelled, self.classes, self.encoding(), self.embedding(), self.classless)
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
        """The numbers of an item's embedding; 0 where items have none."""
        return len(self.embedding_centre)

    def check(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other."""
        check_invariants(self)

    def decide(self, query: PolicyQuery) -> AcquireDecision | ClassifyDecision | AnswerDecision:
        """Say what to do next with an item of which some sensors are known; nothing is remembered between calls.

        What is known tells only as far as it fills a node: the largest node known in full decides, so that a fetch of
        several sensors that was begun is finished. Raises InvalidRequest for sensors that are not known here, and for
        what they cannot have told, or for an embedding that is missing or of another length; Infeasible, with the
        numbers, where something has to answer and nothing is within the budget.
        """
        cells, known = self._readings.read_query(query)
        draw = ItemDraw.from_item(query.item, self.class_base.shape[1])
        point = self._draw_point(self.mixture(query), draw, query)
        rows, inputs = cells[None], tree_inputs(self._sensors, cells[None])

        node = self._graph.find_largest_known(known)
        barred = self._barred_actions(node, point, query, known)
        target, loss = self._choose_target(node, draw.member, point, rows, inputs, barred)
        if target < 0:
            return self._stop_decision(node, known, inputs, point)
        return self._acquire_decision(node, known, target, loss, point)

    def stop(self, query: PolicyQuery) -> ClassifyDecision | AnswerDecision:
        """Stop here, whatever ``decide`` would go on with: the answer of the largest node that is known in full.

        Raises InvalidRequest where it would be that of a sensor and none is known.
        """
        cells, known = self._readings.read_query(query)
        inputs = tree_inputs(self._sensors, cells[None])
        if self.classless and not known.any():
            raise InvalidRequest.at(Fault(("acquired",), "is empty: there is no answer to take"))
        point = self._draw_point(self.mixture(query), ItemDraw.from_item(query.item, self.class_base.shape[1]), query)
        return self._stop_decision(self._graph.find_largest_known(known), known, inputs, point)

    def check_readings(self, acquired: Mapping[str, Any]) -> None:
        """Raise InvalidRequest for what sensors cannot have told."""
        self._readings.read_sensors(acquired)

    def is_labelled(self, sensor: str) -> bool:
        """Tell whether a sensor is a classifier, which answers a label; raises ValueError for what is no sensor."""
        return bool(self.labelled[self.owners == self.sensors.index(sensor)].any())

    def has_columns(self, sensor: str) -> bool:
        """Tell whether a sensor tells anything beside an answer without a class."""
        return bool(np.any(self.owners == self.sensors.index(sensor)))

    def is_final_call(self, sensors: Sequence[str]) -> bool:
        """Tell whether an item of which just these were acquired is answered by one of them, whatever that tells."""
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
        """Choose at a node, of actions not barred, (A,): the node to go to and the loss to expect, or -1 to stop."""
        if self._stops_at_once(point) or not len(self._graph.list_actions(node)):
            return -1, 0.0
        actions, advantages, sure = self._choose_actions(node, member, point, rows, inputs, barred)
        action = int(actions[0])
        if not action:
            return -1, 0.0
        target = int(self._graph.list_actions(node)[action - 1])
        return target, max(0.0, 1.0 - sure[0] + float(advantages[0, action - 1]))

    def _choose_actions(
        self, node: int, member: int, point: int, rows: Floats, inputs: Floats, barred: Bools | None
    ) -> tuple[Int16s, Floats, Floats]:
        """Choose for rows, (n,), as one member does, and for a hard budget, whose cost is sure whoever decides, as all
        do on average: actions, advantages (n, A), and how sure the answer would be, (n,)."""
        every = range(self.class_base.shape[1]) if point >= len(self.tradeoffs) else (member,)
        advantages, sure, actions = [], [], np.zeros(len(rows), dtype=np.int16)
        for k in every:
            judged = self._classifiers.posteriors(node, k, inputs)
            features = node_features(self._sensors, self.members[node], judged, rows)
            ahead = self._known_advantages(node, judged)
            actions, advantage = self._decisions.choose_actions(node, k, point, features, barred, ahead)
            advantages.append(advantage)
            sure.append(self._choose_answer(judged, self.members[node])[1])
        mean = np.mean(advantages, axis=0)
        if len(advantages) > 1:
            allowed = mean if barred is None else np.where(barred, np.inf, mean)
            actions = choose_least(allowed, can_stop=self._decisions.can_stop(node))
        return actions, mean, np.mean(sure, axis=0)

    def _known_advantages(self, node: int, judged: Floats) -> Floats | float:
        """Tell what is known of advantages, (n, A), without what was learned."""
        if not self.classless:
            return 0.0
        return known_advantages(judged, self.members[node], self.members[self._graph.list_actions(node)])

    def _choose_answer(self, judged: Floats, bought: Bools) -> tuple[Int64s, Floats]:
        """Choose the likeliest class, or of sensors that were bought, (M,), the one whose answer should be best: (n,)
        of these, and how sure that is; nothing bought answers nothing."""
        if not self.classless:
            return judged.argmax(axis=1), judged.max(axis=1)
        best = choose_best_acquired(judged, bought)
        return best, judged[np.arange(len(best)), best] * bool(bought.any())

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

    def _stop_decision(self, node: int, known: Bools, inputs: Floats, point: int) -> ClassifyDecision | AnswerDecision:
        judged = self._classifiers.mean_posteriors(node, inputs)
        best, sure = (each[0] for each in self._choose_answer(judged, known))
        loss, tradeoff = max(0.0, 1.0 - float(sure)), self._tradeoff(point)
        scores, ignored = judged[0].tolist(), self._list_ignored(node, known)
        if self.classless:
            qualities = {self.sensors[m]: scores[m] for m in np.flatnonzero(known).tolist()}
            return AnswerDecision(
                answer=self.sensors[best],
                quality=float(sure),
                qualities=qualities,
                expected_loss=loss,
                tradeoff=tradeoff,
                ignored=ignored,
            )
        return ClassifyDecision(
            label=self.classes[best],
            probabilities=dict(zip(self.classes, scores, strict=False)),
            expected_loss=loss,
            tradeoff=tradeoff,
            ignored=ignored,
        )

    def _list_ignored(self, node: int, known: Bools) -> tuple[str, ...]:
        return tuple(self.sensors[place] for place in np.flatnonzero(known & ~self.members[node]).tolist())

    def run(self, cells: Floats, items: Sequence[str], target: PolicyTarget) -> PolicyRun:
        """Walk complete items, cells (n, D) as ``cells_of`` gives them, as ``decide`` would, but node by node."""
        drawn = [ItemDraw.from_item(item, self.class_base.shape[1]) for item in items]
        mixture = self.mixture(target)
        alike = mixture.first >= len(self.tradeoffs)  # all members decide together, whatever was drawn
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
        return PolicyRun(labels, judged, walks.costs(self._graph, self.costs), walks)

    def rollouts(self, items: Sequence[RolloutItem], target: PolicyTarget) -> Rollouts:
        """Run complete items through the policy: label, cost and path of each.

        Raises InvalidRequest for an item that lacks a sensor or holds what the sensor cannot have told.
        """
        cells = self.cells_of_items(items)
        names = [str(at) if item.item is None else item.item for at, item in enumerate(items)]
        ran = self.run(cells, names, target)
        return Rollouts(items=tuple(self._to_rollouts(names, ran)), mean_cost=float(ran.costs.mean()))

    def cells_of_items(self, items: Sequence[RolloutItem]) -> Floats:
        """Take complete items as callers send them: cells (n, D) for ``run``; raises what ``rollouts`` raises."""
        return np.stack([self._readings.read_item(at, item) for at, item in enumerate(items)])

    def columns_of(self, sensor: str) -> tuple[str, ...]:
        """Return the columns of a feature, as the table had them."""
        owned = np.flatnonzero(self._sensors.value_owners == self.sensors.index(sensor)).tolist()
        return tuple(self.columns[column] for column in owned)

    def column_counts(self) -> dict[str, int]:
        """Return the number of values that callers send of each sensor."""
        counts = np.bincount(self._sensors.value_owners, minlength=len(self.sensors))
        return dict(zip(self.sensors, counts.tolist(), strict=True))

    def _to_rollouts(self, names: Sequence[str], ran: PolicyRun) -> Iterable[Rollout]:
        for at, name in enumerate(names):
            yield Rollout(
                item=name,
                label=None if self.classless else self.classes[int(ran.labels[at])],
                answer=self.sensors[int(ran.labels[at])] if self.classless else None,
                cost=float(ran.costs[at]),
                path=self.path(ran.walks.nodes[at]),
                time=self._limits.time_of(self.members[ran.walks.ends[at]]),
            )

    def path(self, nodes: Int64s) -> tuple[str, ...]:
        """List the sensors acquired along the nodes that one item passed, in order."""
        acquired: list[str] = []
        passed = nodes[nodes >= 0]
        for before, after in pairwise(passed):
            acquired += [self.sensors[m] for m in np.flatnonzero(self.members[after] & ~self.members[before]).tolist()]
        return tuple(acquired)

    def cells_of(self, dataset: FeatureTable | Trace) -> Floats:
        """Take complete items from a dataset with the same sensors: cells (n, D) for ``run``."""
        return self._sensors.cells(dataset)
