"""Routes that evaluate a version on logged rows.

There is one route per kind, with the kind's limits as query parameters.
"""

import asyncio
from typing import Annotated, Any

from fastapi import Path

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    AppContext,
    InContext,
    error_responses,
    get_loaded_artifact,
    path_name,
    run_in_solver,
)
from app.routes.kinds import make_model_runner
from app.routes.logged_source import On, Since, Until, load_rows
from app.routes.query_parameters import declare_parameters, from_parameters, make_kinds_router
from app.serving.version_evaluation import evaluate_version
from models.recording import TimeRange
from models.version_evaluation import VersionEvaluation
from solvers import AnyKind
from solvers.kind import make_query

Version = Annotated[int, Path(ge=1, description="the version", examples=[1])]


def _add_evaluation(router: JsonRouter, kind: AnyKind) -> None:
    async def evaluation(
        name: Any, version: Any, on: Any, since: Any, until: Any, context: Any, **given: Any
    ) -> VersionEvaluation:
        """Estimate accuracy, cost, and loss of a version on logged rows.

        The version is compared with other decision rules. Rows need not have calls of all classifiers. Figures are
        replayed if each row has all calls that the version makes; otherwise they are doubly robust estimates. The reply
        is 409 with `overlap` if too few rows support the version. It is 422 if this version or the active one was built
        from these rows. `on` may be a recording: its rows on this server's disk are evaluated like a dataset, which is
        not stored.
        """
        times = make_query(TimeRange, since=since, until=until)
        return await _evaluated(kind, name, version, (on, times), context, given)

    required = {"name": Annotated[str, path_name(kind.example)], "version": Version, "on": On, "context": InContext}
    declare_parameters(evaluation, required, {"since": Since, "until": Until}, kind.limits)
    router.get(
        f"/{kind.name}/{{name}}/versions/{{version}}/evaluation",
        summary="Evaluate a version on logged rows",
        operation_id=f"evaluate_version_of_{kind.name}",
        response_model=VersionEvaluation,
        responses=error_responses(404, 409, 503, 504),
    )(evaluation)


async def _evaluated(
    kind: AnyKind, name: str, version: int, rows: tuple[str, TimeRange], context: AppContext, given: dict[str, Any]
) -> VersionEvaluation:
    active = await get_loaded_artifact(context, kind, name, None)
    loaded = await get_loaded_artifact(context, kind, name, version)
    source, dataset = await asyncio.to_thread(load_rows, context, *rows, (loaded, active))
    limits = from_parameters(kind.limits, given)
    return await run_in_solver(
        context, evaluate_version, loaded, active, limits, source, dataset, make_model_runner(context)
    )


router = make_kinds_router(_add_evaluation)
