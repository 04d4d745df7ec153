"""A server process that is killed under load is missed by nobody; a killed service starts again on all it had."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import httpx
import psutil
import pytest

from app.building.supervisor import NAME as WORKER
from tests.conftest import upload
from tests.support.patience import patient
from tests.support.servers import Server, running_server, start_server, wait_for
from tests.support.services import LOOK_UP, OCTETS
from tests.support.stored import artifact

MANY = 100


@contextmanager
def load(port: int) -> Iterator[Counter[str]]:
    """Look up from four threads, each time on a new connection, until the block ends; count what comes of it."""
    seen, stop = Counter[str](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            connection = HTTPConnection("127.0.0.1", port, timeout=patient(5))
            try:
                connection.request("GET", LOOK_UP)
                seen[str(connection.getresponse().status)] += 1
            except (OSError, HTTPException) as error:
                seen[type(error).__name__] += 1
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def answering(server: Server) -> list[psutil.Process]:
    processes = psutil.process_iter(["ppid", "name", "cmdline"])
    started = [one for one in processes if one.info["ppid"] == server.process.pid and one.info["name"] != WORKER]
    return [one for one in started if "spawn_main" in " ".join(one.info["cmdline"] or [])]


def test_the_other_processes_answer_on_and_the_killed_one_is_replaced(tmp_path: Path) -> None:
    with running_server(tmp_path, "--workers", "2") as server:
        upload(server)
        for number in range(MANY):  # so that it takes time to load them
            imported = server.client.post("/v1/artifacts/import", content=artifact(f"p{number}"), headers=OCTETS)
            assert imported.status_code == 201
        wait_for(lambda: f"parsimony_artifacts_loaded {MANY + 1}.0" in server.client.get("/metrics").text, 20)  # both
        one, other = answering(server)
        with load(server.port) as seen:
            wait_for(lambda: seen["200"] > 50, 20)
            one.kill()
            at_the_kill = seen["200"]
            wait_for(lambda: seen["200"] > at_the_kill + 100, 20, lambda: str(seen))
            wait_for(lambda: len(answering(server)) == 2 and one not in answering(server), 30)
        assert other in answering(server)
        lost = sum(count for kind, count in seen.items() if kind != "200")
        assert lost <= 4, seen  # what the killed process had begun, one request a thread at most
        assert server.client.get("/health/ready").json()["problems"] == []


@pytest.mark.slow
def test_a_service_that_is_killed_while_it_publishes_is_ready_again_with_all_it_had_said(tmp_path: Path) -> None:
    server, said = start_server(tmp_path), 0
    server.wait_until_ready()
    upload(server)
    some_said = threading.Event()

    def kill() -> None:
        some_said.wait(patient(60))
        server.kill(whole_tree=True)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        while True:
            if said == 11:
                some_said.set()
            reply = server.client.post("/v1/artifacts/import", content=artifact("often", said), headers=OCTETS)
            assert reply.json()["version"] == said + 1
            said += 1
    except (httpx.TransportError, RuntimeError):  # it is gone, or our client is closed
        pass
    killer.join()
    server.process.wait(timeout=patient(20))
    assert said > 10
    with running_server(tmp_path) as again:
        wait_for(lambda: again.client.get("/v1/cascades/trace/decision").status_code == 200, 5)
        kept = again.client.get("/v1/artifacts/cascade/often/versions").json()["items"]
        assert len(kept) - said in (0, 1)  # the last may have been written and not said
        assert [record["version"] for record in kept] == list(range(1, len(kept) + 1))
        assert [record["active"] for record in kept] == [False] * (len(kept) - 1) + [True]
        assert again.client.get("/v1/cascades/often/decision").json()["artifact"]["version"] == len(kept)
    wait_for(lambda: not _naming(tmp_path), 10, "a process is left over")


def _naming(folder: Path) -> list[int]:
    processes = psutil.process_iter(["cmdline"])
    return [one.pid for one in processes if any(str(folder) in word for word in one.info["cmdline"] or [])]
