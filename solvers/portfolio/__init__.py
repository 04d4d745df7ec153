"""The portfolio: which classifier for each query of a batch, or for a single one, within a budget (OCCAM).

Ding, Xu, Lakshmanan, *OCCAM* (ICLR 2025). ``solver`` builds a plan from a trace with embeddings.

======================  ==================================================================================
module                  what of the paper
======================  ==================================================================================
``neighbours.samples``  K samples of s labelled items (Section 4.1); which K and s to try (Appendix A.7)
``neighbours``          the nearest item of each sample: L∞ by ``linf``, L1 and L2 by ``l1_l2``
``success_estimator``   how likely each classifier is right (Algorithm 1, lines 1 to 6)
``tuning``              samples, sigma and λ, chosen on the validation part (Section 4.2)
``knapsack``            the programme (Equation 4), and the least estimate (Section 6)
``constrained``         the programme within several limits at once; ``limits``: those of a request
``shadow_prices``       the dual over budgets, for one query at a time; ``pacing`` for streams of them
``baselines``           what it is compared with (Section 5.1; Appendix A.6), on the ``curve``
``routing_outcome``     what became of a routing
``contents``            what a plan keeps, and what its arrays promise each other; ``held_out_curve`` what they
                        tell of budgets; ``plan`` how it answers
======================  ==================================================================================
"""

from models import Trace
from models.portfolio import PortfolioOptions, RouteQuery
from solvers.base import Solver
from solvers.portfolio.estimates import classifiers, estimates, is_of_many, judged_on
from solvers.portfolio.fit import check, fit
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.trade_offs import trade_offs

solver = Solver(
    name="portfolio",
    datasets=(Trace,),
    options=PortfolioOptions,
    query=RouteQuery,
    plan=PortfolioPlan,
    fit=fit,
    estimates=estimates,
    judged_on=judged_on,
    is_of_many=is_of_many,
    classifiers=classifiers,
    check=check,
    trade_offs=trade_offs,
)

__all__ = ["PortfolioPlan", "fit", "solver"]
