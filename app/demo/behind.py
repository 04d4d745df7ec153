"""The demo made behind a running service: in a process of its own, which ends with the service."""

import logging
import os
import signal
import sys
import time
from contextlib import suppress
from subprocess import DEVNULL, Popen
from types import TracebackType

from app.logs import configure_logging
from app.processes.parent_death import die_with_parent
from app.processes.termination import terminate
from app.settings import Settings
from models.errors import ParsimonyError

logger = logging.getLogger("parsimony.demo")
_NOTE_S = 1.0
_END_S = 5.0


class DemoBehind:
    """Makes what is missing of the demo while the block lasts, in a child process."""

    def __enter__(self) -> "DemoBehind":
        code = f"from app.demo.behind import make; make({os.getpid()})"
        command = [sys.executable, "-P", "-c", code]  # -P: not an "app" of the current folder
        self._child = Popen(command, stdin=DEVNULL, process_group=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        terminate(self._child, _END_S)


def make(service: int) -> None:
    """Store the datasets of what is missing, queue its builds and follow them (the child's whole life)."""
    die_with_parent(signal.SIGTERM, service)
    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    from app.demo.run import follow, prepare_demo  # what takes seconds, once we are sure to end with the service
    from app.store.demo_progress import note_demo
    from app.store.repositories import open_repositories

    with open_repositories(settings, client_name="parsimony-demo") as repos:
        noted = ("", 0.0)

        def progress(done: int, total: int, message: str) -> None:
            nonlocal noted
            said = f"{message} ({done} of {total})" if total else message
            if message != noted[0]:
                logger.info("demo: %s", message)
            if message != noted[0] or time.monotonic() - noted[1] > _NOTE_S:
                note_demo(repos.store, said)
                noted = message, time.monotonic()

        try:
            follow(repos, prepare_demo(repos, progress), progress)
            note_demo(repos.store, None)
        except ParsimonyError as error:
            logger.error("the demo could not be made whole: %s", error)
            with suppress(ParsimonyError):
                note_demo(repos.store, f"could not be made whole: {error}; start the service again to try once more")
