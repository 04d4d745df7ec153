"""The scripts of a deployment run: where there is nothing to reach, they say so in one line."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.deploy.documents import DEPLOY, ROOT, shell_lines
from tests.support.servers import free_port

CONTAINERS = ROOT / "tests" / "containers"
SCRIPTS = sorted([*DEPLOY.glob("*.sh"), *CONTAINERS.glob("*.sh")])


def _run(*command: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    # Of the environment only what the caller gives: a key or a proxy of whoever runs the tests is not ours to use.
    env = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_it_is_a_shell_script_that_can_be_run(script: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/sh\n")
    for text in (script.read_text(), "\n".join(shell_lines())):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_smoke_test_names_the_step_that_failed_in_one_line(tmp_path: Path) -> None:
    done = _run(DEPLOY / "smoke.sh", f"http://127.0.0.1:{free_port()}", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "health" in done.stderr
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


@contextmanager
def _answering(status: int) -> Iterator[tuple[int, list[str]]]:
    """Run a server that gives every question one status, and lists the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Stay silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_its_own_port_past_any_proxy(status: int, code: int) -> None:
    with _answering(status) as (port, asked):
        done = _run(
            *(sys.executable, "-I", DEPLOY / "healthcheck.py", "/health/ready"),
            PARSIMONY_PORT=str(port),
            http_proxy=f"http://127.0.0.1:{free_port()}",
        )
    assert done.returncode == code
    assert asked == ["/health/ready"]
    done = _run(sys.executable, "-I", DEPLOY / "healthcheck.py", PARSIMONY_PORT=str(free_port()))
    assert (done.returncode, "/health/live: " in done.stderr, done.stderr.count("\n")) == (1, True, 1)


def _pretend(folder: Path, program: str, script: str) -> None:
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)


def test_the_tests_of_the_composed_house_say_that_they_skip_where_no_engine_runs(tmp_path: Path) -> None:
    _pretend(tmp_path, "docker", "exit 1")
    done = _run(CONTAINERS / "run.sh", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stderr, "SKIPPED" in done.stdout) == (0, "", True)
