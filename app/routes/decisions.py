"""What if: the same question to every active artifact of a name, the answers side by side."""

from collections.abc import Callable
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from pydantic import ValidationError

from app.catalog import Live
from app.decisions import decided
from app.routes.context import InContext, errors
from models import InvalidRequest, Value
from models.base import NAME_PATTERN
from models.decisions import DecisionsReply, SideBySide
from models.errors import ParsimonyError, UnknownArtifact

Limits = dict[str, float]
"""Of size, budget and deadline those that were given."""
Ask = tuple[frozenset[str], Callable[[Limits], Value | str]]
"""The limits that mean something to a subject, and what makes a query of them, or says why there can be none."""


def _number(description: str, example: float) -> Any:
    return Query(ge=0, le=1e12, allow_inf_nan=False, description=description, examples=[example])


def router_for(asks: dict[str, Ask]) -> APIRouter:
    """Make the route, given how each subject is asked."""
    router = APIRouter(prefix="/v1/decisions", tags=["what if"])

    @router.get("", summary="Every subject's decision, side by side", responses=errors(404, 503))
    async def decisions(
        context: InContext,
        name: Annotated[str, Query(pattern=NAME_PATTERN, description="the artifacts' name", examples=["digits"])],
        size: Annotated[float | None, _number("the item's size", 64.0)] = None,
        budget: Annotated[float | None, _number("what an item may cost, in each artifact's unit", 5.0)] = None,
        deadline: Annotated[float | None, _number("how long an answer may take, in each artifact's unit", 9.0)] = None,
    ) -> DecisionsReply:
        """Ask every active artifact of a name. What one cannot answer, it says why."""
        found = [live for (_, held), live in sorted(context.catalog.plans.items()) if held == name]
        if not found:
            context.catalog.refuse_unless_loaded()
            raise UnknownArtifact(f"there is no artifact called {name!r} of any solver")
        given = {"size": size, "budget": budget, "deadline": deadline}
        limits = {key: value for key, value in given.items() if value is not None}
        return DecisionsReply(items=tuple(_asked(live, asks[live.ref.solver], limits) for live in found))

    return router


def _asked(live: Live, ask: Ask, limits: Limits) -> SideBySide:
    known, make = ask
    decision, refusal = None, None
    try:
        query = make(limits)
        if isinstance(query, str):
            refusal = query
        else:
            decision = orjson.loads(decided(live, query))
            del decision["artifact"]
    except ValidationError as error:
        refusal = str(InvalidRequest.of(error))
    except ParsimonyError as error:
        refusal = str(error)
    ignored = tuple(name for name in limits if name not in known)
    return SideBySide(artifact=live.ref, unit=live.record.unit, decision=decision, ignored=ignored, refusal=refusal)
