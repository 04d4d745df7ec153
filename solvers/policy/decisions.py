"""Decisions of a policy on items: the next acquisition, or the answer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf
from operator import add
from typing import Any

import numpy as np

from models import Fault, InvalidRequest
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
from solvers.policy.classless import append_reject, choose_best_acquired, known_advantages
from solvers.policy.item_draw import ItemDraw
from solvers.policy.node_classifiers import NodeClassifiers, make_tree_inputs
from solvers.policy.node_features import compute_node_features
from solvers.policy.node_policies import NodeDecisions
from solvers.policy.points import LIMITS_CACHE_SIZE, PolicyPoints, list_limits, make_target
from solvers.policy.readings import SensorReadings
from solvers.policy.regression import choose_least
from solvers.policy.sensors import Sensors
from solvers.policy.single_row_models import SingleRowModels, compute_row_features

SET_CACHE_SIZE = 4096
"""Sets of known sensors for which nodes and acquisitions are kept."""


@dataclass(frozen=True, eq=False)
class PolicyDecisions(PolicyPoints):
    """Decisions at every node of the DAG under each trade-off of the curve."""

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
        prices = [self._graph.step_costs(node, self.extended_costs) for node in range(len(self._graph))]
        return NodeDecisions(
            self.offsets,
            np.concatenate(prices),
            np.maximum(np.concatenate([self.tradeoffs, self.cap_tradeoffs, self.deadline_tradeoffs]), 0.0),
            self.base,
            self.edge_columns,
            self.edge_thresholds,
            self.edge_leaves,
            self.has_to_acquire,
        )

    @cached_property
    def _one_item(self) -> SingleRowModels:
        return SingleRowModels(self._classifiers, self._decisions)

    @cached_property
    def _feature_columns(self) -> list[list[tuple[int, bool]]]:
        """For each node, the columns of its sensors, and whether each column is a label."""
        columns = [self._sensors.known_columns(members).tolist() for members in self.members]
        labelled = self.labelled.tolist()
        return [[(column, labelled[column]) for column in own] for own in columns]

    @property
    def dimensions(self) -> int:
        """Dimensions of an item's embedding; 0 if items have none."""
        return len(self.embedding_centre)

    def decide(self, query: PolicyQuery) -> PolicyDecision:
        """Decide the next acquisition, or stop. The plan keeps no state between calls.

        The largest node whose sensors are all known decides. So a started fetch of several sensors is completed.

        Raises:
            InvalidRequest: unknown sensors, invalid readings, or an embedding that is missing or of another length.
            Infeasible: an answer is required and none is within the limits.
        """
        cells, known = self._readings.read_query(query)
        draw = ItemDraw.from_item(query.item, self.class_base.shape[1])
        point = self._draw_point(self.select_mixture(query), draw, query)
        if query.acquired or self.dimensions:
            return self._decide_for(cells, known, draw.member, point, query)
        return self._first_decisions(draw.member, point, *list_limits(query))

    @cached_property
    def _first_decisions(self) -> Callable[..., PolicyDecision]:
        """Cache of decisions on items without readings, by member, point, and limits."""

        def decide(member: int, point: int, *limits: Any) -> PolicyDecision:
            cells, known = self._sensors.read_answers({})
            return self._decide_for(cells, known, member, point, make_target(limits))

        return lru_cache(LIMITS_CACHE_SIZE)(decide)

    def _decide_for(self, cells: Floats, known: Bools, member: int, point: int, target: PolicyTarget) -> PolicyDecision:
        rows, inputs, known_key = cells[None], make_tree_inputs(self._sensors, cells[None]), known.tobytes()
        node = self._node_of(known_key)
        forbidden = self._barred_actions(node, point, target, known)
        chosen, loss = self._choose_target(node, member, point, rows, inputs, forbidden)
        if chosen < 0:
            return self._stop_decision(node, known, inputs, point)
        facts = self._describe_acquisition(node, known_key, chosen, point)
        return AcquireDecision(expected_loss=loss, **facts)

    @cached_property
    def _node_of(self) -> Callable[[bytes], int]:
        """Return the largest node whose sensors are all known."""
        return lru_cache(SET_CACHE_SIZE)(
            lambda known: self._graph.find_largest_known(np.frombuffer(known, dtype=np.bool_))
        )

    def stop(self, query: PolicyQuery) -> StopDecision:
        """Return the answer of the largest known node, without further acquisitions.

        Raises:
            InvalidRequest: a sensor must give the answer, and no sensor is known.
        """
        cells, known = self._readings.read_query(query)
        inputs = make_tree_inputs(self._sensors, cells[None])
        if self.has_to_acquire and not known.any():
            raise InvalidRequest.from_faults(Fault(("acquired",), "must not be empty: an answer is required"))
        point = self._draw_point(
            self.select_mixture(query), ItemDraw.from_item(query.item, self.class_base.shape[1]), query
        )
        return self._stop_decision(self._node_of(known.tobytes()), known, inputs, point)

    def _stops_at_once(self, point: int) -> bool:
        return not self.has_to_acquire and point < len(self.tradeoffs) and bool(self.tradeoffs[point] < 0)

    def _choose_target(
        self, node: int, member: int, point: int, rows: Floats, inputs: Floats, forbidden: Bools | None
    ) -> tuple[int, float]:
        """Return the next node, or -1 to stop, and the expected loss.

        forbidden: (A,), actions that are not allowed.
        """
        if self._stops_at_once(point) or not len(self._graph.list_actions(node)):
            return -1, 0.0
        if point < len(self.tradeoffs):
            action, advantages, stopping = self._choose_action(node, member, point, rows, inputs, forbidden)
        else:
            actions, of_rows, losses = self._choose_actions(node, member, point, rows, inputs, forbidden)
            action, advantages, stopping = int(actions[0]), of_rows[0].tolist(), float(losses[0])
        if not action:
            return -1, 0.0
        target = int(self._graph.list_actions(node)[action - 1])
        return target, self.loss_scale * max(0.0, stopping + advantages[action - 1])

    def _choose_action(
        self, node: int, member: int, point: int, rows: Floats, inputs: Floats, forbidden: Bools | None
    ) -> tuple[int, list[float], float]:
        """Choose the action of one item, like ``_choose_actions``; advantages: (A,)."""
        shares = self._one_item.predict_posteriors(node, member, inputs[0])
        features = compute_row_features(self._feature_columns[node], shares, rows[0].tolist())
        advantages = self._one_item.estimate_advantages(node, member, point, features)
        if self.classless:
            known_part = np.asarray(self._known_advantages(node, np.array([shares])))[0].tolist()
            advantages = list(map(add, advantages, known_part))
        allowed = advantages if forbidden is None else np.where(forbidden, np.inf, advantages).tolist()
        best = min(allowed)
        stops = best >= (0.0 if self._decisions.can_stop(node) else inf)
        action = 0 if stops else allowed.index(best) + 1
        return action, advantages, self._expected_loss(node, shares)

    def _expected_loss(self, node: int, shares: list[float]) -> float:
        """Return the expected loss of stopping, given class probabilities or qualities of answers."""
        if not self.classless and self.losses.is_zero_one:
            return 1.0 - max(shares)
        return float(self._choose_answer(np.array([shares]), self.members[node])[1][0])

    def _choose_actions(
        self, node: int, member: int, point: int, rows: Floats, inputs: Floats, forbidden: Bools | None
    ) -> tuple[Int16s, Floats, Floats]:
        """Choose actions for rows, (n,); return also advantages, (n, A), and the expected loss of stopping, (n,).

        One member decides. For hard limits, the mean of all members decides, because the cost bound holds for any of
        them.
        """
        every = range(self.class_base.shape[1]) if point >= len(self.tradeoffs) else (member,)
        advantages, stopping, actions = [], [], np.zeros(len(rows), dtype=np.int16)
        for k in every:
            judged = self._classifiers.predict_posteriors(node, k, inputs)
            features = compute_node_features(self._sensors, self.members[node], judged, rows)
            ahead = self._known_advantages(node, judged)
            actions, advantage = self._decisions.choose_actions(node, k, point, features, forbidden, ahead)
            advantages.append(advantage)
            stopping.append(self._choose_answer(judged, self.members[node])[1])
        mean = np.mean(advantages, axis=0)
        if len(advantages) > 1:
            allowed = mean if forbidden is None else np.where(forbidden, np.inf, mean)
            actions = choose_least(allowed, can_stop=self._decisions.can_stop(node))
        return actions, mean, np.mean(stopping, axis=0)

    def _known_advantages(self, node: int, judged: Floats) -> Floats | float:
        if not self.classless:
            return 0.0
        further = self.members[self._graph.list_actions(node)]
        return known_advantages(judged, self.members[node], further, self.reject_quality)

    def _choose_answer(self, judged: Floats, bought: Bools) -> tuple[Int64s, Floats]:
        """Return the answer of least expected loss, or the best acquired sensor, and its loss, (n,) each."""
        if not self.classless:
            return self.losses.choose(judged)
        quality, bought = append_reject(judged, bought, self.reject_quality)
        best = choose_best_acquired(quality, bought)
        return best, 1.0 - quality[np.arange(len(best)), best] * bool(bought.any())

    @cached_property
    def _describe_acquisition(self) -> Callable[[int, bytes, int, int], dict[str, Any]]:
        return lru_cache(SET_CACHE_SIZE)(self._list_acquired)

    def _list_acquired(self, node: int, known_bytes: bytes, target: int, point: int) -> dict[str, Any]:
        """Return the fields of a decision that moves to a node, without the expected loss."""
        known = np.frombuffer(known_bytes, dtype=np.bool_)
        missing = self.members[target] & ~known
        first, *others = np.flatnonzero(missing).tolist()
        fetched = missing & (self._limits.fetches == self._limits.fetches[first])
        return {
            "sensor": self.sensors[first],
            "cost": float(self.setup.step_costs(self.extended_costs, known)[first]),
            "then": tuple(self.sensors[place] for place in others),
            "together": tuple(self.sensors[place] for place in others if fetched[place]),
            "time": self._limits.time_of(fetched, known),
            "tradeoff": self._tradeoff(point),
            "ignored": self._list_ignored(node, known),
        }

    def _stop_decision(self, node: int, known: Bools, inputs: Floats, point: int) -> StopDecision:
        judged = self._classifiers.mean_posteriors(node, inputs)
        best, share = (each[0] for each in self._choose_answer(judged, known))
        loss, tradeoff = self.loss_scale * max(0.0, float(share)), self._tradeoff(point)
        scores, ignored = judged[0].tolist(), self._list_ignored(node, known)
        probabilities = {} if self.classless else dict(zip(self.classes, scores, strict=False))
        if best == judged.shape[1]:
            return RejectDecision(probabilities=probabilities, expected_loss=loss, tradeoff=tradeoff, ignored=ignored)
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
        return ClassifyDecision(
            label=self.classes[best],
            probabilities=probabilities,
            expected_loss=loss,
            tradeoff=tradeoff,
            ignored=ignored,
        )

    def _list_ignored(self, node: int, known: Bools) -> tuple[str, ...]:
        return tuple(self.sensors[place] for place in np.flatnonzero(known & ~self.members[node]).tolist())
