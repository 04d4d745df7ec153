"""Expected accuracy and cost of an operating point, with which feedback is compared."""

from models.feedback import Expectations
from models.policy import PolicyTarget
from solvers.policy.plan import PolicyPlan

FOLD_DEPENDENCE = 100
"""Variance inflation of cross-validated errors: 1 + FOLD_DEPENDENCE / rows.

Members share training rows, so errors of different folds are correlated, and their mean varies more than that of as
many independent rows. The factor cannot be estimated from the same rows. It was 1.4 on 140 simulated traces of 300
rows, and 1.1 on 30 traces of 1,200 rows.

Source: Bengio, Grandvalet, *No unbiased estimator of the variance of k-fold cross-validation*, 2004.
"""


def estimate_outcomes(plan: PolicyPlan, query: PolicyTarget) -> Expectations:
    """Return the expected accuracy, coverage, and cost at the points that a query selects."""
    accuracy, cost, cost_error = plan.expected_outcome(query)
    counted = plan.independence * (plan.rows if query.min_accuracy is None else plan.rows - plan.choosing)
    return Expectations.from_figures(
        accuracy=accuracy,
        coverage=plan.expected_coverage(query),
        cost=cost,
        cost_error=cost_error,
        rows=_effective_sample_size(counted, plan.independence * plan.rows),
    )


def _effective_sample_size(counted: float, rows: float) -> int:
    """Return the number of independent rows of equal variance.

    >>> _effective_sample_size(400, 400), _effective_sample_size(40_000, 40_000)
    (320, 39900)
    """
    return max(1, int(counted / (1 + FOLD_DEPENDENCE / rows)))
