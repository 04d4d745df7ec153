"""Route that compares two versions of an artifact, as JSON or as a page to print."""

import asyncio
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from app.http.json_bodies import JsonRouter, accepted_type
from app.routes.artifacts import KindName
from app.routes.dependencies import Context, InContext, PathName, error_responses, needs_store, plan_of, run_in_solver
from app.routes.diff_page import render_diff
from app.routes.kinds import models_of
from app.serving.logged_rows import load_logged_rows
from app.serving.version_diff import compare_versions
from models.base import NAME_PATTERN
from models.errors import UnknownArtifact
from models.version_diff import VersionDiff
from solvers import KINDS

router = JsonRouter(prefix="/v1/artifacts", tags=["artifacts"], dependencies=[Depends(needs_store)])
HTML = "text/html"


def _version(description: str, alias: str, example: int) -> Any:
    return Query(ge=1, alias=alias, description=description, examples=[example])


@router.get(
    "/{kind}/{name}/diff",
    summary="Compare two versions",
    response_model=VersionDiff,
    responses={
        200: {"content": {HTML: {"schema": {"type": "string"}}}, "description": "the differences"},
        **error_responses(404, 409, 503, 504),
    },
)
async def diff_versions(
    kind: KindName,
    name: PathName,
    request: Request,
    context: InContext,
    before: Annotated[int, _version("the first version", "from", 1)],
    after: Annotated[int, _version("the second version", "to", 2)],
    on: Annotated[
        str | None,
        Query(pattern=NAME_PATTERN, description="dataset whose rows both versions decide", examples=["digits"]),
    ] = None,
) -> Any:
    """Return the differences between two versions, for a person who must approve the second one.

    The reply has the limits, decisions, and parameters that differ, and the expected outcomes of both builds. With
    `on`, both versions decide logged rows at their default limits. The reply then has the use of each classifier, cost
    and accuracy with intervals, and rows with different decisions. `Accept: text/html` returns a page to print.
    """
    found = await _compare(context, kind, name, (before, after), on)
    if accepted_type(request, HTML) != HTML:
        return found
    return render_diff(found)


async def _compare(context: Context, kind: str, name: str, versions: tuple[int, int], on: str | None) -> VersionDiff:
    if kind not in KINDS:
        raise UnknownArtifact(f"artifact kind {kind!r} not found; available: {', '.join(KINDS)}")
    active = await plan_of(context, KINDS[kind], name, None)
    before, after = [await plan_of(context, KINDS[kind], name, version) for version in versions]
    rows = None if on is None else await asyncio.to_thread(load_logged_rows, context.repos, on, before, after)
    logged = None if on is None or rows is None else (on, rows)
    return await run_in_solver(context, compare_versions, before, after, active.ref.version, logged, models_of(context))
