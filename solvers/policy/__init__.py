"""The policy: which sensor next, or stop, given what is known of an item (acquisition DAG).

Wang, Trapeznikov, Saligrama, *Efficient Learning by Directed Acyclic Graph for Resource Constrained Prediction*
(NeurIPS 2015). ``kind`` builds a plan from a table of features, or from a trace whose classifiers are
bought one by one.

=======================  =====================================================================================
module                   what of the paper
=======================  =====================================================================================
``graph``                the DAG of acquired sets, step costs (Section 2, Equation 5)
``sensors``              what sensors tell, and cost (Equation 10), as one table of numbers; ``cell_encoding``, beside
                         this package, of categories and missing cells
``embedding_axes``       (ours) what an item's embedding tells before anything is acquired; ``quality_axes`` of answers
                         without classes
``node_classifiers``     one classifier for each set, of ``piecewise_basis`` functions and trees
``classifier_training``  how they are trained
``solvers.trees``        (beside this package) gradient boosting of oblivious trees
``losses``               the losses of stopping (Equations 1 and 10)
``graph_reduce``         graph reduce (Algorithm 1, Lemma 2.1)
``node_features``        what a node decides by; ``node_policies`` what it learned
``regression``           how nodes learn to decide: advantages by boosted trees
``classless``            (ours) answers without classes, of which one is taken; ``fixed_points`` beside the learned ones
``growth``               (ours) a DAG of the sets that are worth coming to, by ``growth_scores``; ``travelled`` what
                         of it is kept; ``states`` grown or enumerated
``hard_budgets``         (ours) budgets and deadlines that no item exceeds; ``sensor_times`` what sets of sensors take,
                         ``item_limits`` what a plan bars
``rollout``              items walking through the DAG (Equation 6)
``traffic``              how many items take which way, counted on validation
``tradeoff_spread``      the trade-offs that a policy is learned for
``budget_mixture``       (beside this package) the trade-off curve, and the mixtures that spend a budget
``contents``             what a plan keeps, and what its arrays promise each other; ``points`` which of them a query
                         asks for, ``plan`` how it answers
``fit``                  all of it in order; ``learning`` the nodes' policies, ``assemble`` the plan that is kept
=======================  =====================================================================================
"""

from solvers.policy.fit import fit
from solvers.policy.kind import PolicyKind
from solvers.policy.plan import PolicyPlan
from solvers.policy.traffic import traffic

kind = PolicyKind()

__all__ = ["PolicyPlan", "fit", "kind", "traffic"]
