"""Outcome of a routing on labeled items: accuracy, measured cost, and usage."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.statistics import standard_error_of_mean


@dataclass(frozen=True, slots=True, eq=False)
class LabeledItems:
    """Labeled items with costs.

    Attributes:
        vectors: (n, d) float32, unscaled embeddings.
        right: (n, m), 1 where a classifier is correct, else 0; doubly robust values in a partial trace.
        costs: (n, m), measured.
        embedding_costs: (n,), measured.
        means: (m,), planned costs.
        mean_embedding_cost: planned cost of an embedding.
        items: (n,), equal for rows of one item.
        planned: (n, m), planned costs of each item, by its size or embedding; None for the means.
        observed: (n, m), in a partial trace ``right`` of calls, NaN without a call; None if all classifiers were
            called.
        observed_costs: (n, m), like ``observed``, for ``costs``.
    """

    vectors: Singles
    right: Floats
    costs: Floats
    embedding_costs: Floats
    means: Floats
    mean_embedding_cost: float
    items: Int64s
    planned: Floats | None = None
    observed: Floats | None = None
    observed_costs: Floats | None = None

    @property
    def targets(self) -> Floats:
        """Targets of the success regressions, (n, m); NaN if a classifier was not called."""
        return self.right if self.observed is None else self.observed

    @property
    def cost_targets(self) -> Floats:
        """Targets of the cost regressions, (n, m); NaN if a classifier was not called."""
        return self.costs if self.observed_costs is None else self.observed_costs

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
        accuracy: share of items answered correctly. It is clipped to [0, 1], because means of doubly robust values can
            be outside.
        cost: mean cost of an item.
        cost_offset: mean of measured minus planned cost.
        cost_error: standard error of ``cost``.
        offset_error: standard error of ``cost_offset``.
        usage: (m,), number of items of each classifier.
    """

    accuracy: float
    cost: float
    cost_offset: float
    cost_error: float
    offset_error: float
    usage: Int64s

    @classmethod
    def from_choice(cls, choice: Int64s, labeled: LabeledItems, *, embeds: bool) -> "RoutingOutcome":
        """Return the outcome of choosing classifiers, (n,).

        embeds: whether the routing needs the embeddings.
        """
        rows = np.arange(len(choice))
        costs, planned = (
            labeled.costs[rows, choice],
            np.broadcast_to(labeled.plan_costs, labeled.costs.shape)[rows, choice],
        )
        if embeds:
            costs, planned = costs + labeled.embedding_costs, planned + labeled.mean_embedding_cost
        return cls(
            min(max(float(labeled.right[rows, choice].mean()), 0.0), 1.0),
            float(costs.mean()),
            float((costs - planned).mean()),
            float(standard_error_of_mean(costs, labeled.items)),
            float(standard_error_of_mean(costs - planned, labeled.items)),
            np.bincount(choice, minlength=labeled.right.shape[1]),
        )
