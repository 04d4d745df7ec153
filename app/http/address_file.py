"""File with the server's address, for commands that use the same data folder."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from app.settings import Settings

_NAME = "server.url"
_TIMEOUT_S = 1.0
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that a server listens on and no client can call, with one that it can."""


def local_address(settings: Settings) -> str:
    """Return the server's address for clients on this machine."""
    host = _ANY_ADDRESS.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


@contextmanager
def published_address(settings: Settings) -> Iterator[None]:
    """Publish the address of this server within the block."""
    file = settings.data_dir / _NAME
    file.write_text(local_address(settings))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def read_address(settings: Settings) -> str | None:
    """Return the address of the server that uses the data folder; None without one."""
    file = settings.data_dir / _NAME
    if settings.redis_url is not None or not file.is_file():
        return None
    url = file.read_text()
    try:
        httpx.get(f"{url}/health/live", timeout=_TIMEOUT_S, trust_env=False).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL):  # of a server that was killed
        return None
    return url
