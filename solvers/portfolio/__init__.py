"""The portfolio: which classifier for each query of a batch, or for a single one, within a budget (OCCAM).

Ding, Xu, Lakshmanan, *OCCAM* (ICLR 2025). ``kind`` builds a plan from a trace with embeddings.

======================  ==================================================================================
module                  what of the paper
======================  ==================================================================================
``neighbours.samples``  K samples of s labelled items (Section 4.1); which K and s to try (Appendix A.7)
``neighbours``          the nearest item of each sample, by L∞
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

from solvers.portfolio.fit import fit
from solvers.portfolio.kind import PortfolioKind
from solvers.portfolio.plan import PortfolioPlan

kind = PortfolioKind()

__all__ = ["PortfolioPlan", "fit", "kind"]
