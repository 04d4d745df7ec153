"""The hot path itself answers every declared look-up: nothing stands behind it here."""

import asyncio
import json
from collections.abc import MutableMapping
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from app.http.fast_router import FastRouter, FastRoutes
from app.observability.metrics import Metrics
from app.routes.kinds import routes_of
from app.running.caller import Caller
from app.running.hosts import Hosts
from app.serving.answers import LookUp
from app.serving.catalog import Catalog
from app.settings import Settings
from app.store.repositories import open_repositories
from solvers import KINDS
from tests.support.servers import Server

pytestmark = pytest.mark.smoke

DECLARED: tuple[LookUp[Any], ...] = tuple(look_up for kind in KINDS.values() for look_up in routes_of(kind).look_ups)
GET: dict[str, str] = {
    "cascade": "deadline=13",
    "index": "size=64&budget=4",
    "pipeline": "budget=6",
    "policy": "budget=6.0",
}
POST: dict[str, Any] = {
    "cascade": {"deadline": 13},
    "index": {"size": 64, "budget": 4, "computed": ["glucose"]},
    "pipeline": {"budget": 6, "acquired": {"age": 50.0}},
    "policy": {"budget": 6.0, "item": "one", "acquired": {"fast": ["cat", 0.9]}},
    "portfolio": {"query": [0.9, 0.9], "budget": "50%"},
}
"""A plain question for each: its query string, or its body."""


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"{scope['path']} was left to the route")


@pytest.fixture(scope="module")
def catalog(all_subjects: Server) -> Catalog:
    """Hold a small plan of each subject in memory, all called ``plan``."""
    with open_repositories(Settings(data_dir=all_subjects.data_dir), client_name="test") as repos:
        catalog = Catalog(repos.artifacts)
        catalog.refresh()
    return catalog


def test_every_look_up_is_asked_here() -> None:
    asked = {("GET", kind) for kind in GET} | {("POST", kind) for kind in POST}
    assert {(look_up.method, look_up.kind.name) for look_up in DECLARED} == asked


@pytest.mark.parametrize("look_up", DECLARED, ids=lambda look_up: f"{look_up.method} {look_up.path}")
def test_the_hot_path_answers_with_no_route_behind_it(catalog: Catalog, look_up: LookUp[Any]) -> None:
    query = GET[look_up.kind.name] if look_up.method == "GET" else ""
    body = None if look_up.method == "GET" else POST[look_up.kind.name]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": look_up.method,
        "path": look_up.path.replace("{name}", "plan"),
        "query_string": query.encode(),
        "headers": [(b"content-type", b"application/json")] if body is not None else [],
    }

    async def answer() -> None:
        caller = Caller(Hosts(()), Metrics())
        scope["state"] = {"context": SimpleNamespace(catalog=catalog, caller=caller)}
        await FastRouter(nothing, FastRoutes(DECLARED), Metrics())(scope, receive, send)
        await caller.close()

    asyncio.run(answer())
    assert sent[0]["status"] == 200
    assert json.loads(sent[1]["body"])["artifact"]["solver"] == look_up.kind.name
