"""CPU per look-up over HTTP: ``parsimony bench http``: the service, a constant FastAPI route, and bare ASGI.

Each server runs uvicorn on one core, the load generator on another; rounds alternate between the servers, so that a
noisy neighbour hits all of them alike. What counts is the CPU time that the server process spends on a request.
"""

import argparse
import os
import socket
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from tests.bench._applications import running_application
from tests.conftest import upload
from tests.support.servers import running_server

CONNECTIONS = 16
WAVES = 1000
ROUNDS = 7
KEY = "bench-key"
TARGET = "/v1/cascades/trace/decision?deadline=13"


def main() -> None:
    argparse.ArgumentParser(prog="parsimony bench http", description=__doc__).parse_args()
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        server = stack.enter_context(running_server(folder / "service", api_keys=f"{KEY}:build"))
        server.client.headers["authorization"] = f"Bearer {KEY}"
        upload(server)
        exported = folder / "plan.parsimony"
        exported.write_bytes(server.client.get("/v1/artifacts/cascade/trace/versions/1/export").content)
        servers = {
            "Parsimony, everything on": (psutil.Process(server.process.pid), server.port),
            "FastAPI, a constant": stack.enter_context(
                running_application("tests.bench._http_apps:constant", folder, BENCH_PLAN=str(exported))
            ),
            "bare ASGI, the same decision": stack.enter_context(
                running_application("tests.bench._http_apps:bare", folder, BENCH_PLAN=str(exported))
            ),
        }
        for process, _ in servers.values():
            process.cpu_affinity(cores[:1])
        psutil.Process().cpu_affinity(cores[-1:])
        for process, port in servers.values():
            _round(process, port)  # to warm up
        rounds: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(ROUNDS):
            for name, (process, port) in servers.items():
                rounds[name].append(_round(process, port))
    _print(rounds)


def _round(process: psutil.Process, port: int) -> float:
    """Give the server's CPU time for one request, in µs, over some thousands on kept-alive connections."""
    request = f"GET {TARGET} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        before = process.cpu_times()
        for _ in range(WAVES):
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                reply = connection.recv(65536)
                while not reply.endswith(b"}"):
                    reply += connection.recv(65536)
                assert reply.startswith(b"HTTP/1.1 200"), reply
        after = process.cpu_times()
    finally:
        for connection in connections:
            connection.close()
    spent = after.user + after.system - before.user - before.system
    return spent / (WAVES * CONNECTIONS) * 1e6


def _print(rounds: dict[str, list[float]]) -> None:
    bare = rounds["bare ASGI, the same decision"]
    table = Table(title=f"server CPU per look-up, {ROUNDS} rounds of {WAVES * CONNECTIONS}", title_justify="left")
    for name in ("server", "median µs", "spread µs", "times bare ASGI", "spread"):
        table.add_column(name, justify="left" if name == "server" else "right")
    for name, spent in rounds.items():
        ratios = [mine / other for mine, other in zip(spent, bare, strict=True)]
        table.add_row(
            name,
            f"{statistics.median(spent):.1f}",
            f"{min(spent):.0f}-{max(spent):.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f}-{max(ratios):.2f}",
        )
    console = Console()
    Console(width=None if console.is_terminal else 80).print(table)


if __name__ == "__main__":
    main()
