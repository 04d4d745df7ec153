"""Deciding by regression: the advantage of every action over stopping, by gradient-boosted trees; the least wins.

A forest of a node regresses all actions under all trade-offs at once, from what the node looks at
(``node_features``). Member k learns from all rows but those of part k, and decides for those. The average price of an
action under a trade-off is no part of what is regressed: it is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from models.arrays import Bools, Floats, Int16s, Int32s, Int64s, Singles
from solvers.trees.boosting import Binned, Growth, boost
from solvers.trees.oblivious_trees import STAGE, Forest

RIDGE = 30.0
"""How strongly small leaves of forests of advantages are pulled to 0."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTraining:
    """What one node learns from. features: (n, d); weights: (n, A + 1, L), stopping first; folds: (n,) which member
    does not learn from the row; weighed_costs: (A, L), what the actions cost on average, times the trade-offs; rows:
    (n,) bool, those to learn from; barred: (A, L) bool, what must not be done; can_stop: whether stopping is allowed;
    foreseen: (n, A) what of advantages is known without learning, None where nothing is."""

    features: Floats
    weights: Floats
    folds: Int64s
    weighed_costs: Floats
    rows: Bools
    barred: Bools
    can_stop: bool = True
    foreseen: Floats | None = None

    @property
    def advantages(self) -> Floats:
        """What each action weighs more than stopping, less its price and what is foreseen: (n, A, L)."""
        advantages = self.weights[:, 1:] - self.weights[:, :1] - self.weighed_costs
        return np.where(self.barred, 0.0, advantages - self.offset)

    @property
    def offset(self) -> Floats | float:
        """What is foreseen, (n, A, 1), or 0."""
        return 0.0 if self.foreseen is None else self.foreseen[:, :, None]

    @property
    def members(self) -> int:
        """The number of members, K."""
        return int(self.folds.max()) + 1


@dataclass(frozen=True, slots=True, eq=False)
class NodePolicy:
    """One node's policy. base: (K, A, L) float32; columns: (K, T, D) int32, thresholds: (K, T, D) float64, leaves: (K,
    T, 2^D, A, L) float32; actions: (n, L) what the member that had not seen the row decides for it."""

    base: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles
    actions: Int16s


def choose_least(advantages: Floats, *, can_stop: bool = True) -> Int16s:
    """Choose, of advantages with their prices, (n, A, ...), the action that is least if that is below 0, else to stop,
    where that is allowed.

    >>> choose_least(np.array([[0.2, -0.1], [0.2, 0.1]])).tolist()
    [2, 0]
    >>> choose_least(np.array([[0.2, 0.1]]), can_stop=False).tolist()
    [2]
    """
    stopping = np.full_like(advantages[:, :1], 0.0 if can_stop else np.inf)
    return np.asarray(np.concatenate([stopping, advantages], axis=1).argmin(axis=1).astype(np.int16))


def fit_node_policy(training: NodeTraining, growth: Growth, seed: int) -> NodePolicy:
    """Fit the members of one node. A member has as many trees as err least, in squares, in the other members on the
    rows that each had not seen: the part that judges a member has chosen nothing of it."""
    targets, rng = training.advantages, np.random.default_rng(seed)
    alike = bool(np.all(targets == targets[..., :1]))  # no trade-off decides behind the last sensor
    n, actions, tradeoffs = targets.shape
    learned = targets[..., :1] if alike else targets
    flat = learned.reshape(n, -1)
    binned, forests = Binned.of(training.features), list[Forest]()
    errors = np.zeros((training.members, growth.trees // STAGE + 1))
    for k in range(training.members):
        seen, judged = training.rows & (training.folds != k), training.rows & (training.folds == k)
        forest = boost(binned.rows(seen), flat[seen], growth, rng)
        errors[k] = forest.staged_losses(training.features[judged], partial(_squares, flat[judged]))
        forests.append(forest)
    others = errors.sum(axis=0) - errors
    forests = [forest.first(STAGE * int(own.argmin())) for forest, own in zip(forests, others, strict=True)]
    predicted = np.empty(targets.shape)
    for k, forest in enumerate(forests):
        rows = training.folds == k
        predicted[rows] = forest.predict(training.features[rows]).reshape(-1, *learned.shape[1:])
    allowed = np.where(training.barred, np.inf, predicted + training.weighed_costs + training.offset)
    return _stack_members(forests, (actions, tradeoffs), choose_least(allowed, can_stop=training.can_stop))


def _squares(targets: Floats, predicted: Singles) -> float:
    return float(np.square(targets - predicted).sum())


def _stack_members(forests: Sequence[Forest], shape: tuple[int, int], actions: Int16s) -> NodePolicy:
    def full(array: Singles) -> Singles:
        own = array.reshape(*array.shape[:-1], shape[0], -1)
        return np.ascontiguousarray(np.broadcast_to(own, (*own.shape[:-1], shape[1])))

    return NodePolicy(
        np.stack([full(forest.base) for forest in forests]),
        np.stack([forest.columns for forest in forests]),
        np.stack([forest.thresholds for forest in forests]),
        np.stack([full(forest.leaves) for forest in forests]),
        actions,
    )
