"""Route that compares two versions of an artifact, as JSON or as a page to print."""

import asyncio
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from app.http.json_bodies import JsonRouter, accepted_type
from app.routes.artifacts import KindName
from app.routes.dependencies import Context, InContext, PathName, error_responses, needs_store, plan_of, run_in_solver
from app.routes.diff_page import render_diff
from app.routes.kinds import models_of
from app.routes.logged_source import On, Since, Until, load_rows
from app.serving.version_diff import compare_versions
from models.errors import Fault, InvalidRequest, UnknownArtifact
from models.recording import TimeRange
from models.version_diff import VersionDiff
from solvers import KINDS
from solvers.kind import make_query

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
    on: On | None = None,
    since: Since = None,
    until: Until = None,
) -> Any:
    """Return the differences between two versions, for a person who must approve the second one.

    The reply has the limits, decisions, and parameters that differ, and the expected outcomes of both builds. With
    `on`, both versions decide logged rows at their default limits. The reply then has the use of each classifier, cost
    and accuracy with intervals, and rows with different decisions. `Accept: text/html` returns a page to print.
    """
    times = make_query(TimeRange, since=since, until=until)
    if on is None and times != TimeRange():
        raise InvalidRequest.from_faults(Fault(("since",), "requires on, the recording"))
    found = await _compare(context, kind, name, (before, after), None if on is None else (on, times))
    if accepted_type(request, HTML) != HTML:
        return found
    return render_diff(found)


async def _compare(
    context: Context, kind: str, name: str, versions: tuple[int, int], on: tuple[str, TimeRange] | None
) -> VersionDiff:
    if kind not in KINDS:
        raise UnknownArtifact(f"artifact kind {kind!r} not found; available: {', '.join(KINDS)}")
    active = await plan_of(context, KINDS[kind], name, None)
    before, after = [await plan_of(context, KINDS[kind], name, version) for version in versions]
    logged = None if on is None else await asyncio.to_thread(load_rows, context, *on, (before, after))
    return await run_in_solver(context, compare_versions, before, after, active.ref.version, logged, models_of(context))
