"""LLM and classifier routing within a budget, for a batch of queries or for single queries.

Source: Ding, Xu, Lakshmanan, *OCCAM* (ICLR 2025), cited as "the paper". ``kind`` fits a plan to a trace with
embeddings.

======================  ==================================================================================
module                  purpose
======================  ==================================================================================
``neighbors.samples``   K samples of s labeled items (Section 4.1); candidate K and s (Appendix A.7)
``neighbors``           nearest item of each sample, by L∞
``success_estimator``   probability that each classifier is correct (Algorithm 1, lines 1 to 6)
``learned``             the same probability by regressions (not in the paper)
``tuning``              samples, sigma, and λ, chosen on validation rows (Section 4.2)
``knapsack``            assignment of a batch within a budget (Equation 4), and max-min (Section 6)
``constrained``         assignment within several limits; ``assignment_limits``: limits of a request
``shadow_prices``       dual prices over budgets, for one query at a time; ``pacing``: streams of queries
``cost_regression``     expected costs by embedding; ``query_costs``: costs by size
``baselines``           baselines (Section 5.1; Appendix A.6); ``curve``: all methods on holdout rows
``routing_outcome``     accuracy and cost of a routing
``contents``, ``plan``  the stored arrays with their invariants, and the decisions; ``holdout_curve``: estimates
                        from holdout rows
======================  ==================================================================================
"""

from solvers.portfolio.fit import fit
from solvers.portfolio.kind import PortfolioKind
from solvers.portfolio.plan import PortfolioPlan

kind = PortfolioKind()

__all__ = ["PortfolioPlan", "fit", "kind"]
