"""The pipeline: stages of features, early exits and a reject option, chosen among all configurations or by evolution.

Hamilton, Fulp, *Evolutionary Optimization of High-Coverage Budgeted Classifiers* (EMSCO).

==================  =========================================================================================
module              what of the paper
==================  =========================================================================================
``configurations``  ordered feature-set partitions (Sections 2.1, 3.1, Equations 1 and 2)
``answer_bank``     what the classifier of each feature set says, trained once; ``bit_rows`` rows as bit sets
``objectives``      conclusiveness, conclusive accuracy, cost (Equations 3 to 5); ``unit_costs`` exact sums
``exact_front``     the exact front of Section 4.3; ``exact_front_search`` the loop, ``_kernel`` the walk
``operators``       selection, recombination, mutation (Section 3.2, Algorithms 1 and 2, Equation 7)
``emsco``           generations, rank and fitness, halting (Algorithm 3, Equations 8 and 9)
``chains``          (ours) features in order, cut into stages; ``fewer_features`` what is reached without some of them
``front``           which search to use, and what it found
``prepared_data``   a table cut into parts, its learner
``classifiers``     any learner's classifiers; ``batch_logistic`` many regressions at once
``contents``        what a plan keeps, and what its arrays promise; ``plan`` how it answers, ``items`` read
==================  =========================================================================================
"""

from solvers.pipeline.fit import fit
from solvers.pipeline.kind import PipelineKind
from solvers.pipeline.plan import PipelinePlan

kind = PipelineKind()

__all__ = ["PipelinePlan", "fit", "kind"]
