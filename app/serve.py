"""Runs the server processes and, with the embedded store, a build worker beside them."""

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from types import FrameType

import uvicorn

from app.connection import Connection
from app.embedded import EmbeddedRedis, die_with_parent
from app.settings import Settings
from app.telemetry import configure_logging
from models import InvalidRequest

logger = logging.getLogger("parsimony.serve")
_STOP_S = 10
_GRACE_S = 4.0
"""How long a build may go on when the server stops: less than we wait for its worker, so that it ends in order."""
_SILENCE_S = 30.0
"""How long a worker may be silent: thrice as long as an idle one is, and longer than it waits for the store."""


def serve(settings: Settings, *, with_worker: bool) -> None:
    """Serve until told to stop; then finish what is in flight, stop the worker, and let go of the store."""
    _refuse_taken(settings.host, settings.port)
    signal.signal(signal.SIGTERM, _leave)  # what uvicorn raises again once it has stopped
    configure_logging(settings.log_level, settings.log_format)
    with ExitStack() as stack:
        if settings.redis_url is None:
            stack.enter_context(EmbeddedRedis(settings.data_dir))  # a folder that cannot be used is refused here
        if settings.workers > 1:
            memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # writing to a map of a full disk kills
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-metrics-", dir=memory))
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        if with_worker:
            stack.enter_context(WorkerBeside())
        uvicorn.run(
            "app.main:create_app",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            loop="uvloop",
            http=Connection,
            ws="none",
            proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,  # else a caller would say itself who it is
            headers=[("x-content-type-options", "nosniff")],
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


class WorkerBeside(threading.Thread):
    """Runs a build worker that ends when we end, however we end, and starts another one when it dies or hangs."""

    def __init__(self, silence_s: float = _SILENCE_S) -> None:
        super().__init__(name="worker-beside", daemon=True)
        self._stopping = threading.Event()
        self._silence_s = silence_s

    def run(self) -> None:
        """Keep one worker running."""
        while not self._stopping.is_set():
            signs, told = os.pipe()
            worker = _start_worker(told)
            os.close(told)
            self._watch(worker, signs)
            os.close(signs)
            if not self._stopping.is_set():
                logger.warning("the build worker ended with status %d; starting another one", worker.returncode)
                self._stopping.wait(1.0)
        _end(worker)

    def _watch(self, worker: subprocess.Popen[bytes], signs: int) -> None:
        """Wait for a worker's end, and bring it about if the worker gives no sign of life for too long."""
        os.set_blocking(signs, False)
        heard = time.monotonic()
        while worker.poll() is None and not self._stopping.wait(0.2):
            with suppress(BlockingIOError):
                heard = time.monotonic() if os.read(signs, 4096) else heard
            if time.monotonic() - heard > self._silence_s:
                logger.warning("the build worker gave no sign of life for %.0f s; it is killed", self._silence_s)
                worker.kill()
                worker.wait()

    def __enter__(self) -> "WorkerBeside":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()


def _start_worker(told: int) -> subprocess.Popen[bytes]:
    code = f"import app.serve; app.serve.work_beside({os.getpid()}, {told})"
    command = [sys.executable, "-P", "-c", code, "worker"]  # -P: not an "app" of the current folder
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(told,))


def work_beside(server: int, told: int) -> None:
    """Be the worker beside a server process (the child's whole life), to which signs of life are told."""
    from app.worker import work

    die_with_parent(signal.SIGTERM, server)
    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    os.set_inheritable(told, False)
    work(settings, grace_s=_GRACE_S, sign_of_life=lambda: _tell(told))


def _tell(told: int) -> None:
    with suppress(BrokenPipeError):  # the server has ended; so shall we, by its signal
        os.write(told, b".")


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
