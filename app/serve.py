"""Runs the server processes and, with the embedded store, a build worker beside them."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

import uvicorn

from app.embedded import die_with_parent
from app.settings import Settings

_STOP_S = 10


def serve(settings: Settings, *, with_worker: bool) -> None:
    """Serve until told to stop; then finish what is in flight, stop the worker, and let go of the store."""
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


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


@contextmanager
def _worker_beside() -> Iterator[None]:
    """Run a build worker that ends when we end, however we end."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "app", "worker"],
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
