"""Endpoints and runs of commands that have the store itself: the calls are made from here, no server is asked."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ValidationError

from app.observability.metrics import Metrics
from app.processes.sandbox import Sandbox
from app.routes.endpoints import refuse_unless_callable
from app.running.batches import facts_of_batch, read_items, read_spec, refuse_unless_runnable
from app.running.caller import Caller
from app.running.embedding import embed, vectors_of
from app.running.executor import probed
from app.running.hosts import Hosts
from app.running.item_queue import ItemQueue
from app.running.runs import reply_of, run_one
from app.running.start import Tools
from app.serving.catalog import Live
from app.store.ledgers import Ledgers
from app.store.repositories import Repositories
from models import InvalidRequest
from models.batch import Batch
from models.endpoint import ENDPOINT
from models.errors import UnknownEndpoint
from models.run import RunRequest

T = TypeVar("T")


def endpoints(repos: Repositories) -> list[dict[str, Any]]:
    """List the endpoints by name."""
    kept = repos.endpoints.all()
    return [{"name": name, "endpoint": one.model_dump(mode="json")} for name, one in kept.items()]


def put_endpoint(repos: Repositories, name: str, spec: Any) -> dict[str, Any]:
    """Register an endpoint; raises InvalidRequest for what is none, and for hosts that must not be called."""
    try:
        endpoint = ENDPOINT.validate_json(orjson.dumps(spec))
    except ValidationError as error:
        raise InvalidRequest.of(error) from error
    refuse_unless_callable(name, endpoint, repos.settings)
    repos.endpoints.put(name, endpoint)
    return {"name": name, "endpoint": endpoint.model_dump(mode="json")}


def probe(repos: Repositories, name: str, item: Any) -> dict[str, Any]:
    """Call an endpoint once; raises UnknownEndpoint."""
    endpoint = repos.endpoints.all().get(name)
    if endpoint is None:
        raise UnknownEndpoint(f"there is no endpoint called {name!r}")
    heard = _with_caller(repos, lambda caller: caller.call(name, item, endpoint.timeout_s))
    return probed(heard).model_dump(mode="json")


def run(repos: Repositories, live: Live[Any], request: dict[str, Any]) -> dict[str, Any]:
    """Run an item; raises what refuses it, EndpointFailed or RunTimeout."""
    try:
        asked = RunRequest.model_validate_json(orjson.dumps(request))
    except ValidationError as error:
        raise InvalidRequest.of(error) from error
    done = _with_tools(repos, lambda tools: run_one(live, asked.each()[0], asked, tools))
    return reply_of(live, done).model_dump(mode="json")


def embedded(repos: Repositories, live: Live[Any], texts: Sequence[str]) -> NDArray[np.float64]:
    """Have texts embedded by the artifact's embedder: (n, d). Raises InvalidRequest where it names none, EndpointFailed
    or RunTimeout where one has no embedding."""
    ends_at = time.monotonic() + repos.settings.solve_timeout_s
    return np.array(vectors_of(_with_caller(repos, lambda caller: embed(live, texts, caller, ends_at))))


def add_batch(
    repos: Repositories, live_of: Callable[[str, str, int | None], Live[Any]], spec: dict[str, Any], file: Path
) -> Batch:
    """Queue a file of items; raises what refuses it."""
    asked = read_spec(orjson.dumps(spec))
    live = live_of(asked.solver, asked.name, asked.version)
    with file.open("rb") as opened:
        items = read_items(opened, repos.settings, lambda read, *args: read(*args))
    registered = repos.endpoints.all()
    _with_tools(repos, lambda tools: refuse_unless_runnable(live, items, asked.limits, tools, registered))
    return repos.batches.add(facts_of_batch(live, asked, items), items)


def _with_tools(repos: Repositories, work: Callable[[Tools], Awaitable[T]]) -> T:
    sandbox = Sandbox(repos.settings.solve_timeout_s, imports=("skops.io",))
    try:
        queue, ledgers = ItemQueue(repos.settings.max_concurrent_items), Ledgers(repos.store)
        return _with_caller(
            repos, lambda caller: work(Tools(repos.settings, caller, sandbox, ledgers, lambda: True, queue))
        )
    finally:
        sandbox.close()


def _with_caller(repos: Repositories, work: Callable[[Caller], Awaitable[T]]) -> T:
    async def worked() -> T:
        caller = Caller(Hosts(repos.settings.callable_hosts()), Metrics())
        caller.follow(repos.endpoints.all())
        try:
            return await work(caller)
        finally:
            await caller.close()

    return asyncio.run(worked())
