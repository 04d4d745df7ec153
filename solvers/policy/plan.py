"""What a policy build keeps, and how it answers: classifiers, decisions, and the trade-off curve."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models import Fault, FeatureTable, InvalidRequest, Trace
from models.policy import (
    AcquireDecision,
    ClassifyDecision,
    PolicyPoint,
    PolicyQuery,
    PolicyTarget,
    Rollout,
    RolloutItem,
    Rollouts,
)
from solvers.base import complete
from solvers.policy.basis import Basis
from solvers.policy.checks import refuse_contradictions
from solvers.policy.classifiers import Classifiers, tree_inputs
from solvers.policy.decisions import Decisions
from solvers.policy.hints import hints_of
from solvers.policy.hull import Mixture
from solvers.policy.rollout import Walks, walk
from solvers.policy.sensors import Sensors
from solvers.policy.states import Graph

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """What became of n items. labels: (n,) codes of classes; probabilities: (n, C); costs: (n,) at average prices;
    walks: the nodes they passed."""

    labels: NDArray[np.int64]
    probabilities: Floats
    costs: Floats
    walks: Walks


@dataclass(frozen=True, slots=True, eq=False)
class PolicyPlan:
    """A decision for every node of the DAG, in K members, under each of the H trade-offs of the curve. Costs are in
    ``unit``.

    sensors: M names; costs: (M,) their average costs; classes: names in whose order labels of sensors are coded, the C
    true ones first; owners, labelled: the columns of sensors (``Sensors``); knots: (D, 5) (``Basis``); members,
    offsets, targets: the DAG (``Graph``).

    weights: (S, K, F, C), intercepts: (S, K, C), class_columns: (S, K, T, D), class_thresholds, class_leaves: (S, K, T,
    2^D, C): the classifiers of nodes (``Classifiers``).

    learner: how nodes decide. base: (E, K, H) mean advantages of edges over stopping, without their prices.
    edge_columns, edge_thresholds: (S, K, T', D), edge_leaves: (E, K, T', 2^D, H): the forests (``Regressed``), with
    T' = 0 for a filter tree; degree, centres, scales: (S, d), matches: (E, K, H, P): the tournaments (``Tournament``),
    E = 0 for a regression.

    tradeoffs: (H,) what a unit of cost weighs, -1 for stopping at once; point_costs, point_bounds, point_errors,
    point_sensors: (H,) the curve by rising cost and falling error; confidence: with which the bounds hold; rows: how
    many items were validated on.
    """

    unit: str
    sensors: tuple[str, ...]
    classes: tuple[str, ...]
    costs: Floats
    owners: Ints
    labelled: Bools
    knots: Floats
    members: Bools
    offsets: Ints
    targets: Ints
    weights: Singles
    intercepts: Singles
    class_columns: Ints
    class_thresholds: Floats
    class_leaves: Singles
    learner: Literal["regression", "filter_tree"]
    base: Singles
    edge_columns: Ints
    edge_thresholds: Floats
    edge_leaves: Singles
    degree: int
    centres: Floats
    scales: Floats
    matches: Singles
    tradeoffs: Floats
    point_costs: Floats
    point_bounds: Floats
    point_errors: Floats
    point_sensors: Floats
    confidence: float
    rows: int
    _sensors: Sensors = field(init=False, repr=False, metadata={"derived": True})
    _graph: Graph = field(init=False, repr=False, metadata={"derived": True})
    _classifiers: Classifiers = field(init=False, repr=False, metadata={"derived": True})
    _decisions: Decisions = field(init=False, repr=False, metadata={"derived": True})
    _in_groups: bool = field(init=False, repr=False, metadata={"derived": True})

    def __post_init__(self) -> None:
        refuse_contradictions(self)
        sensors = Sensors(self.sensors, self.owners, self.labelled, self.classes)
        graph = Graph(self.members, self.offsets, self.targets)
        classifiers = Classifiers(
            Basis(sensors, self.knots),
            self.members,
            self.weights,
            self.intercepts,
            self.class_columns,
            self.class_thresholds,
            self.class_leaves,
        )
        prices = np.concatenate([graph.step_costs(node, self.costs) for node in range(len(graph))])
        decisions = Decisions(
            self.offsets,
            prices,
            np.maximum(self.tradeoffs, 0.0),
            self.base,
            self.edge_columns,
            self.edge_thresholds,
            self.edge_leaves,
            self.degree,
            self.centres,
            self.scales,
            self.matches,
        )
        derived = {"_sensors": sensors, "_graph": graph, "_classifiers": classifiers, "_decisions": decisions}
        steps = [
            self.members[graph.actions_of(node)].sum(axis=1) - self.members[node].sum() for node in range(len(graph))
        ]
        in_groups = bool(np.any(np.concatenate(steps) > 1))
        complete(self, {**derived, "_in_groups": in_groups})

    def decide(self, query: PolicyQuery) -> AcquireDecision | ClassifyDecision:
        """Say what to do next with an item of which some sensors are known; nothing is remembered between calls.

        Where sensors are acquired in groups, the item's way is walked again from its start, so that a group that was
        begun is finished. What is known beside the item's way tells only as far as it fills a node: then the answer is
        that of the largest node known in full. Raises InvalidRequest for sensors that are not known here, and for what
        they cannot have told.
        """
        cells, known = self._sensors.read(query.acquired)
        luck = Luck.of(query.item, self.weights.shape[1])
        point = self._point(self.mixture(query), luck)
        rows, inputs = cells[None], tree_inputs(self._sensors, cells[None])

        def choose(node: int) -> tuple[int, float]:
            return self._choice(node, luck.member, point, rows, inputs)

        way = self._way(known, choose) if self._in_groups else None
        if way is None:
            node = self._graph.node_within(known)
            way = (node, *choose(node))
        node, target, loss = way
        if target < 0:
            return self._classify(node, known, rows, inputs, point)
        return self._acquire(node, known, target, loss, point)

    def _choice(self, node: int, member: int, point: int, rows: Floats, inputs: Floats) -> tuple[int, float]:
        """Choose at a node: the node to go to and the loss to expect, or -1 to stop."""
        targets = self._graph.actions_of(node)
        if self.tradeoffs[point] < 0 or not len(targets):
            return -1, 0.0
        seen = self._classifiers.posteriors(node, member, rows, inputs)
        hints = hints_of(self._sensors, self.members[node], seen, rows)
        actions, advantages = self._decisions.choose(node, member, point, hints)
        action = int(actions[0])
        if not action:
            return -1, 0.0
        return int(targets[action - 1]), max(0.0, 1.0 - float(seen.max()) + float(advantages[0, action - 1]))

    def _way(self, known: Bools, choose: Callable[[int], tuple[int, float]]) -> tuple[int, int, float] | None:
        """Walk from the start as long as what was chosen is known: the node, target and loss where that ends; None if
        anything is known that the item's way did not ask for."""
        node, bought = 0, np.zeros(len(known), dtype=bool)
        while True:
            target, loss = choose(node)
            wanted = bought if target < 0 else self.members[target]
            if target < 0 or bool(np.any(wanted & ~known)):
                return None if bool(np.any(known & ~wanted)) else (node, target, loss)
            node, bought = target, wanted

    def _acquire(self, node: int, known: Bools, target: int, loss: float, point: int) -> AcquireDecision:
        missing = np.flatnonzero(self.members[target] & ~known).tolist()
        return AcquireDecision(
            sensor=self.sensors[missing[0]],
            cost=float(self.costs[missing[0]]),
            expected_loss=loss,
            then=tuple(self.sensors[place] for place in missing[1:]),
            tradeoff=self._tradeoff(point),
            ignored=self._ignored(node, known),
        )

    def _classify(self, node: int, known: Bools, rows: Floats, inputs: Floats, point: int) -> ClassifyDecision:
        found = self._classifiers.answers(node, rows, inputs)[0]
        best = int(found.argmax())
        return ClassifyDecision(
            label=self.classes[best],
            probabilities=dict(zip(self.classes, found.tolist(), strict=False)),
            expected_loss=max(0.0, 1.0 - float(found[best])),
            tradeoff=self._tradeoff(point),
            ignored=self._ignored(node, known),
        )

    def _ignored(self, node: int, known: Bools) -> tuple[str, ...]:
        return tuple(self.sensors[place] for place in np.flatnonzero(known & ~self.members[node]).tolist())

    def _tradeoff(self, point: int) -> float | None:
        found = float(self.tradeoffs[point])
        return found if found >= 0 else None

    def mixture(self, target: PolicyTarget) -> Mixture:
        """Find the points of the curve that a trade-off or a budget asks for; neither asks for the fewest errors."""
        if target.budget is not None:
            return Mixture.of(self.point_bounds, target.budget)
        if target.tradeoff is not None:
            best = int((self.point_errors + target.tradeoff * self.point_costs).argmin())
            return Mixture(best, best, 0.0)
        return Mixture(len(self.tradeoffs) - 1, len(self.tradeoffs) - 1, 0.0)

    def reached(self, target: PolicyTarget) -> tuple[float, float]:
        """Give the accuracy and the cost of an item that a trade-off or a budget reaches on validation."""
        mixture = self.mixture(target)
        first, second = mixture.first, mixture.second

        def mixed(points: Floats) -> float:
            return float(points[first] + mixture.share * (points[second] - points[first]))

        return 1 - mixed(self.point_errors), mixed(self.point_costs)

    @staticmethod
    def _point(mixture: Mixture, luck: "Luck") -> int:
        return mixture.second if luck.draw < mixture.share else mixture.first

    def run(self, cells: Floats, items: Sequence[str], target: PolicyTarget) -> Ran:
        """Walk complete items, cells (n, D) as ``cells_of`` gives them, as ``decide`` would, but node by node."""
        drawn = [Luck.of(item, self.weights.shape[1]) for item in items]
        member = np.array([luck.member for luck in drawn], dtype=np.int64)
        mixture = self.mixture(target)
        point = np.array([self._point(mixture, luck) for luck in drawn], dtype=np.int64)
        inputs = tree_inputs(self._sensors, cells)

        def choose(node: int, rows: NDArray[np.int64]) -> NDArray[np.int16]:
            actions = np.zeros(len(rows), dtype=np.int16)
            for k, h in set(zip(member[rows].tolist(), point[rows].tolist(), strict=True)):
                if self.tradeoffs[h] >= 0:
                    some = np.flatnonzero((member[rows] == k) & (point[rows] == h))
                    seen = self._classifiers.posteriors(node, k, cells[rows[some]], inputs[rows[some]])
                    hints = hints_of(self._sensors, self.members[node], seen, cells[rows[some]])
                    actions[some], _ = self._decisions.choose(node, k, h, hints)
            return actions

        walks = walk(self._graph, len(cells), choose)
        found = np.zeros((len(cells), self.weights.shape[3]))
        for node in np.unique(walks.ends).tolist():
            rows = np.flatnonzero(walks.ends == node)
            found[rows] = self._classifiers.answers(node, cells[rows], inputs[rows])
        return Ran(found.argmax(axis=1), found, walks.costs(self._graph, self.costs), walks)

    def rollouts(self, items: Sequence[RolloutItem], target: PolicyTarget) -> Rollouts:
        """Run complete items through the policy: label, cost and path of each.

        Raises InvalidRequest for an item that lacks a sensor or holds what the sensor cannot have told.
        """
        cells = np.stack([self._complete(at, item) for at, item in enumerate(items)])
        names = [str(at) if item.item is None else item.item for at, item in enumerate(items)]
        ran = self.run(cells, names, target)
        return Rollouts(items=tuple(self._told(names, ran)), mean_cost=float(ran.costs.mean()))

    def _complete(self, at: int, item: RolloutItem) -> Floats:
        try:
            cells, known = self._sensors.read(item.sensors, "sensors")
        except InvalidRequest as error:
            raise InvalidRequest.at(*(Fault(("items", at, *fault.loc), fault.msg) for fault in error.faults)) from error
        if not known.all():
            lacking = self.sensors[int(np.flatnonzero(~known)[0])]
            raise InvalidRequest.at(Fault(("items", at, "sensors"), f"lack {lacking!r}: a rollout needs all of them"))
        return cells

    def _told(self, names: Sequence[str], ran: Ran) -> Iterable[Rollout]:
        for at, name in enumerate(names):
            yield Rollout(
                item=name,
                label=self.classes[int(ran.labels[at])],
                cost=float(ran.costs[at]),
                path=self.path(ran.walks.nodes[at]),
            )

    def path(self, nodes: NDArray[np.int64]) -> tuple[str, ...]:
        """List the sensors acquired along the nodes that one item passed, in order."""
        found: list[str] = []
        passed = nodes[nodes >= 0]
        for before, after in pairwise(passed):
            found += [self.sensors[m] for m in np.flatnonzero(self.members[after] & ~self.members[before]).tolist()]
        return tuple(found)

    def cells_of(self, dataset: FeatureTable | Trace) -> Floats:
        """Take complete items from a dataset with the same sensors: cells (n, D) for ``run``."""
        return self._sensors.cells(dataset)

    def curve(self) -> tuple[PolicyPoint, ...]:
        """List the points of the trade-off curve by rising cost."""
        columns = (self.point_costs, self.point_bounds, self.point_errors, self.point_sensors)
        return tuple(
            PolicyPoint(tradeoff=self._tradeoff(at), cost=cost, cost_bound=bound, error=error, sensors=told)
            for at, (cost, bound, error, told) in enumerate(zip(*(each.tolist() for each in columns), strict=True))
        )


@dataclass(frozen=True, slots=True)
class Luck:
    """What chance decides about an item, by its id alone. member: the one that decides for it; draw: from 0 to below 1,
    or 1 for an item without id, which never draws the dearer of two points."""

    member: int
    draw: float

    @classmethod
    def of(cls, item: str | None, members: int) -> "Luck":
        """Draw for an item; equal ids draw alike, everywhere and always.

        >>> Luck.of("a", 5) == Luck.of("a", 5), Luck.of(None, 5)
        (True, Luck(member=0, draw=1.0))
        """
        if item is None:
            return cls(0, 1.0)
        digest = sha256(item.encode("utf-8", "surrogatepass")).digest()
        return cls(int.from_bytes(digest[:8]) % members, int.from_bytes(digest[8:14]) / 2**48)
