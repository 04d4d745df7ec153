"""Background process that builds the demo and serves its models.

It ends with the service.
"""

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
from app.store.demo_progress import DemoProgress, set_demo_progress
from models.errors import ParsimonyError

if TYPE_CHECKING:
    from app.demo.demo_datasets import DigitExperiment
    from app.store.repositories import Repositories
    from solvers import Progress

logger = logging.getLogger("parsimony.demo")
_NOTE_S = 1.0
_END_S = 5.0


class BackgroundDemo:
    """Runs the demo in a child process while the block lasts.

    Args:
        models_port: local port of the models' server.
        console: address of the console; it is logged.
    """

    def __init__(self, models_port: int, console: str) -> None:
        self._models_port, self._console = models_port, console

    def __enter__(self) -> "BackgroundDemo":
        arguments = os.getpid(), self._models_port, self._console
        code = f"from app.demo.background import run_process; run_process(*{arguments!r})"
        command = [sys.executable, "-P", "-c", code]  # -P: not an "app" of the current folder
        self._child = Popen(command, stdin=DEVNULL, process_group=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        terminate_child(self._child, _END_S)


def run_process(service: int, models_port: int, console: str) -> None:
    """Build the missing artifacts, then serve the models until the service stops."""
    die_with_parent(signal.SIGTERM, service)
    signal.signal(signal.SIGTERM, stop_gracefully)
    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    from app.demo.demo_datasets import DigitExperiment  # after die_with_parent: these imports take seconds
    from app.demo.servers import serve_models
    from app.store.repositories import open_repositories
    from solvers import no_progress

    with open_repositories(settings, client_name="parsimony-demo") as repos:
        world = DigitExperiment()
        build_demo(repos, world)
        logger.info("demo ended; open the console=%s", console)
        serve_models(repos, world.get_classifiers(no_progress), models_port)


def build_demo(repos: "Repositories", world: "DigitExperiment") -> None:
    """Build missing artifacts, and record the progress and the outcome for the service."""
    from app.demo.run import follow_builds, prepare_demo

    try:
        progress = _record_progress(repos)
        follow_builds(repos, prepare_demo(repos, world, progress), progress)
        set_demo_progress(repos.store, DemoProgress(state="done", message="all artifacts are built"))
    except ParsimonyError as error:
        logger.error("demo setup failed error=%s", error)
        with suppress(ParsimonyError):
            set_demo_progress(repos.store, DemoProgress(state="failed", message=str(error)))
    except SystemExit:  # the service stops; the next one continues
        set_demo_progress(repos.store, None)
        raise


def _record_progress(repos: "Repositories") -> "Progress":
    """Return a callback that records progress once a second and logs each new step."""
    message_before, noted_at = "", 0.0

    def progress(done: int, total: int, message: str) -> None:
        nonlocal message_before, noted_at
        if message == message_before and time.monotonic() - noted_at < _NOTE_S:
            return
        if message != message_before:
            logger.info("demo: %s", message)
        text = f"{message} ({done} of {total})" if total else message
        set_demo_progress(repos.store, DemoProgress(state="making", message=text))
        message_before, noted_at = message, time.monotonic()

    progress(0, 0, "looking for missing artifacts")
    return progress
