"""Policy of a node by regression.

Gradient-boosted trees predict the extra loss of each action compared with stopping. The action with the least extra
loss is chosen.

A forest per node regresses all actions under all trade-offs together, on ``node_features``. Member k is fitted to all
rows except fold k, and decides for fold k. The mean price of an action is known, so it is not part of the regression.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from models.arrays import Bools, Floats, Int16s, Int32s, Int64s, Singles
from solvers.trees.boosting import BinnedTable, BoostingParams, boost_regression
from solvers.trees.oblivious_trees import STAGE_TREES, Forest

RIDGE = 30.0
"""Ridge penalty of leaves of forests of advantages."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTraining:
    """Training data of one node's policy.

    Attributes:
        features: (n, d).
        action_costs: (n, A + 1, L), costs of actions, stopping first.
        folds: (n,), the member that is not fitted to the row.
        weighted_costs: (A, L), mean prices times trade-offs.
        rows: (n,) bool, training rows.
        forbidden: (A, L) bool, actions that are not allowed.
        can_stop: whether stopping is allowed.
        known_advantages: (n, A), known part of the advantages; None if there is none.
    """

    features: Floats
    action_costs: Floats
    folds: Int64s
    weighted_costs: Floats
    rows: Bools
    forbidden: Bools
    can_stop: bool = True
    known_advantages: Floats | None = None

    @property
    def advantages(self) -> Floats:
        """Regression targets, (n, A, L): extra weight compared with stopping, minus price and known part."""
        advantages = self.action_costs[:, 1:] - self.action_costs[:, :1] - self.weighted_costs
        return np.where(self.forbidden, 0.0, advantages - self.offset)

    @property
    def offset(self) -> Floats | float:
        """Known part of the advantages, (n, A, 1), or 0."""
        return 0.0 if self.known_advantages is None else self.known_advantages[:, :, None]

    @property
    def members(self) -> int:
        """Number of members, K."""
        return int(self.folds.max()) + 1


@dataclass(frozen=True, slots=True, eq=False)
class NodePolicy:
    """Policy of one node.

    Attributes:
        base: (K, A, L) float32.
        columns: (K, T, D) int32.
        thresholds: (K, T, D) float64.
        leaves: (K, T, 2^D, A, L) float32.
        actions: (n, L), out-of-fold decisions.
    """

    base: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles
    actions: Int16s


def choose_least(advantages: Floats, *, can_stop: bool = True) -> Int16s:
    """Return the action with the least advantage.

    Return 0 (stop) if stopping is allowed and no advantage is below 0.

    Args:
        advantages: (n, A, ...), prices included.

    >>> choose_least(np.array([[0.2, -0.1], [0.2, 0.1]])).tolist()
    [2, 0]
    >>> choose_least(np.array([[0.2, 0.1]]), can_stop=False).tolist()
    [2]
    """
    stopping = np.full_like(advantages[:, :1], 0.0 if can_stop else np.inf)
    return np.asarray(np.concatenate([stopping, advantages], axis=1).argmin(axis=1).astype(np.int16))


def fit_node_policy(training: NodeTraining, growth: BoostingParams, seed: int) -> NodePolicy:
    """Fit the members of one node.

    The number of trees of a member minimizes the squared error of the other members on their held-out folds. So the
    fold that evaluates a member does not determine its size.
    """
    targets, rng = training.advantages, np.random.default_rng(seed)
    alike = bool(np.all(targets == targets[..., :1]))  # after the last sensor no trade-off matters
    n, actions, tradeoffs = targets.shape
    learned = targets[..., :1] if alike else targets
    flat = learned.reshape(n, -1)
    binned, forests = BinnedTable.from_inputs(training.features), list[Forest]()
    errors = np.zeros((training.members, growth.trees // STAGE_TREES + 1))
    for k in range(training.members):
        seen, judged = training.rows & (training.folds != k), training.rows & (training.folds == k)
        forest = boost_regression(binned.take(seen), flat[seen], growth, rng)
        errors[k] = forest.staged_losses(training.features[judged], partial(_squared_error, flat[judged]))
        forests.append(forest)
    others = errors.sum(axis=0) - errors
    forests = [forest.keep_first(STAGE_TREES * int(own.argmin())) for forest, own in zip(forests, others, strict=True)]
    predicted = np.empty(targets.shape)
    for k, forest in enumerate(forests):
        rows = training.folds == k
        predicted[rows] = forest.predict(training.features[rows]).reshape(-1, *learned.shape[1:])
    allowed = np.where(training.forbidden, np.inf, predicted + training.weighted_costs + training.offset)
    return _stack_members(forests, (actions, tradeoffs), choose_least(allowed, can_stop=training.can_stop))


def _squared_error(targets: Floats, predicted: Singles) -> float:
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
