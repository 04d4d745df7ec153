"""Cost-sensitive prediction: which feature set, and model, for an item of this size within this budget.

*Indexing Cost Sensitive Prediction*, cited as "the paper". ``kind`` builds a plan from a table of features.

==============  ==================================================================================
module          what of the paper
==============  ==================================================================================
``costs``       cost functions of features and sets (Equation 1), fitted from timings
``lattice``     which sets to train: Algorithm 2, Properties 3.3, 3.4, 3.9, 3.11
``dominance``   whether one cost curve is never above another (Definition 3.1)
``candidates``  which sets to keep: Algorithm 1, Properties 3.6 and 3.7
``crossings``   the index over sizes: Algorithm 3, Lemma 3.12, Theorem 3.13; Problem 3
``greedy``      sequences of features, built and looked up: Algorithm 4
``cells``       (ours) categories and missing cells as numbers
``training``    feature sets trained in parallel and once, by ``solvers.learners``
``contents``    what a plan keeps, and what its arrays promise each other; ``plan`` how it answers
``curves``      what it looks like over sizes and budgets
``baselines``   Naive-Expand-All and Poly-Dom-Index-All
==============  ==================================================================================
"""

from solvers.index.candidates import choose_candidates
from solvers.index.crossings import build_index
from solvers.index.curves import draw
from solvers.index.fit import fit
from solvers.index.kind import IndexKind
from solvers.index.lattice import Expanded, expand
from solvers.index.plan import IndexPlan

kind = IndexKind()

__all__ = ["Expanded", "IndexPlan", "build_index", "choose_candidates", "draw", "expand", "fit", "kind"]
