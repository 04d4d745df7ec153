"""The client while a real server hangs, restarts, and is gone."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parsimony import Parsimony, Unavailable
from tests.conftest import upload
from tests.support.patience import patient
from tests.support.servers import Server, running_server, start_server

pytestmark = [pytest.mark.server]
FUNCTIONS = {name: lambda item: ("cat", 0.95) for name in ("fast", "middle", "strong")}


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Stop the server's process, which then accepts connections and never answers."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def test_while_the_server_hangs_items_are_run_and_recorded(tmp_path: Path) -> None:
    with running_server(tmp_path / "server") as server, Parsimony(server.url, hold_s=0.0, timeout_s=0.5) as client:
        server.wait_for_worker()
        upload(server)
        patient_client = Parsimony(server.url, timeout_s=patient(30.0))
        fresh = client.cascade("trace").run(None, FUNCTIONS)
        recorder = client.record("hung", {"sure": lambda item: ("cat", 0.9)}, folder=tmp_path, interval_s=0.1)
        with stopped(server):
            started = time.monotonic()
            for _ in range(20):
                assert client.cascade("trace").run(None, FUNCTIONS).label == fresh.label
                assert recorder.call("sure", "x") == ("cat", 0.9)
            assert client.cascade("trace").run(None, FUNCTIONS).decision.is_stale
            assert time.monotonic() - started < patient(10.0)
            with pytest.raises(Unavailable):
                client.policy("trace").decide()
            started = time.monotonic()
            with Parsimony(server.url) as late, pytest.raises(Unavailable):
                late.cascade("trace").run(None, FUNCTIONS, deadline_s=0.02)
            for _ in range(50):
                with pytest.raises(Unavailable):
                    client.policy("trace").decide(item="x")
            assert time.monotonic() - started < patient(5.0)
        recorder.flush()
        recorder.close()
        assert patient_client.show_recording("hung")["rows"] == 20
        patient_client.close()


def test_a_client_continues_with_a_restarted_server(tmp_path: Path) -> None:
    with Parsimony("http://127.0.0.1:1", retries=0) as unreachable, pytest.raises(Unavailable):
        unreachable.list_builds()
    with running_server(tmp_path) as server:
        server.wait_for_worker()
        upload(server)
        client, port = Parsimony(server.url, hold_s=0.0, retries=5), server.port
        assert not client.cascade("trace").decide().is_stale
    assert client.cascade("trace").decide().is_stale
    again = start_server(tmp_path, port=port)
    try:
        again.wait_until_ready()
        until = time.monotonic() + patient(20.0)
        while (found := client.cascade("trace").decide()).is_stale and time.monotonic() < until:
            time.sleep(0.1)
        assert not found.is_stale
        assert client.cascade("trace").run(None, FUNCTIONS).label == "cat"
    finally:
        client.close()
        again.stop()
