"""Runs: the service calls the classifiers itself, for every kind that can be run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from app.http.fast_router import FastPost
from app.http.json_bodies import JsonRouter
from app.http.problems import status_of
from app.routes.dependencies import (
    Context,
    InContext,
    PathName,
    Version,
    context_of,
    error_responses,
    plan_of,
)
from app.running.item_start import RunDependencies
from app.running.runs import CompletedItem, FailedItem, run_each, run_one, to_failed_run, to_run_reply
from app.serving.answers import count_decision
from app.serving.catalog import LoadedArtifact
from models.run import RunReply, RunRequest, RunsReply, Spent
from solvers import KINDS
from solvers.base import Plan
from solvers.kind import AnyKind

T = TypeVar("T")
WRITTEN_AT_ONCE = 20
"""Items of a reply that are written before the event loop looks for other work."""


def tools_of(context: Context) -> RunDependencies:
    """Give what runs need, with the endpoints as they are registered now."""
    context.caller.update_endpoints(context.seen.endpoints)
    return RunDependencies(
        settings=context.settings,
        caller=context.caller,
        sandbox=context.sandbox,
        ledgers=context.ledgers,
        is_store_up=lambda: context.catalog.store_up,
        queue=context.queue,
        client=context.client,
        confidences=context.confidences,
    )


def _add(router: APIRouter, kind: AnyKind) -> FastPost:
    prefix = f"/v1/{kind.plural}"

    @router.post(
        f"{prefix}/{{name}}/runs",
        tags=[kind.name],
        summary="Run an item: the classifiers are called",
        operation_id=f"run_{kind.name}",
        response_model=RunReply | RunsReply,
        responses=error_responses(404, 409, 413, 415, 502, 503, 504),
    )
    async def runs(
        name: PathName, request: RunRequest, http: Request, context: InContext, version: Version = None
    ) -> Response:
        """Decide, call the endpoints of that name in the order decided, and give the answer with the way to it.

        Budget and deadline hold; what fails is excluded and reported as ``degraded``. With ``items`` each item has
        its own reply. 502 if no endpoint gave an answer, 504 if the time was over before one did.
        """
        loaded = await plan_of(context, kind, name, version)
        tools = tools_of(context)
        with count_decision(loaded, context.metrics):
            if request.items is None:
                done = await unless_gone(http, run_one(loaded, request.list_items()[0], request, tools))
                body = to_run_reply(loaded, done).model_dump_json().encode()
            else:
                outcomes, seconds = await unless_gone(http, run_each(loaded, request.items, request, tools))
                body = await _encoded(loaded, outcomes, seconds)
        return Response(body, media_type="application/json")

    async def plain(http: Request, request: RunRequest, name: str) -> Response | None:
        context = await context_of(http)
        return await runs(name, request, http, context) if (kind.name, name) in context.catalog.plans else None

    return FastPost(f"{prefix}/", RunRequest, plain, "/runs")


async def _encoded(loaded: LoadedArtifact[Plan], outcomes: list[CompletedItem | FailedItem], seconds: float) -> bytes:
    """Write a ``RunsReply``, a few items at a time so that look-ups get their turn."""
    items, cost = list[orjson.Fragment](), 0.0
    for one in outcomes:
        reply = (
            to_run_reply(loaded, one) if isinstance(one, CompletedItem) else to_failed_run(one, status_of(one.error))
        )
        items.append(orjson.Fragment(reply.model_dump_json()))
        cost += sum(step.cost for step in reply.steps)
        if len(items) % WRITTEN_AT_ONCE == 0:
            await asyncio.sleep(0)
    spent = Spent(cost=cost, seconds=seconds, unit=loaded.record.unit)
    return orjson.dumps({"items": items, "spent": spent.model_dump(mode="json")})


async def unless_gone(http: Request, work: Awaitable[T]) -> T:
    """Do work as long as the caller waits for it; when it goes away, the work is cancelled, and its calls with it."""
    working = asyncio.current_task()
    assert working is not None
    leaving = asyncio.ensure_future(_left(http))
    has_left = False

    def cancel(ended: "asyncio.Future[None]") -> None:
        nonlocal has_left
        if not ended.cancelled():
            has_left = True
            working.cancel()

    leaving.add_done_callback(cancel)
    try:
        return await work
    except asyncio.CancelledError as error:
        if not has_left:
            raise
        working.uncancel()
        raise ClientDisconnect from error
    finally:
        leaving.remove_done_callback(cancel)
        leaving.cancel()


async def _left(http: Request) -> None:
    """Wait until the caller has gone away."""
    receive: Callable[[], Awaitable[Mapping[str, Any]]] = http.receive
    while (await receive())["type"] != "http.disconnect":
        pass


router = JsonRouter()
plain = tuple(_add(router, kind) for kind in KINDS.values())
"""How plain requests to run are answered."""
