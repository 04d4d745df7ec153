"""Route of policies: the traffic through the DAG."""

from typing import Annotated

from fastapi import Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    InContext,
    Version,
    budget_field,
    error_responses,
    get_loaded_artifact,
    path_name,
    query_field,
    run_in_solver,
)
from app.routes.kind_routes import KindRoutes
from app.serving.decision_replies import encode_decision_reply, with_default_limits
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
    summary="Show the decision graph with the number of items on each edge",
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
    """Return the number of items that reach, leave, or stop at each set of sensors.

    The trade-off or the budget selects the operating point; without both, it is the default one. The items are those on
    which the policy was validated. For a budget between two points of the curve, the reply is the expected traffic of
    their mixture. Versions that were built before traffic was counted return 409.
    """
    loaded = await get_loaded_artifact(context, policy.kind, name, version)
    target = make_query(PolicyTarget, tradeoff=tradeoff, budget=budget, min_accuracy=min_accuracy)
    target = with_default_limits(loaded, target)
    flow = await run_in_solver(context, compute_traffic, loaded.plan, loaded.record.summary, target)
    reply = TrafficReply(**dict(flow), unit=loaded.plan.unit, artifact=loaded.ref)
    return Response(encode_decision_reply(reply, loaded), media_type="application/json")


routes = KindRoutes(router)
