"""IDK classifier cascades: order classifiers for the least expected duration within a deadline.

A classifier either answers or returns IDK ("I don't know"). After an IDK, the next classifier is called. ``solve``
orders given classifiers; ``kind`` fits a plan to a trace.

======================  ======================  ====================================================================
module                  algorithms              scope
======================  ======================  ====================================================================
``order_independent``         ratio-order, -frontier  independent classifiers: Algorithms 1 and 4
``order_dependent``         power-order, -frontier  fully dependent classifiers: Algorithms 2 and 5
``groups.states``       group-states            independent groups of dependent classifiers: results of Algorithm 3
``groups.labels``       group-states, -beam     the same with deadlines, or with too many states to enumerate
``groups.lower_bound``                          lower bound of group-beam
``subset_search``       set-states              arbitrary dependence, counted in a trace
``frontier``            frontier                trade-off of cost, error, and worst-case time; not in the paper
======================  ======================  ====================================================================

Source: Baruah, Burns, Davis, Wu, *Optimally ordering IDK classifiers subject to deadlines* (Real-Time Systems, extended
version of RTNS 2021), cited as "the paper".
"""

from solvers.cascade.fit import fit
from solvers.cascade.kind import CascadeKind
from solvers.cascade.plan import CascadePlan
from solvers.cascade.solve import solve

kind = CascadeKind()

__all__ = ["CascadePlan", "fit", "kind", "solve"]
