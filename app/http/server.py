"""Runs the server processes and, with the embedded store, a worker."""

import logging
import os
import signal
import socket
import tempfile
from contextlib import AbstractContextManager, ExitStack, nullcontext
from urllib.parse import urlsplit

import uvicorn

from app.building.supervisor import SupervisedWorker, stop_gracefully
from app.demo.background import BackgroundDemo
from app.http.address_file import local_address, published_address
from app.observability.logs import configure_logging, log_misspelled_settings
from app.running.batch_job import run_batch
from app.settings import Settings
from app.store.embedded import EmbeddedRedis
from models import InvalidRequest

logger = logging.getLogger("parsimony")
SHUTDOWN_TIMEOUT_S = 10
"""How long what is in flight may take when a server stops."""
MAX_CONNECTIONS = 4000
"""Most connections and requests of a server process; uvicorn answers 503 to more."""
KEEP_ALIVE_S = 75
"""How long a connection may be idle: longer than pools of HTTP clients keep one, so that these close it first."""
_GRACE_S = 4.0
"""How long a build may go on when the server stops."""


def serve(settings: Settings, *, with_worker: bool, with_demo: bool = False) -> None:
    """Serve until SIGTERM; then complete requests in progress and stop the worker."""
    _refuse_taken(settings.host, settings.port)
    signal.signal(signal.SIGTERM, stop_gracefully)  # what uvicorn raises again once it has stopped
    configure_logging(settings.log_level, settings.log_format)
    log_misspelled_settings()
    _log_settings(settings, with_demo=with_demo)
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
            demo = BackgroundDemo(models_port, local_address(settings))
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
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
        )


def _log_settings(settings: Settings, *, with_demo: bool) -> None:
    """Log the store, authentication, and the demo."""
    logging.getLogger("uvicorn.error").setLevel("WARNING")
    if settings.redis_url is None:
        logger.info("store embedded folder=%s", settings.data_dir.resolve())
    else:
        logger.info("store host=%s", urlsplit(settings.redis_url).hostname)
    if settings.api_keys:
        logger.info("authentication enabled keys=%d", len(settings.api_keys))
    else:
        logger.warning("authentication disabled host=%s; set PARSIMONY_API_KEYS to enable it", settings.host)
    if with_demo:
        logger.info("demo starts in the background; progress=%s/health/ready", local_address(settings))


def _free_port() -> int:
    """Return a port of this machine that is currently free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _refuse_taken(host: str, port: int) -> None:
    """Raise InvalidRequest if the server cannot listen on the address.

    The check precedes the start of a worker, so that the error is one line.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        advice = "choose another with --port or PARSIMONY_PORT"
        raise InvalidRequest(f"cannot listen on {host}:{port}: {error.strerror or error}; {advice}") from error
