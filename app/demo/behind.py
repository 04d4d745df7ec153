"""The demo made behind a running service: in a process of its own, which ends with the service."""

import logging
import os
import signal
import sys
import time
from contextlib import suppress
from subprocess import DEVNULL, Popen
from types import TracebackType
from typing import TYPE_CHECKING

from app.building.supervisor import stop_gracefully
from app.observability.logs import configure_logging
from app.processes.parent_death import die_with_parent
from app.processes.termination import terminate_child
from app.settings import Settings
from app.store.demo_progress import DemoProgress, note_demo
from models.errors import ParsimonyError

if TYPE_CHECKING:
    from app.store.repositories import Repositories
    from solvers import Progress

logger = logging.getLogger("parsimony.demo")
_NOTE_S = 1.0
_END_S = 5.0


class DemoBehind:
    """Makes what is missing of the demo while the block lasts, in a child process, which then serves its classifiers.

    models_port: where on this machine it serves them.
    """

    def __init__(self, models_port: int) -> None:
        self._models_port = models_port

    def __enter__(self) -> "DemoBehind":
        code = f"from app.demo.behind import make; make({os.getpid()}, {self._models_port})"
        command = [sys.executable, "-P", "-c", code]  # -P: not an "app" of the current folder
        self._child = Popen(command, stdin=DEVNULL, process_group=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        terminate_child(self._child, _END_S)


def make(service: int, models_port: int) -> None:
    """Store the datasets of what is missing, queue its builds and follow them; then answer for the classifiers, so that
    what was built can be run (the child's whole life)."""
    die_with_parent(signal.SIGTERM, service)
    signal.signal(signal.SIGTERM, stop_gracefully)
    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    from app.demo.models import serve_models  # what takes seconds, once we are sure to end with the service
    from app.store.repositories import open_repositories
    from solvers import no_progress

    with open_repositories(settings, client_name="parsimony-demo") as repos:
        make_and_tell(repos)
        serve_models(repos, models_port, no_progress)


def make_and_tell(repos: "Repositories") -> None:
    """Make what is missing, and tell the service how far it is and what becomes of it."""
    from app.demo.run import follow, prepare_demo

    try:
        progress = _progress_of(repos)
        follow(repos, prepare_demo(repos, progress), progress)
        note_demo(repos.store, DemoProgress(state="done", message="all of it is there"))
    except ParsimonyError as error:
        logger.error("the demo could not be made whole: %s", error)
        with suppress(ParsimonyError):
            note_demo(repos.store, DemoProgress(state="failed", message=str(error)))
    except SystemExit:  # the service is being stopped; the next one goes on
        note_demo(repos.store, None)
        raise


def _progress_of(repos: "Repositories") -> "Progress":
    """Tell the service what is being made, once a second, and the log what is new."""
    message_before, noted_at = "", 0.0

    def progress(done: int, total: int, message: str) -> None:
        nonlocal message_before, noted_at
        if message == message_before and time.monotonic() - noted_at < _NOTE_S:
            return
        if message != message_before:
            logger.info("demo: %s", message)
        far = f"{message} ({done} of {total})" if total else message
        note_demo(repos.store, DemoProgress(state="making", message=far))
        message_before, noted_at = message, time.monotonic()

    progress(0, 0, "looking for what is missing")
    return progress
