"""What if: the same question to every active artifact of a name, the answers side by side."""

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from pydantic import ValidationError

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import InContext, errors
from app.routes.subject import Limits, Subject
from app.serving.answers import decided
from app.serving.catalog import Live
from models import InvalidRequest
from models.base import NAME_PATTERN
from models.errors import ParsimonyError, UnknownArtifact
from models.what_if import DecisionsReply, SideBySide
from solvers import KINDS


def _number(description: str, example: float) -> Any:
    return Query(ge=0, le=1e12, allow_inf_nan=False, description=description, examples=[example])


def router_for(subjects: Mapping[str, Subject]) -> APIRouter:
    """Make the route, given how each subject is asked."""
    router = JsonRouter(prefix="/v1/decisions", tags=["what if"])

    @router.get("", summary="Every subject's decision, side by side", responses=errors(404, 503))
    async def decisions(
        context: InContext,
        name: Annotated[str, Query(pattern=NAME_PATTERN, description="the artifacts' name", examples=["digits"])],
        size: Annotated[float | None, _number("the item's size", 64.0)] = None,
        budget: Annotated[float | None, _number("what an item may cost, in each artifact's unit", 5.0)] = None,
        deadline: Annotated[
            float | None,
            _number("how long an answer may take, in each artifact's unit, or in that of a policy's times", 9.0),
        ] = None,
        min_accuracy: Annotated[
            float | None,
            Query(ge=0, le=1, allow_inf_nan=False, description="how often it must be right", examples=[0.9]),
        ] = None,
    ) -> DecisionsReply:
        """Ask every active artifact of a name. What one cannot answer, it says why."""
        plans = context.catalog.plans
        lives = [plans[solver, name] for solver in sorted(KINDS) if (solver, name) in plans]
        if not lives:
            context.catalog.refuse_unless_loaded()
            raise UnknownArtifact(f"there is no artifact called {name!r} of any solver")
        given = {"size": size, "budget": budget, "deadline": deadline, "min_accuracy": min_accuracy}
        limits = {key: value for key, value in given.items() if value is not None}
        failing = context.caller.open_circuits()
        return DecisionsReply(items=tuple(_asked(live, subjects[live.ref.solver], limits, failing) for live in lives))

    return router


def _asked(live: Live[Any], subject: Subject, limits: Limits, open_circuits: frozenset[str]) -> SideBySide:
    decision, refusal = None, None
    meant = subject.limits - subject.senseless(live.plan)
    try:
        query = subject.what_if({name: value for name, value in limits.items() if name in meant})
        if isinstance(query, str):
            refusal = query
        else:
            decision = orjson.loads(decided(live, query, open_circuits))
            del decision["artifact"]
    except ValidationError as error:
        refusal = str(InvalidRequest.of(error))
    except ParsimonyError as error:
        refusal = str(error)
    ignored = tuple(name for name in limits if name not in meant)
    return SideBySide(
        artifact=live.ref,
        unit=live.record.unit,
        decision=decision,
        worth=live.record.worth,
        ignored=ignored,
        refusal=refusal,
    )
