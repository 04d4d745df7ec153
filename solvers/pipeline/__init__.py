"""Budgeted classification in stages of features, with early exits and a reject option.

Configurations are found by exhaustive search or by an evolutionary algorithm. Source:
Hamilton, Fulp, *Evolutionary Optimization of High-Coverage Budgeted Classifiers* (EMSCO).

=====================  ===============================================================================================
module                 contents
=====================  ===============================================================================================
``configurations``     ordered feature-set partitions (Sections 2.1, 3.1, Equations 1 and 2)
``answer_cache``       cached predictions of the classifier of each feature set; ``bit_packing`` rows as bit sets
``objectives``         conclusiveness, conclusive accuracy, cost (Equations 3 to 5); ``unit_costs`` exact sums
``exact_front``        exact Pareto front (Section 4.3); ``exact_front_search`` its loop, ``_kernel`` its compiled part
``operators``          selection, recombination, mutation (Section 3.2, Algorithms 1 and 2, Equation 7)
``emsco``              generations, rank and fitness, halting (Algorithm 3, Equations 8 and 9)
``forward_selection``  (ours) features in the order of forward selection, cut into stages
``fewer_features``     (ours) configurations without some features
``front``              choice of the search, and its result
``prepared_data``      split and prepared table, learner
``classifiers``        training of the classifiers of feature sets
``contents``           fields of a plan and their validation; ``plan`` decisions, ``items`` parsing of items
=====================  ===============================================================================================
"""

from solvers.pipeline.fit import fit
from solvers.pipeline.kind import PipelineKind
from solvers.pipeline.plan import PipelinePlan

kind = PipelineKind()

__all__ = ["PipelinePlan", "fit", "kind"]
