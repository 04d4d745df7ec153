"""Runs the server processes and, with the embedded store, a build worker."""

import os
import signal
import socket
import tempfile
from contextlib import AbstractContextManager, ExitStack, nullcontext

import uvicorn

from app.building.supervisor import SupervisedWorker, stop_gracefully
from app.demo.behind import DemoBehind
from app.http.address_file import published_address
from app.observability.logs import configure_logging, warn_of_misspelt
from app.running.batch_job import run_batch
from app.settings import Settings
from app.store.embedded import EmbeddedRedis
from models import InvalidRequest

STOP_S = 10
"""How long what is in flight may take when a server stops."""
MAX_CONNECTIONS = 4000
"""Most connections and requests of a server process; uvicorn answers 503 to more."""
_GRACE_S = 4.0
"""How long a build may go on when the server stops."""


def serve(settings: Settings, *, with_worker: bool, with_demo: bool = False) -> None:
    """Serve until SIGTERM; then finish in-flight requests, stop the worker, and release the store."""
    _refuse_taken(settings.host, settings.port)
    signal.signal(signal.SIGTERM, stop_gracefully)  # what uvicorn raises again once it has stopped
    configure_logging(settings.log_level, settings.log_format)
    warn_of_misspelt()
    with ExitStack() as stack:
        if settings.redis_url is None:
            stack.enter_context(EmbeddedRedis(settings.data_dir))  # a folder that cannot be used is refused here
            stack.enter_context(published_address(settings))
        if settings.workers > 1:
            memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # writing to a map of a full disk kills
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-metrics-", dir=memory))
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        demo: AbstractContextManager[object] = nullcontext()
        if with_demo:
            models_port = _free_port()
            os.environ["PARSIMONY_ENDPOINT_HOSTS"] = f"{settings.endpoint_hosts or '*'},127.0.0.1:{models_port}"
            demo = DemoBehind(models_port)
        if with_worker:
            stack.enter_context(SupervisedWorker(_GRACE_S, run_batch))  # which batches call these from, too
        stack.enter_context(demo)
        uvicorn.run(
            "app.main:create_app",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            loop="uvloop",
            http="httptools",
            limit_concurrency=MAX_CONNECTIONS,
            ws="none",
            proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,  # else a caller would say itself who it is
            headers=[("x-content-type-options", "nosniff")],
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
        )


def _free_port() -> int:
    """Find a port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
