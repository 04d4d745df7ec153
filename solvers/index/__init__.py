"""Budgeted feature selection: the most accurate feature set for an item's size and budget.

Source: *Indexing Cost Sensitive Prediction*, cited as "the paper". ``kind`` fits a plan to a feature table.

======================  ===================================================================================
module                  purpose
======================  ===================================================================================
``costs``               cost functions of features and feature sets (Equation 1), fitted to timings
``lattice``             which sets to train: Algorithm 2, Properties 3.3, 3.4, 3.9, 3.11
``dominance``           whether one cost curve is never above another (Definition 3.1)
``candidates``          which sets to keep: Algorithm 1, Properties 3.6 and 3.7
``crossings``           the index over sizes: Algorithm 3, Lemma 3.12, Theorem 3.13; Problem 3
``greedy``              greedy feature sequences: Algorithm 4
``cells``               numerical encoding of categories and missing cells (not in the paper)
``preselection``        feature selection for tables of more than 20 features (not in the paper)
``selection_bias``      optimism of choosing among many sets (not in the paper)
``size_curves``         accuracy as a function of size (not in the paper)
``training``            parallel, cached training of feature sets by ``solvers.learners``
``contents``, ``plan``  the stored arrays with their invariants, and the decisions
``curves``              cost curves, crossings, and a map of decisions for charts
``baselines``           Naive-Expand-All and Poly-Dom-Index-All
======================  ===================================================================================
"""

from solvers.index.candidates import choose_candidates
from solvers.index.crossings import build_index
from solvers.index.curves import sample_cost_curves
from solvers.index.fit import fit
from solvers.index.kind import IndexKind
from solvers.index.lattice import ExpandedSets, expand_lattice
from solvers.index.plan import IndexPlan

kind = IndexKind()

__all__ = [
    "ExpandedSets",
    "IndexPlan",
    "build_index",
    "choose_candidates",
    "expand_lattice",
    "fit",
    "kind",
    "sample_cost_curves",
]
