"""The pipeline: stages of features, early exits and a reject option, chosen among all configurations or by evolution.

Hamilton, Fulp, *Evolutionary Optimization of High-Coverage Budgeted Classifiers* (EMSCO).

=================  =====================================================================================
module             what of the paper
=================  =====================================================================================
``chromosomes``    ordered feature-set partitions (Sections 2.1, 3.1, Equations 1 and 2)
``bank``           what the classifier of each feature set says, trained once; ``bits`` rows as bit sets
``objectives``     conclusiveness, conclusive accuracy, cost (Equations 3 to 5); ``prices`` exact sums
``enumerate``      the exact front of Section 4.3; ``chains`` the compiled walk and its bounds
``operators``      selection, recombination, mutation (Section 3.2, Algorithms 1 and 2, Equation 7)
``emsco``          generations, rank and fitness, halting (Algorithm 3, Equations 8 and 9)
``sweep``          parameters for a data set (Section 4.1)
``preparation``    columns as numbers; ``logistic`` many regressions at once; ``training`` any learner
``judge``          by what configurations are judged; ``ready`` a table; ``search`` the front
``plan``           what is kept, and how it answers; ``items`` read; ``checks`` what its arrays promise
=================  =====================================================================================
"""

from models import FeatureTable
from models.pipeline import PipelineOptions, PipelineQuery
from solvers.base import Solver
from solvers.pipeline.expected import estimates, judged_on
from solvers.pipeline.fit import check, fit
from solvers.pipeline.plan import PipelinePlan

solver = Solver(
    name="pipeline",
    datasets=(FeatureTable,),
    options=PipelineOptions,
    query=PipelineQuery,
    plan=PipelinePlan,
    fit=fit,
    estimates=estimates,
    judged_on=judged_on,
    check=check,
)

__all__ = ["PipelinePlan", "fit", "solver"]
