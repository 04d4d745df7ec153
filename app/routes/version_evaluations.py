"""Routes that evaluate a version on logged rows: one route per kind, with the kind's limits as query parameters."""

import asyncio
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Annotated, Any

from fastapi import Depends, Path

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    Context,
    InContext,
    error_responses,
    needs_store,
    path_name,
    plan_of,
    run_in_solver,
)
from app.routes.kinds import models_of
from app.routes.logged_source import On, Since, Until, load_rows
from app.routes.query_parameters import from_parameters, parameters_of
from app.serving.version_evaluation import evaluate_version
from models.recording import TimeRange
from models.version_evaluation import VersionEvaluation
from solvers import KINDS, AnyKind
from solvers.kind import make_query

Version = Annotated[int, Path(ge=1, description="the version", examples=[1])]


def _make_router() -> JsonRouter:
    router = JsonRouter(prefix="/v1/artifacts", tags=["artifacts"], dependencies=[Depends(needs_store)])
    for kind in KINDS.values():
        _add_evaluation(router, kind)
    return router


def _add_evaluation(router: JsonRouter, kind: AnyKind) -> None:
    async def evaluation(
        name: Any, version: Any, on: Any, since: Any, until: Any, context: Any, **given: Any
    ) -> VersionEvaluation:
        """Estimate accuracy, cost, and loss of a version on logged rows, and compare it with other ways to decide.

        Rows need not have calls of all classifiers. Figures are replayed if each row has all calls that the version
        makes; else they are doubly robust estimates. 409 with `overlap` if too few rows support the version, 422 if
        it, or the active version, was built from these rows. `on` may be a recording: its rows on this server's disk
        are evaluated as the dataset that they would make, which is not stored.
        """
        times = make_query(TimeRange, since=since, until=until)
        return await _evaluated(kind, name, version, (on, times), context, given)

    _declare(kind, evaluation)
    router.get(
        f"/{kind.name}/{{name}}/versions/{{version}}/evaluation",
        summary="Evaluate a version on logged rows",
        operation_id=f"evaluate_version_of_{kind.name}",
        response_model=VersionEvaluation,
        responses=error_responses(404, 409, 503, 504),
    )(evaluation)


def _declare(kind: AnyKind, route: Callable[..., Any]) -> None:
    """Set a route's parameters for FastAPI: its path, ``on``, and the limits of its kind."""
    fixed: dict[str, Any] = {
        "name": Annotated[str, path_name(kind.example)],
        "version": Version,
        "on": On,
        "context": InContext,
    }
    every = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=each) for name, each in fixed.items()]
    every += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=each)
        for name, each in (("since", Since), ("until", Until))
    ]
    route.__signature__ = signature(route).replace(  # type: ignore[attr-defined]
        parameters=[*every, *parameters_of(kind.limits)]
    )


async def _evaluated(
    kind: AnyKind, name: str, version: int, rows: tuple[str, TimeRange], context: Context, given: dict[str, Any]
) -> VersionEvaluation:
    active = await plan_of(context, kind, name, None)
    loaded = await plan_of(context, kind, name, version)
    source, dataset = await asyncio.to_thread(load_rows, context, *rows, (loaded, active))
    limits = from_parameters(kind.limits, given)
    return await run_in_solver(context, evaluate_version, loaded, active, limits, source, dataset, models_of(context))


router = _make_router()
