"""Run routes: the service calls the classifiers and returns the answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from app.http.fast_router import FastPostRoute
from app.http.json_bodies import JsonRouter
from app.http.problem_details import http_status_of
from app.routes.dependencies import (
    AppContext,
    InContext,
    PathName,
    Version,
    error_responses,
    get_deciding_artifact,
    get_loaded_artifact,
    get_request_context,
)
from app.running.item_start import RunDependencies
from app.running.rollout_runs import VersionedOutcome, run_with_rollout, run_without_rollout
from app.running.runs import CompletedItem, new_item_run, run_item, to_failed_run, to_run_reply
from app.serving.decision_replies import measure_decision
from models.run import RunReply, RunRequest, RunsReply, Spent
from solvers import KINDS
from solvers.kind import AnyKind

T = TypeVar("T")
REPLY_CHUNK_ITEMS = 20
"""Items of a reply that are written before the event loop looks for other work."""


def get_run_dependencies(context: AppContext) -> RunDependencies:
    """Return the services for runs, with the currently registered endpoints."""
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


def _add(router: APIRouter, kind: AnyKind) -> FastPostRoute:
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
        """Decide, call the endpoints in the decided order, and return the answer with its calls.

        Endpoints are named like the classifiers. Budget and deadline are kept. Failed endpoints are excluded, and the
        reply is ``degraded``. With ``items``, each item has its own reply and, during a canary, its own version. The
        reply is 502 if no endpoint returned an answer, and 504 if the time limit ended before any answer.
        """
        if request.items is None:
            loaded = await get_deciding_artifact(context, kind, name, version, request.id)
        else:
            loaded = await get_loaded_artifact(context, kind, name, version)
        dependencies = get_run_dependencies(context)
        with measure_decision(loaded, context.metrics):
            if request.items is None:
                item_run = new_item_run(loaded, request.list_items()[0], request, dependencies)
                done = await cancel_on_disconnect(http, run_item(loaded, item_run, dependencies))
                body, headers = to_run_reply(loaded, done).model_dump_json().encode(), item_run.progress.headers
            else:
                divide = run_with_rollout if version is None else run_without_rollout
                outcomes, seconds = await cancel_on_disconnect(
                    http, divide(loaded, request.items, request, dependencies)
                )
                body, headers = await _encoded(outcomes, seconds, loaded.record.unit), {}
        return Response(body, headers=headers, media_type="application/json")

    async def plain(http: Request, request: RunRequest, name: str) -> Response | None:
        context = await get_request_context(http)
        return await runs(name, request, http, context) if (kind.name, name) in context.catalog.plans else None

    return FastPostRoute(f"{prefix}/", RunRequest, plain, "/runs")


async def _encoded(outcomes: Sequence[VersionedOutcome], seconds: float, unit: str) -> bytes:
    """Encode a ``RunsReply`` a few items at a time, so that look-ups are not delayed."""
    items, cost = list[orjson.Fragment](), 0.0
    for loaded, one in outcomes:
        reply = (
            to_run_reply(loaded, one)
            if isinstance(one, CompletedItem)
            else to_failed_run(one, http_status_of(one.error))
        )
        items.append(orjson.Fragment(reply.model_dump_json()))
        cost += sum(step.cost for step in reply.steps)
        if len(items) % REPLY_CHUNK_ITEMS == 0:
            await asyncio.sleep(0)
    spent = Spent(cost=cost, seconds=seconds, unit=unit)
    return orjson.dumps({"items": items, "spent": spent.model_dump(mode="json")})


async def cancel_on_disconnect(http: Request, work: Awaitable[T]) -> T:
    """Run work; if the client disconnects, cancel it and its calls."""
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
    """Wait until the client has disconnected."""
    receive: Callable[[], Awaitable[Mapping[str, Any]]] = http.receive
    while (await receive())["type"] != "http.disconnect":
        pass


router = JsonRouter()
plain = tuple(_add(router, kind) for kind in KINDS.values())
"""How plain requests to run are answered."""
