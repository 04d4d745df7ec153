"""Run routes: the service calls the classifiers and returns the answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    deciding_plan_of,
    error_responses,
    plan_of,
)
from app.running.divided_runs import DecidedItem, run_divided, run_undivided
from app.running.item_start import RunDependencies
from app.running.runs import CompletedItem, new_item_run, run_item, to_failed_run, to_run_reply
from app.serving.answers import count_decision
from models.run import RunReply, RunRequest, RunsReply, Spent
from solvers import KINDS
from solvers.kind import AnyKind

T = TypeVar("T")
WRITTEN_AT_ONCE = 20
"""Items of a reply that are written before the event loop looks for other work."""


def run_dependencies_of(context: Context) -> RunDependencies:
    """Return the services that runs depend on, with the currently registered endpoints."""
    context.caller.update_endpoints(context.seen.endpoints)
    context.budgets.update_budgets(context.seen.budgets)
    context.recorder.update_recordings(context.seen.recordings)
    return RunDependencies(
        settings=context.settings,
        caller=context.caller,
        sandbox=context.sandbox,
        ledgers=context.ledgers,
        is_store_up=lambda: context.catalog.store_up,
        queue=context.queue,
        budgets=context.budgets,
        spending=context.spending,
        conversations=context.conversations,
        rollouts=context.rollouts,
        recorder=context.recorder,
        payer=context.payer,
        client=context.client,
        confidences=context.confidences,
    )


def _add(router: APIRouter, kind: AnyKind) -> FastPost:
    prefix = f"/v1/{kind.plural}"

    @router.post(
        f"{prefix}/{{name}}/runs",
        tags=[kind.name],
        summary="Run an item: call classifiers and return the answer",
        operation_id=f"run_{kind.name}",
        response_model=RunReply | RunsReply,
        responses=error_responses(402, 404, 409, 413, 415, 429, 502, 503, 504),
    )
    async def runs(
        name: PathName, request: RunRequest, http: Request, context: InContext, version: Version = None
    ) -> Response:
        """Decide, call the endpoints of that name in the order decided, and give the answer with the way to it.

        Budget and deadline hold; what fails is excluded and reported as ``degraded``. With ``items`` each item has
        its own reply, and during a canary its own version. 502 if no endpoint gave an answer, 504 if the time was over
        before one did.
        """
        if request.items is None:
            loaded = await deciding_plan_of(context, kind, name, version, request.id)
        else:
            loaded = await plan_of(context, kind, name, version)
        tools = run_dependencies_of(context)
        with count_decision(loaded, context.metrics):
            if request.items is None:
                item_run = new_item_run(loaded, request.list_items()[0], request, tools)
                done = await cancel_on_disconnect(http, run_item(loaded, item_run, tools))
                body, headers = to_run_reply(loaded, done).model_dump_json().encode(), item_run.progress.headers
            else:
                divide = run_divided if version is None else run_undivided
                outcomes, seconds = await cancel_on_disconnect(http, divide(loaded, request.items, request, tools))
                body, headers = await _encoded(outcomes, seconds, loaded.record.unit), {}
        return Response(body, headers=headers, media_type="application/json")

    async def plain(http: Request, request: RunRequest, name: str) -> Response | None:
        context = await context_of(http)
        return await runs(name, request, http, context) if (kind.name, name) in context.catalog.plans else None

    return FastPost(f"{prefix}/", RunRequest, plain, "/runs")


async def _encoded(outcomes: Sequence[DecidedItem], seconds: float, unit: str) -> bytes:
    """Write a ``RunsReply``, a few items at a time so that look-ups get their turn."""
    items, cost = list[orjson.Fragment](), 0.0
    for loaded, one in outcomes:
        reply = (
            to_run_reply(loaded, one) if isinstance(one, CompletedItem) else to_failed_run(one, status_of(one.error))
        )
        items.append(orjson.Fragment(reply.model_dump_json()))
        cost += sum(step.cost for step in reply.steps)
        if len(items) % WRITTEN_AT_ONCE == 0:
            await asyncio.sleep(0)
    spent = Spent(cost=cost, seconds=seconds, unit=unit)
    return orjson.dumps({"items": items, "spent": spent.model_dump(mode="json")})


async def cancel_on_disconnect(http: Request, work: Awaitable[T]) -> T:
    """Run work until the client disconnects; then cancel it and its calls."""
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
