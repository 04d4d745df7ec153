"""Routes that compare two versions of an artifact, as JSON or as a printable page.

There is one route per kind, with its limits.
"""

import asyncio
from typing import Annotated, Any

from fastapi import Query, Request

from app.http.json_bodies import JsonRouter, negotiate_media_type
from app.routes.dependencies import (
    AppContext,
    InContext,
    error_responses,
    get_loaded_artifact,
    path_name,
    run_in_solver,
)
from app.routes.diff_page import render_diff
from app.routes.kinds import make_model_runner
from app.routes.logged_source import On, Since, Until, load_rows
from app.routes.query_parameters import declare_parameters, from_parameters, make_kinds_router
from app.serving.version_diff import compare_versions
from models import Fault, InvalidRequest, Value
from models.recording import TimeRange
from models.version_diff import VersionDiff
from solvers import AnyKind
from solvers.kind import make_query

HTML = "text/html"


def _version(description: str, alias: str, example: int) -> Any:
    return Query(ge=1, alias=alias, description=description, examples=[example])


def _add_diff(router: JsonRouter, kind: AnyKind) -> None:
    async def diff_versions(
        name: Any,
        request: Request,
        context: Any,
        before: Any,
        after: Any,
        on: Any,
        since: Any,
        until: Any,
        **given: Any,
    ) -> Any:
        """Return the differences between two versions, for review before activation.

        The reply has the limits, decisions, and parameters that differ, and the expected outcomes of both builds.
        Without limits in the query, each version has its default limits. With `on`, both versions decide logged rows.
        The reply then has the use of each classifier, cost and accuracy with intervals, and rows with different
        decisions. With `Accept: text/html`, the reply is a page to print.
        """
        times = make_query(TimeRange, since=since, until=until)
        if on is None and times != TimeRange():
            raise InvalidRequest.from_faults(Fault(("since",), "requires on, the recording"))
        limits, rows = from_parameters(kind.limits, given), None if on is None else (on, times)
        found = await _compare(context, kind, name, (before, after), limits, rows)
        return render_diff(found) if negotiate_media_type(request, HTML) == HTML else found

    required = {
        "name": Annotated[str, path_name(kind.example)],
        "request": Request,
        "context": InContext,
        "before": Annotated[int, _version("the first version", "from", 1)],
        "after": Annotated[int, _version("the second version", "to", 2)],
    }
    declare_parameters(diff_versions, required, {"on": On | None, "since": Since, "until": Until}, kind.limits)
    router.get(
        f"/{kind.name}/{{name}}/diff",
        summary="Compare two versions",
        operation_id=f"diff_versions_of_{kind.name}",
        response_model=VersionDiff,
        responses={
            200: {"content": {HTML: {"schema": {"type": "string"}}}, "description": "the differences"},
            **error_responses(404, 409, 503, 504),
        },
    )(diff_versions)


async def _compare(
    context: AppContext,
    kind: AnyKind,
    name: str,
    versions: tuple[int, int],
    limits: Value,
    rows: tuple[str, TimeRange] | None,
) -> VersionDiff:
    active = await get_loaded_artifact(context, kind, name, None)
    before, after = [await get_loaded_artifact(context, kind, name, version) for version in versions]
    logged = None if rows is None else await asyncio.to_thread(load_rows, context, *rows, (before, after))
    return await run_in_solver(
        context, compare_versions, before, after, active.ref.version, limits, logged, make_model_runner(context)
    )


router = make_kinds_router(_add_diff)
