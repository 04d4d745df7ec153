"""Latency of a team's look-ups while another team sends as many as it can: ``parsimony bench teams``.

The quiet team asks 100 times per second. Rounds alternate between: alone, with the other team without a quota, and with
a quota of 200 requests per second. The other team waits for no ``Retry-After``, and has builds in the queue.
"""

import argparse
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from tests.bench._rounds import print_ratios, read_reply
from tests.conftest import upload
from tests.support.servers import Server, running_server

KEYS = "quiet:build@quiet,greedy:build@greedy"
QUOTA = '{"greedy": {"requests_per_second": 200, "open_builds": 1}}'
CONNECTIONS = 8
ROUNDS, REQUESTS, PAUSE_S = 7, 600, 0.01


def main() -> None:
    argparse.ArgumentParser(prog="parsimony bench teams", description=__doc__).parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        servers = {}
        for name, quotas in (("without a quota", "{}"), ("with a quota", QUOTA)):
            servers[name] = stack.enter_context(running_server(folder / name[:7], api_keys=KEYS, team_quotas=quotas))
            servers[name].client.headers["authorization"] = "Bearer quiet"
            upload(servers[name])
        latencies: dict[str, list[float]] = {"alone": [], **{f"with the other, {name}": [] for name in servers}}
        for _ in range(ROUNDS):
            latencies["alone"].append(_measure_p99(servers["with a quota"]))
            for name, server in servers.items():
                with _greedy_team(server):
                    latencies[f"with the other, {name}"].append(_measure_p99(server))
    title = f"p99 of a team's look-ups, {ROUNDS} rounds of {REQUESTS}"
    print_ratios(title, ("the team", "median ms"), latencies, {"times alone": "alone"})


@contextmanager
def _greedy_team(server: Server) -> Iterator[None]:
    """Send look-ups over many connections, and builds, from another process."""
    process = multiprocessing.get_context("spawn").Process(target=_send_greedily, args=(server.port,), daemon=True)
    process.start()
    time.sleep(2.0)  # until it sends
    try:
        yield
    finally:
        process.kill()
        process.join()
        for build in server.client.get("/v1/builds").json()["items"]:  # they would run during the next measurement
            server.client.delete(f"/v1/builds/{build['id']}", headers={"authorization": "Bearer greedy"})


def _send_greedily(port: int) -> None:
    body = b'{"kind": "cascade", "name": "greedy", "dataset": "trace"}'
    head = f"Host: x\r\nAuthorization: Bearer greedy\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    build = f"POST /v1/builds HTTP/1.1\r\n{head}\r\n\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(20):
            _ask(connection, build)
    threads = [threading.Thread(target=_look_up_forever, args=(port,), daemon=True) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _look_up_forever(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while True:
            _ask(connection, _look_up("greedy"))


def _look_up(key: str) -> bytes:
    return f"GET /v1/cascades/trace/decision HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def _ask(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    return read_reply(connection)


def _measure_p99(server: Server) -> float:
    """Return the 99th percentile of the quiet team's latency, in milliseconds."""
    taken = []
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for _ in range(REQUESTS):
            began = time.perf_counter()
            assert _ask(connection, _look_up("quiet")).startswith(b"HTTP/1.1 200")
            taken.append(time.perf_counter() - began)
            time.sleep(PAUSE_S)
    return float(np.quantile(taken, 0.99) * 1e3)


if __name__ == "__main__":
    main()
