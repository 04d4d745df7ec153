"""The portfolio: which classifier for each query of a batch, or for a single one, within a budget (OCCAM).

Ding, Xu, Lakshmanan, *OCCAM* (ICLR 2025). ``solver`` builds a plan from a trace with embeddings.

=================  =====================================================================================
module             what of the paper
=================  =====================================================================================
``samples``        K samples of s labelled items (Section 4.1); which K and s to try (Appendix A.7)
``neighbours``     the nearest item of each sample: L∞ by ``chebyshev``, L1 and L2 by ``sums``
``estimate``       how likely each classifier is right (Algorithm 1, lines 1 to 6)
``tune``           samples, sigma and λ, chosen on the validation part (Section 4.2)
``knapsack``       the programme (Equation 4): ``programme``, ``dual``, ``core``, ``states``, ``search``,
                   ``exact``, and ``threshold`` for the least estimate (Section 6)
``prices``         the dual over budgets, for one query at a time; ``pacing`` for streams of them
``baselines``      what it is compared with (Section 5.1), on the ``curve``; ``outcome`` of a routing
``pareto``         classifiers that another one beats (Appendix A.6)
``plan``           what is kept, and how it answers; ``checks`` what its arrays promise each other
=================  =====================================================================================
"""

from models import Trace
from models.portfolio import PortfolioOptions, RouteQuery
from solvers.base import Solver
from solvers.portfolio.expected import classifiers, estimates, judged_on
from solvers.portfolio.fit import check, fit
from solvers.portfolio.plan import PortfolioPlan

solver = Solver(
    name="portfolio",
    datasets=(Trace,),
    options=PortfolioOptions,
    query=RouteQuery,
    plan=PortfolioPlan,
    fit=fit,
    estimates=estimates,
    judged_on=judged_on,
    classifiers=classifiers,
    check=check,
)

__all__ = ["PortfolioPlan", "fit", "solver"]
