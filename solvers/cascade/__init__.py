"""IDK cascades: in which order to call classifiers so that the expected time is least within a deadline.

Baruah, Burns, Davis, Wu: *Optimally ordering IDK classifiers subject to deadlines* (Real-Time Systems, the extended
version of RTNS 2021), cited as "the paper". ``solve`` orders given classifiers; ``solver`` builds a plan from a trace.

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

from models import Trace
from models.cascade import CascadeOptions, CascadeQuery
from solvers.base import Solver
from solvers.cascade.estimates import classifiers, estimates, judged_on
from solvers.cascade.fit import check, fit
from solvers.cascade.plan import CascadePlan
from solvers.cascade.solve import solve
from solvers.cascade.trade_offs import trade_offs

solver = Solver(
    name="cascade",
    datasets=(Trace,),
    options=CascadeOptions,
    query=CascadeQuery,
    plan=CascadePlan,
    fit=fit,
    estimates=estimates,
    judged_on=judged_on,
    classifiers=classifiers,
    check=check,
    trade_offs=trade_offs,
)

__all__ = ["CascadePlan", "fit", "solve", "solver"]
