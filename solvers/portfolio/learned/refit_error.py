"""Standard error of a router's mean cost due to the choice of training rows.

The curve is measured with the estimators of the folds, but requests are routed by an estimator that is fitted to all
rows. If two classifiers' estimates hardly differ, the two route different shares of the items to them. The resulting
error of the mean cost is added to the sampling error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats
from solvers.portfolio.shadow_prices import ShadowPrices

POINTS = 33
"""Number of budgets at which the error is computed."""


@dataclass(frozen=True, slots=True, eq=False)
class RefitErrorCurve:
    """Standard error of the mean planned cost, as a function of the budget.

    budgets, errors: (b,).
    """

    budgets: Floats
    errors: Floats

    @classmethod
    def from_folds(
        cls, values: Sequence[Floats], prices: Sequence[ShadowPrices], costs: Floats, tie_breaks: Floats
    ) -> "RefitErrorCurve":
        """Route the same rows by the estimator of each of k folds, and compare mean costs.

        Folds share most of their training rows, so the variance over folds is too small. It is multiplied by 1/k + 1/(k
        - 1). Each row was used to fit nine of ten estimators; this is not corrected.

        Args:
            values: for each fold, (r, m), estimates minus penalties of the same rows.
            prices: the shadow prices of each fold.
            costs: (m,) or (r, m), planned costs.
            tie_breaks: (r,).
        Complexity: O(b k r m).
        Source: Nadeau and Bengio, *Inference for the generalization error*, 2003.
        """
        k, rows = len(values), np.arange(len(tie_breaks))
        least, most = min(one.budgets[0] for one in prices), max(one.budgets[-1] for one in prices)
        budgets = np.linspace(least, most, POINTS)
        planned = np.broadcast_to(costs, values[0].shape)
        means = np.empty((k, POINTS))
        for fold, (own, price) in enumerate(zip(values, prices, strict=True)):
            for at, budget in enumerate(budgets.tolist()):
                choice = price.choose_each(own, costs, budget, tie_breaks)
                means[fold, at] = planned[rows, choice].mean()
        return cls(budgets, means.std(axis=0, ddof=1) * np.sqrt(1 / k + 1 / (k - 1)))

    def interpolate_errors(self, budgets: Floats) -> Floats:
        """Return the standard errors at budgets per query, (p,), without the cost of embeddings."""
        return np.interp(budgets, self.budgets, self.errors)
