"""Policy plan: decisions, rollouts of complete items, and the trade-off curve."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from models import FeatureTable, Trace
from models.arrays import Floats, Int16s, Int64s
from models.policy import PolicyTarget
from models.policy_curves import Rollout, RolloutItem, Rollouts
from solvers.base import prepare_plan
from solvers.policy.decisions import PolicyDecisions
from solvers.policy.item_draw import ItemDraw
from solvers.policy.node_classifiers import make_tree_inputs
from solvers.policy.plan_invariants import check_invariants
from solvers.policy.rollout import SimulatedPaths, simulate_policy


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRun:
    """Result of a rollout of n items.

    Attributes:
        labels: (n,), class codes, or without classes the sensors that answer; C or M for rejected items.
        scores: (n, C) class probabilities, or (n, M) expected quality of answers.
        costs: (n,), at mean prices.
        walks: the nodes that each item visited.
    """

    labels: Int64s
    scores: Floats
    costs: Floats
    walks: SimulatedPaths


@dataclass(frozen=True, eq=False)
class PolicyPlan(PolicyDecisions):
    """Policy of every node of the DAG under each trade-off of the curve."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self)

    def check(self) -> None:
        """Raise InvalidRequest if the arrays are inconsistent."""
        check_invariants(self)

    def check_readings(self, acquired: Mapping[str, Any]) -> None:
        """Raise InvalidRequest for invalid readings of sensors."""
        self._readings.parse_readings(acquired)

    def is_labelled(self, sensor: str) -> bool:
        """Return whether a sensor is a classifier that returns a label.

        Raises ValueError for an unknown sensor.
        """
        return bool(self.labelled[self.owners == self.sensors.index(sensor)].any())

    def has_columns(self, sensor: str) -> bool:
        """Return whether a sensor yields any column: value, label, or confidence.

        A classifier without classes and without confidence has none.
        """
        return bool(np.any(self.owners == self.sensors.index(sensor)))

    def is_final_call(self, sensors: Sequence[str]) -> bool:
        """Return whether the run ends after these sensors, whatever their readings.

        One of the sensors then gives the answer.
        """
        known = np.isin(self.sensors, sensors)
        return (
            self.has_to_acquire
            and len(sensors) == 1
            and not len(self._graph.list_actions(self._graph.find_largest_known(known)))
        )

    def run(self, cells: Floats, items: Sequence[str], target: PolicyTarget) -> PolicyRun:
        """Roll out complete items, (n, D) from ``cells_of``, node by node, as ``decide`` would."""
        drawn = [ItemDraw.from_item(item, self.class_base.shape[1]) for item in items]
        mixture = self.select_mixture(target)
        alike = mixture.first >= len(self.tradeoffs)  # all members decide together
        member = np.array([0 if alike else draw.member for draw in drawn], dtype=np.int64)
        point = np.array([self._draw_point(mixture, draw, target) for draw in drawn], dtype=np.int64)
        inputs = make_tree_inputs(self._sensors, cells)

        def choose(node: int, rows: Int64s) -> Int16s:
            actions = np.zeros(len(rows), dtype=np.int16)
            for k, h in set(zip(member[rows].tolist(), point[rows].tolist(), strict=True)):
                if not self._stops_at_once(h):
                    some = np.flatnonzero((member[rows] == k) & (point[rows] == h))
                    forbidden, taken = self._barred_actions(node, h, target), rows[some]
                    actions[some], *_ = self._choose_actions(node, k, h, cells[taken], inputs[taken], forbidden)
            return actions

        walks = simulate_policy(self._graph, len(cells), choose)
        judged = np.zeros((len(cells), self.class_base.shape[2]))
        labels = np.zeros(len(cells), dtype=np.int64)
        for node in np.unique(walks.ends).tolist():
            rows = np.flatnonzero(walks.ends == node)
            judged[rows] = self._classifiers.mean_posteriors(node, inputs[rows])
            labels[rows], _ = self._choose_answer(judged[rows], self.members[node])
        return PolicyRun(labels, judged, walks.total_costs(self._graph, self.extended_costs), walks)

    def roll_out(self, items: Sequence[RolloutItem], target: PolicyTarget) -> Rollouts:
        """Roll out complete items; return the label, cost, and path of each.

        Raises:
            InvalidRequest: an item lacks a sensor or has invalid readings.
        """
        cells = self.cells_of_items(items)
        names = [str(at) if item.item is None else item.item for at, item in enumerate(items)]
        ran = self.run(cells, names, target)
        return Rollouts(items=tuple(self._to_rollouts(names, ran)), mean_cost=float(ran.costs.mean()))

    def cells_of_items(self, items: Sequence[RolloutItem]) -> Floats:
        """Return readings of complete items, (n, D), for ``run``; raises the errors of ``roll_out``."""
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
                answer=self._answer_of(int(ran.labels[at])),
                cost=float(ran.costs[at]),
                path=self.acquired_sensors(ran.walks.nodes[at]),
                time=self._limits.time_of(self.members[ran.walks.ends[at]]),
            )

    def _label_of(self, code: int) -> str | None:
        """Return the name of a class; None for rejected items or without classes."""
        return None if self.classless or code == self.class_base.shape[2] else self.classes[code]

    def _answer_of(self, place: int) -> str | None:
        """Return the sensor that answers; None for rejected items or with classes."""
        return self.sensors[place] if self.classless and place < len(self.sensors) else None

    def acquired_sensors(self, nodes: Int64s) -> tuple[str, ...]:
        """Return the sensors acquired along an item's path, in order."""
        acquired: list[str] = []
        passed = nodes[nodes >= 0]
        for before, after in pairwise(passed):
            acquired += [self.sensors[m] for m in np.flatnonzero(self.members[after] & ~self.members[before]).tolist()]
        return tuple(acquired)

    def cells_of(self, dataset: FeatureTable | Trace) -> Floats:
        """Return readings of a dataset with the same sensors, (n, D), for ``run``."""
        return self._sensors.read_cells(dataset)
