"""What only policies have: the traffic through the DAG."""

from typing import Annotated

from fastapi import Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    InContext,
    Version,
    budget_field,
    error_responses,
    path_name,
    plan_of,
    query_field,
    run_in_solver,
)
from app.routes.kind_routes import KindRoutes
from app.serving.answers import encode, with_default_limits
from models.limits import Budget
from models.policy import PolicyTarget
from models.policy_curves import TrafficReply
from solvers import policy
from solvers.kind import make_query
from solvers.policy import compute_traffic

router = JsonRouter()
PolicyName = Annotated[str, path_name("digits")]


@router.get(
    "/{name}/traffic",
    summary="The DAG, and how many items take which way",
    response_model=TrafficReply,
    responses=error_responses(404, 409, 503, 504),
)
async def show_traffic(
    name: PolicyName,
    context: InContext,
    tradeoff: Annotated[float | None, query_field(PolicyTarget, "tradeoff")] = None,
    budget: Annotated[Budget | None, budget_field(PolicyTarget)] = None,
    min_accuracy: Annotated[float | None, query_field(PolicyTarget, "min_accuracy")] = None,
    version: Version = None,
) -> Response:
    """Return for a trade-off, or a budget, how many items reach each set of sensors, stop there, or continue; with
    neither, for the artifact's headline.

    Counted on the items that the policy was validated on. A budget between two points of the curve mixes them; the
    traffic is that of the mixture, in expectation. A version that was built before traffic was counted answers 409.
    """
    loaded = await plan_of(context, policy.kind, name, version)
    target = make_query(PolicyTarget, tradeoff=tradeoff, budget=budget, min_accuracy=min_accuracy)
    target = with_default_limits(loaded, target)
    flow = await run_in_solver(context, compute_traffic, loaded.plan, loaded.record.summary, target)
    reply = TrafficReply(**dict(flow), unit=loaded.plan.unit, artifact=loaded.ref)
    return Response(encode(reply, loaded), media_type="application/json")


routes = KindRoutes(router)
