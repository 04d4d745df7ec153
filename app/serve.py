"""Runs the server processes and, with the embedded store, a build worker beside them."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

import uvicorn

from app.embedded import die_with_parent
from app.settings import Settings
from models import InvalidRequest

_STOP_S = 10


def serve(settings: Settings, *, with_worker: bool) -> None:
    """Serve until told to stop; then finish what is in flight, stop the worker, and let go of the store."""
    _refuse_taken(settings.host, settings.port)
    signal.signal(signal.SIGTERM, _leave)  # what uvicorn raises again once it has stopped
    with ExitStack() as stack:
        if settings.workers > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-metrics-"))
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        if with_worker:
            stack.enter_context(_worker_beside())
        uvicorn.run(
            "app.main:create_app",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            loop="uvloop",
            http="httptools",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=_STOP_S,
        )


def _refuse_taken(host: str, port: int) -> None:
    """Raise InvalidRequest if the address cannot be listened on: before a worker is started, and in one line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        advice = "choose another with --port or PARSIMONY_PORT"
        raise InvalidRequest(f"cannot listen on {host}:{port}: {error.strerror or error}; {advice}") from error


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


@contextmanager
def _worker_beside() -> Iterator[None]:
    """Run a build worker that ends when we end, however we end."""
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "app", "worker"],  # -P: not an "app" of the current folder
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: die_with_parent(signal.SIGTERM),
    )
    try:
        yield
    finally:
        worker.terminate()
        try:
            worker.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
