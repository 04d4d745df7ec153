"""IDK cascades: in which order to call classifiers so that the expected time is least within a deadline.

Baruah, Burns, Davis, Wu: *Optimally ordering IDK classifiers subject to deadlines* (Real-Time Systems, the extended
version of RTNS 2021), cited as "the paper". ``solve`` orders given classifiers; ``kind`` builds a plan from a trace.

======================  ======================  ====================================================================
module                  algorithms              for
======================  ======================  ====================================================================
``ratio_order``         ratio-order, -frontier  independent classifiers: Algorithms 1 and 4
``power_order``         power-order, -frontier  fully dependent classifiers: Algorithms 2 and 5
``groups.states``       group-states            independent groups of dependent ones: Algorithm 3's answers
``groups.labels``       group-states, -beam     the same with deadlines, and with more states than can be enumerated
``groups.lower_bound``                          the lower bound that group-beam proves
``subset_search``       set-states              arbitrary dependence, counted in a trace
``frontier``            frontier                cost, error and worst-case time together; goes beyond the paper
======================  ======================  ====================================================================
"""

from solvers.cascade.fit import fit
from solvers.cascade.kind import CascadeKind
from solvers.cascade.plan import CascadePlan
from solvers.cascade.solve import solve

kind = CascadeKind()

__all__ = ["CascadePlan", "fit", "kind", "solve"]
