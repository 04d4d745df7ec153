"""Real servers for tests: a process on a free port, with a store of its own, ended by its id."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import httpx
import psutil

from app.building.supervisor import NAME as BUILD_WORKER
from tests.support.patience import patient
from tests.support.warm import WarmProcess

_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
_RANGE = 2_500
_PORTS = cycle(12_000 + _RANGE * _PROCESS + (os.getpid() + i) % _RANGE for i in range(_RANGE))
"""Below what Linux gives out by itself, a range for each process of a run: what one was given, no other is given too.
Runs beside each other begin at different places of it.

Two servers of two processes on one port would not notice: one ends, and the clients of both ask the other."""


def free_port() -> int:
    """Find a port that is free now, and that stays so until it is taken."""
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a cycle has no end")


def environment(data_dir: Path, **settings: object) -> dict[str, str]:
    """Give an environment with these settings and no others of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARSIMONY_")}
    ours = {f"PARSIMONY_{name.upper()}": str(value) for name, value in settings.items()}
    return kept | {"PARSIMONY_DATA_DIR": str(data_dir)} | ours


@contextmanager
def held_worker(server: "Server") -> Iterator[None]:
    """Let the build worker rest, so that what is queued stays so: not for longer than it may be silent."""
    held = [process for process in server.tree() if process.name() == BUILD_WORKER]
    assert held, "there is no build worker"
    for process in held:
        process.suspend()
    try:
        yield
    finally:
        for process in held:
            with suppress(psutil.NoSuchProcess):
                process.resume()


@dataclass
class Server:
    """A running ``parsimony serve``."""

    process: subprocess.Popen[bytes] | WarmProcess
    port: int
    data_dir: Path
    log: Path
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=patient(30.0), trust_env=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tree(self) -> list[psutil.Process]:
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        wait_for(self._ready, seconds, lambda: f"the server is not ready:\n{self.log.read_text()[-3000:]}")

    def wait_for_worker(self) -> None:
        """Wait until builds would run: the worker beside the server takes a moment longer to start."""
        wait_for(lambda: not self.client.get("/health/ready").json()["problems"], 30, "no worker is running")

    def stop(self) -> int:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=patient(30))

    def kill(self, *, whole_tree: bool) -> None:
        self.client.close()
        doomed = self.tree() if whole_tree else [psutil.Process(self.process.pid)]
        for process in doomed:
            with suppress(psutil.NoSuchProcess):  # some end because others did
                process.kill()
        self.process.wait(timeout=patient(10))
        psutil.wait_procs(doomed, timeout=patient(10))

    def _ready(self) -> bool:
        assert self.process.poll() is None, f"the server ended:\n{self.log.read_text()[-3000:]}"
        try:
            return self.client.get("/health/ready").status_code == 200
        except httpx.TransportError:
            return False


def start_server(
    data_dir: Path,
    *flags: str,
    port: int | None = None,
    root: Path | None = None,
    cold: bool = False,
    **settings: object,
) -> Server:
    """Start a server; ``settings`` are those of the environment, in lower case, ``root`` another copy of the code.

    cold: from nothing, as another copy and one of several processes are in any case. A solve may take as long as a busy
    machine needs, unless they say how long.
    """
    settings = {"solve_timeout_s": patient(10), **settings}
    port = port or free_port()
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "server.log"
    arguments = ["serve", "--port", str(port), *flags]
    variables = environment(data_dir, **settings) | code_of(root)
    cold = cold or root is not None or "--workers" in flags  # several share their metrics, which an import finds out
    process = _cold_process(arguments, variables, log, root) if cold else WarmProcess(arguments, variables, log)
    return Server(process, port, data_dir, log)


def _cold_process(
    arguments: list[str], variables: dict[str, str], log: Path, root: Path | None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "app", *arguments]
    with log.open("ab") as out:
        return subprocess.Popen(command, env=variables, cwd=root, stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def code_of(root: Path | None) -> dict[str, str]:
    """Give the environment in which a copy of the code is the one that runs."""
    return {"PYTHONPATH": str(root)} if root else {}


@contextmanager
def running_server(
    data_dir: Path, *flags: str, root: Path | None = None, cold: bool = False, **settings: object
) -> Iterator[Server]:
    server = start_server(data_dir, *flags, port=None, root=root, cold=cold, **settings)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def wait_for(condition: object, seconds: float, why: object = "it did not come true") -> None:
    """Wait until a condition holds; fail with the reason if it does not in that time, scaled by the tests' patience."""
    assert callable(condition)
    deadline = time.monotonic() + patient(seconds)
    while not condition():
        assert time.monotonic() < deadline, why() if callable(why) else why
        time.sleep(0.02)
