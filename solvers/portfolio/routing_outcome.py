"""What a routing achieves on items whose truth is known: accuracy, measured cost, usage."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.statistics import standard_error_of_mean


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Items and the truth about them. vectors: (n, d) float32 embeddings as they came; right: (n, m) 1 where a
    classifier is right, else 0; costs: (n, m), measured; embedding_costs: (n,) of the embeddings; means: (m,) the costs
    to plan with; embedding_mean: the same of the embeddings; planned: (n, m) to plan with, where each item has its own:
    what its size or its embedding says; items: (n,) equal for rows of one item."""

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
        """What to plan with, (m,) or (n, m)."""
        return self.means if self.planned is None else self.planned

    def __len__(self) -> int:
        return len(self.right)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """accuracy: the share of items, from 0 to 1, that are answered correctly; cost: of an item on average; cost_offset,
    cost_error: what that is beyond the costs planned with, and its standard error; usage: (m,) items that each
    classifier got."""

    accuracy: float
    cost: float
    cost_offset: float
    cost_error: float
    usage: Int64s

    @classmethod
    def of(cls, choice: Int64s, known: Known, *, embeds: bool) -> "Outcome":
        """Look up what a choice, (n,) classifiers, achieves. embeds: whether it needed the embeddings."""
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
