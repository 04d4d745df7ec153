"""Outcome of a routing on labeled items: accuracy, measured cost, and usage."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.statistics import standard_error_of_mean


@dataclass(frozen=True, slots=True, eq=False)
class KnownItems:
    """Labeled items with costs.

    Attributes:
        vectors: (n, d) float32, unscaled embeddings.
        right: (n, m), 1 where a classifier is correct, else 0.
        costs: (n, m), measured.
        embedding_costs: (n,), measured.
        means: (m,), planned costs.
        embedding_mean: planned cost of an embedding.
        items: (n,), equal for rows of one item.
        planned: (n, m), planned costs of each item, by its size or embedding; None: the means.
    """

    vectors: Singles
    right: Floats
    costs: Floats
    embedding_costs: Floats
    means: Floats
    embedding_mean: float
    items: Int64s
    planned: Floats | None = None

    @property
    def plan_costs(self) -> Floats:
        """Planned costs, (m,) or (n, m)."""
        return self.means if self.planned is None else self.planned

    def __len__(self) -> int:
        return len(self.right)


@dataclass(frozen=True, slots=True, eq=False)
class RoutingOutcome:
    """Outcome of a routing.

    Attributes:
        accuracy: share of items answered correctly, from 0 to 1.
        cost: mean cost of an item.
        cost_offset: mean of measured minus planned cost.
        cost_error: standard error of that.
        usage: (m,), number of items of each classifier.
    """

    accuracy: float
    cost: float
    cost_offset: float
    cost_error: float
    usage: Int64s

    @classmethod
    def from_choice(cls, choice: Int64s, known: KnownItems, *, embeds: bool) -> "RoutingOutcome":
        """Return the outcome of a choice, (n,) classifiers. embeds: whether it needed the embeddings."""
        rows = np.arange(len(choice))
        costs, planned = known.costs[rows, choice], np.broadcast_to(known.plan_costs, known.costs.shape)[rows, choice]
        if embeds:
            costs, planned = costs + known.embedding_costs, planned + known.embedding_mean
        return cls(
            float(known.right[rows, choice].mean()),
            float(costs.mean()),
            float((costs - planned).mean()),
            float(standard_error_of_mean(costs - planned, known.items)),
            np.bincount(choice, minlength=known.right.shape[1]),
        )
