"""Health and metrics routes."""

import heapq
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.routes.dependencies import InContext
from app.store.demo_progress import DemoProgress

router = APIRouter(tags=["health"])


MAX_PROBLEMS = 20
"""Artifacts that are listed by name."""
_MEANWHILE = "decisions go on from memory, uploads and builds are refused"


class Liveness(BaseModel):
    """The process is running."""

    status: Literal["live"] = Field(default="live", description="always the same value")


class Readiness(BaseModel):
    """Whether the server can make decisions, and current problems."""

    status: Literal["ready", "loading", "leaving"] = Field(
        description="loading: until the artifacts are read from the store; leaving: after SIGTERM"
    )
    store: Literal["up", "unreachable"] = Field(description="whether the store can be reached")
    artifacts: int = Field(description="number of artifacts in memory")
    workers: int = Field(description="number of running workers")
    demo: DemoProgress | None = Field(
        default=None, description="progress of the demo that is built in the background; null: no demo"
    )
    problems: list[str] = Field(description="current problems, in sentences")


@router.get("/health/live", summary="Check liveness")
async def check_liveness() -> Liveness:
    """Return 200 while the process is running."""
    return Liveness()


@router.get(
    "/health/ready",
    summary="Check readiness, and list problems",
    responses={
        503: {"model": Readiness, "description": "the first load has not finished, or the server is shutting down"}
    },
)
async def check_readiness(context: InContext, response: Response) -> Readiness:
    """Return the loaded artifacts and current problems.

    The reply is 503 until the first load has finished, and during graceful shutdown.
    """
    catalog = context.catalog
    bad = catalog.problems
    problems = [f"{kind} {name!r}: {bad[kind, name]}" for kind, name in heapq.nsmallest(MAX_PROBLEMS, bad)]
    if len(bad) > MAX_PROBLEMS:
        problems.append(f"and {len(bad) - MAX_PROBLEMS} more artifacts; the log names them all")
    if catalog.is_store_empty:
        lost = f"{len(catalog.plans)} artifacts and {len(context.seen.endpoints)} endpoints"
        problems.append(f"the store is empty; {lost} are in memory only: restore a backup, or export and import them")
    problems += context.seen.hazards
    lacking = context.repos.describe_full_disk()
    if lacking is not None:
        problems.append(f"{lacking}; {_MEANWHILE}")
    if not catalog.store_up:
        meanwhile = _MEANWHILE if catalog.loaded else "no artifact can be loaded until then"
        problems.append(f"{catalog.store_error or 'the store has not been reached yet'}; {meanwhile}")
    elif context.seen.refusal is not None:
        problems.append(f"{context.seen.refusal}; {_MEANWHILE}")
    elif not context.seen.workers:
        own_worker = context.settings.redis_url is None
        wait = "the worker of this server has started" if own_worker else "`parsimony worker` is started"
        problems.append(f"no build worker is running; builds wait until {wait}")
    left_out = sorted(context.caller.open_reasons().items())
    problems += [f"endpoint {name!r} fails and is left out: {why}" for name, why in left_out[:MAX_PROBLEMS]]
    active = {one.ref for one in catalog.plans.values()}
    problems += context.confidences.list_problems(active, context.seen.confidence_reports)[:MAX_PROBLEMS]
    if context.seen.demo is not None and context.seen.demo.state == "failed":
        problems.append(context.seen.demo.text)
    if not catalog.loaded:
        response.status_code = 503
        problems.append("the artifacts have not been loaded yet")
    if context.leaving.asked_to_stop:
        response.status_code = 503
        problems.append("SIGTERM received; draining")
    return Readiness(
        status="leaving" if context.leaving.asked_to_stop else "ready" if catalog.loaded else "loading",
        store="up" if catalog.store_up else "unreachable",
        artifacts=len(catalog.plans),
        workers=context.seen.workers,
        demo=context.seen.demo,
        problems=problems,
    )


@router.get("/metrics", summary="Get metrics in Prometheus format", response_class=Response)
async def show_metrics(context: InContext) -> Response:
    """Return all metrics in Prometheus' text format."""
    return Response(await context.metrics.render_async(), media_type="text/plain; version=0.0.4; charset=utf-8")
