"""CPU per look-up and policy step over HTTP: ``parsimony bench http``: the service, a constant route, and bare ASGI.

Each server runs uvicorn on one core, the load generator on another; rounds alternate between the servers, so that a
noisy neighbour hits all of them alike. What counts is the CPU time that the server process spends on a request.
"""

import argparse
import json
import os
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from tests.bench._applications import running_application
from tests.bench._rounds import print_ratios, read_reply
from tests.conftest import upload
from tests.support.samples import FEATURES_SPEC, feature_columns, to_csv
from tests.support.servers import Server, running_server, wait_for

CONNECTIONS = 16
WAVES = 1000
ROUNDS = 7
KEY = "bench-key"
LOOK_UP = "GET /v1/cascades/trace/decision?deadline=13", b""
STEPS = {
    "policy, first step": ("GET /v1/policies/steps/decision?budget=4", b""),
    "policy, first step by POST": ("POST /v1/policies/steps/decision", b'{"budget": 4, "acquired": {}}'),
    "policy, one value known": ("POST /v1/policies/steps/decision", b'{"budget": 4, "acquired": {"glucose": 0.3}}'),
    "policy, two values known": (
        "POST /v1/policies/steps/decision",
        b'{"budget": 4, "acquired": {"glucose": 0.3, "texture": [0.2, 0.7]}}',
    ),
}
BARE = "bare ASGI, the same decision"
CONSTANT = "FastAPI, a constant"


def main() -> None:
    argparse.ArgumentParser(prog="parsimony bench http", description=__doc__).parse_args()
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        server = stack.enter_context(running_server(folder / "service", api_keys=f"{KEY}:build"))
        server.client.headers["authorization"] = f"Bearer {KEY}"
        upload(server)
        _build_policy(server)
        exported = folder / "plan.parsimony"
        exported.write_bytes(server.client.get("/v1/artifacts/cascade/trace/versions/1/export").content)
        service = psutil.Process(server.process.pid), server.port
        running = {
            name: stack.enter_context(
                running_application(f"tests.bench._http_apps:{function}", folder, BENCH_PLAN=str(exported))
            )
            for name, function in ((CONSTANT, "constant"), (BARE, "bare"))
        }
        for process, _ in (service, *running.values()):
            process.cpu_affinity(cores[:1])
        psutil.Process().cpu_affinity(cores[-1:])
        asked = {"cascade, everything on": (service, LOOK_UP)} | {name: (service, step) for name, step in STEPS.items()}
        asked |= {name: (each, LOOK_UP) for name, each in running.items()}
        for each, request in asked.values():
            _round(*each, *request)  # to warm up
        rounds: dict[str, list[float]] = {name: [] for name in asked}
        for _ in range(ROUNDS):
            for name, (each, request) in asked.items():
                rounds[name].append(_round(*each, *request))
    title = f"server CPU per request, {ROUNDS} rounds of {WAVES * CONNECTIONS}"
    peers = {"times bare ASGI": BARE, "times a constant": CONSTANT}
    print_ratios(title, ("request", "median µs"), rounds, peers)


def _build_policy(server: Server) -> None:
    """Build a policy of three features; texture has two columns."""
    features = [each | {"cost": cost} for each, cost in zip(FEATURES_SPEC["features"], (1.0, 2.0, 3.0), strict=True)]
    files: dict[str, Any] = {
        "spec": (None, json.dumps(FEATURES_SPEC | {"features": features}), "application/json"),
        "table": ("steps.csv", to_csv(feature_columns(1000)), "text/csv"),
    }
    assert server.client.put("/v1/datasets/steps", files=files).status_code == 201
    build = server.client.post("/v1/builds", json={"kind": "policy", "name": "steps", "dataset": "steps"}).json()
    wait_for(lambda: server.client.get(f"/v1/builds/{build['id']}").json()["status"] == "succeeded", 120)


def _round(process: psutil.Process, port: int, target: str, body: bytes) -> float:
    """Give the server's CPU time for one request, in µs, over some thousands on kept-alive connections."""
    head = f"{target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    request = f"{head}{about}\r\n".encode() + body
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        before = process.cpu_times()
        for _ in range(WAVES):
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                reply = read_reply(connection)
                assert reply.startswith(b"HTTP/1.1 200"), reply
        after = process.cpu_times()
    finally:
        for connection in connections:
            connection.close()
    spent = after.user + after.system - before.user - before.system
    return spent / (WAVES * CONNECTIONS) * 1e6


if __name__ == "__main__":
    main()
