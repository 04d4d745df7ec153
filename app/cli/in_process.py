"""Runs the application inside a command if no server is running."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from threading import Thread

import httpx
import uvicorn

from app import terminal
from app.main import create_app
from app.settings import Settings
from app.store.embedded import EmbeddedRedis
from app.store.repositories import Repositories, open_repositories
from models import Fault, InvalidRequest
from models.errors import ParsimonyError


@contextmanager
def run_application(settings: Settings) -> Iterator[httpx.Client]:
    """Run the application on a private socket, without keys, rate limit, or log."""
    _announce_new_store(settings)
    private = settings.model_copy(update={"api_keys": {}, "rate_limit": None, "drain_s": 0.0, "log_level": "error"})
    with ExitStack() as stack:
        if settings.redis_url is None:
            stack.enter_context(EmbeddedRedis(settings.data_dir))  # a folder that cannot be used is refused here
        socket = f"{stack.enter_context(TemporaryDirectory(prefix='parsimony-'))}/socket"
        stack.enter_context(_running(uvicorn.Config(create_app(private), uds=socket, log_config=None)))
        transport = httpx.HTTPTransport(uds=socket)
        yield stack.enter_context(httpx.Client(transport=transport, base_url="http://parsimony", timeout=None))


@contextmanager
def _running(config: uvicorn.Config) -> Iterator[None]:
    """Run a server in a thread until the block ends."""
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, name="application")
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise ParsimonyError("the application failed to start; run `parsimony serve` to see the cause")
            time.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def open_store() -> Iterator[Repositories]:
    """Open the store directly, for commands that build in this process.

    Raises InvalidRequest if a server is configured.
    """
    settings = Settings()
    if settings.url is not None:
        fault = f"must be unset, got {settings.url}: this command uses the store directly"
        raise InvalidRequest.from_faults(Fault(("PARSIMONY_URL",), fault))
    _announce_new_store(settings)
    with open_repositories(settings, client_name="parsimony-cli") as repos:
        yield repos


def _announce_new_store(settings: Settings) -> None:
    """Print that a new store is created, because it may be in the wrong folder."""
    folder = (settings.data_dir / "redis").resolve()
    if settings.redis_url is None and not folder.exists():
        message = f"a new store is made in {folder}; to reach a server that runs elsewhere, set PARSIMONY_URL"
        terminal.get_console(stderr=True).print(message, soft_wrap=True)
