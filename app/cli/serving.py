"""``parsimony serve``, ``worker``, and ``demo``."""

import os
from typing import Annotated

import typer

from app.cli.options import AsJson
from app.settings import Settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of server processes.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Build missing demo artifacts in the background.")] = False,
) -> None:
    """Run the server, and with the embedded store also a worker."""
    from app.http.server import serve

    flags = {"HOST": host, "PORT": port, "WORKERS": workers}
    os.environ |= {f"PARSIMONY_{name}": str(value) for name, value in flags.items() if value is not None}
    settings = Settings()  # read again by every process that this one starts
    serve(settings, with_worker=settings.redis_url is None, with_demo=demo)


def worker() -> None:
    """Run a worker for builds and batches; it is restarted if it dies or hangs."""
    from app.building.supervisor import supervise_worker
    from app.observability.logs import configure_logging, log_misspelled_settings
    from app.running.batch_job import run_batch

    settings = Settings()  # read again by the worker, which is a process of its own
    configure_logging(settings.log_level, settings.log_format)
    log_misspelled_settings()
    supervise_worker(settings, run_batch)


def demo(
    if_missing: Annotated[bool, typer.Option(help="Build only missing demo artifacts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build artifacts of every kind, and measure their savings on unseen rows."""
    from app.cli.in_process import open_store
    from app.demo.run import run_demo

    with open_store() as repos:
        run_demo(repos, if_missing=if_missing, as_json=as_json)
