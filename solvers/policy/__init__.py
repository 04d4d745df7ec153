"""Acquisition DAG (budgeted feature acquisition).

Depending on the acquired readings, a policy acquires the next sensor or stops.

A sensor is a feature or a classifier. ``kind`` fits a plan to a feature table, or to a trace whose classifiers are
acquired one by one.

=======================  =====================================================================================
module                   contents
=======================  =====================================================================================
``graph``                DAG of acquired sets, step costs (Section 2, Equation 5)
``sensors``              readings and costs of sensors (Equation 10) as one numeric table; ``solvers.cell_encoding``
                         encodes categories and missing cells
``embedding_axes``       (ours) projection of an item's embedding, known before any acquisition; ``quality_axes``
                         for answers without classes
``node_classifiers``     one classifier per set: boosted trees
``classifier_training``  training of these classifiers
``trees``                (in ``solvers``) gradient boosting of oblivious trees
``class_calibration``    (ours) calibration of these classifiers per class, if errors have unequal losses
``losses``               losses of stopping (Equations 1 and 10)
``graph_reduce``         graph reduce (Algorithm 1, Lemma 2.1)
``node_features``        inputs of a node's policy; ``node_policies`` the learned policies
``regression``           training of a node's policy: advantages by boosted trees
``classless``            (ours) selection among answers without classes; ``baseline_points`` points that are not learned
``growth``               (ours) DAG grown with many sensors, by ``sensor_gains``; ``graph_pruning`` drops unused
                         edges; ``states`` grown or enumerated
``learned_limits``       (ours) budgets and deadlines that no item exceeds; ``sensor_times`` maximum times of sets,
                         ``item_limits`` actions that limits bar
``rollout``              rollout of items through the DAG (Equation 6)
``traffic``              number of items per edge and node, counted on validation rows
``tradeoff_spread``      trade-offs that the policy is learned for
``budget_mixture``       (in ``solvers``) trade-off curve, and mixtures of points that spend a budget
``contents``             fields of a plan, ``plan_invariants`` checks them; ``points`` operating points,
                         ``plan`` decisions
``fit``                  all steps in order; ``learning`` policies of nodes, ``assemble`` the stored plan
=======================  =====================================================================================

Source: Wang, Trapeznikov, Saligrama, *Efficient Learning by Directed Acyclic Graph for Resource Constrained Prediction*
(NeurIPS 2015).
"""

from solvers.policy.fit import fit
from solvers.policy.kind import PolicyKind
from solvers.policy.plan import PolicyPlan
from solvers.policy.traffic import compute_traffic

kind = PolicyKind()

__all__ = ["PolicyPlan", "compute_traffic", "fit", "kind"]
