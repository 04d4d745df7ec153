"""Route that compares the decisions of all artifacts with the same name."""

from typing import Annotated, Any

import orjson
from fastapi import Query

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import InContext, budget_field, error_responses
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import decide_to_json
from models.base import NAME_PATTERN
from models.decision_comparison import ComparedDecision, DecisionsReply
from models.errors import ParsimonyError, UnknownArtifact
from models.limits import Budget, HasBudget
from solvers import KINDS
from solvers.base import Plan
from solvers.kind import make_query

router = JsonRouter(prefix="/v1/decisions", tags=["what if"])


def _number(description: str, example: float) -> Any:
    return Query(ge=0, le=1e12, allow_inf_nan=False, description=description, examples=[example])


@router.get("", summary="Compare the decisions of all kinds", responses=error_responses(404, 503))
async def compare_decisions(
    context: InContext,
    name: Annotated[str, Query(pattern=NAME_PATTERN, description="the artifacts' name", examples=["digits"])],
    size: Annotated[float | None, _number("the item's size", 64.0)] = None,
    budget: Annotated[Budget | None, budget_field(HasBudget)] = None,
    max_item_cost: Annotated[float | None, _number("hard limit on the cost of each item", 9.0)] = None,
    deadline: Annotated[
        float | None,
        _number("hard limit on the time of each item, in each artifact's unit or the unit of a policy's times", 9.0),
    ] = None,
    min_accuracy: Annotated[
        float | None,
        Query(ge=0, le=1, allow_inf_nan=False, description="lower bound on accuracy, from 0 to 1", examples=[0.9]),
    ] = None,
) -> DecisionsReply:
    """Return the decision of each active artifact with a name, or its ``refusal``."""
    plans = context.catalog.plans
    lives = [plans[kind, name] for kind in sorted(KINDS) if (kind, name) in plans]
    if not lives:
        context.catalog.require_loaded()
        raise UnknownArtifact(f"artifact {name!r} not found in any kind")
    given = {
        "size": size,
        "budget": budget,
        "max_item_cost": max_item_cost,
        "deadline": deadline,
        "min_accuracy": min_accuracy,
    }
    limits = {key: value for key, value in given.items() if value is not None}
    failing = context.caller.open_circuits()
    return DecisionsReply(items=tuple(_asked(loaded, limits, failing) for loaded in lives))


def _asked(
    loaded: LoadedArtifact[Plan], limits: dict[str, float | str], open_circuits: frozenset[str]
) -> ComparedDecision:
    decision, refusal = None, None
    meant = loaded.kind.query.model_fields.keys() - loaded.kind.unsupported_limits(loaded.plan)
    ignored = tuple(name for name in limits if name not in meant)
    try:
        query = make_query(loaded.kind.query, **{name: limits[name] for name in limits if name not in ignored})
        decision = orjson.loads(decide_to_json(loaded, query, open_circuits))
        del decision["artifact"]
    except ParsimonyError as error:
        refusal = str(error)
    return ComparedDecision(
        artifact=loaded.ref,
        unit=loaded.record.unit,
        decision=decision,
        savings=loaded.record.savings,
        ignored=ignored,
        refusal=refusal,
    )
