"""Runs a build worker in a process of its own and watches over it: one that dies or hangs is followed by another."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from types import FrameType

from app.logs import configure_logging
from app.processes.parent_death import die_with_parent
from app.processes.termination import terminate
from app.settings import Settings
from app.store.embedded import EmbeddedRedis

logger = logging.getLogger("parsimony.serve")
GRACE_S = 45.0
"""How long a build may go on when ``parsimony worker`` is told to stop; the composed house waits for a minute."""
_SILENCE_S = 30.0
"""How long a worker may be silent: thrice as long as an idle one is, and longer than it waits for the store."""
_END_S = 6.0
"""How long a worker may take to end, besides its grace: a beat, until it sees that the grace is over, and a second."""


class SupervisedWorker(threading.Thread):
    """Runs a build worker that ends when we end, however we end, and starts another one when it dies or hangs.

    grace_s: how long a build may go on when we stop. silence_s: how long a worker may give no sign of life.
    """

    def __init__(self, grace_s: float, silence_s: float = _SILENCE_S) -> None:
        super().__init__(name="worker-supervisor", daemon=True)
        self._stopping = threading.Event()
        self._grace_s, self._silence_s = grace_s, silence_s

    def run(self) -> None:
        """Keep one worker running."""
        while not self._stopping.is_set():
            signs, sign_end = os.pipe()
            worker = _start_worker(sign_end, self._grace_s)
            os.close(sign_end)
            self._watch(worker, signs)
            os.close(signs)
            if self._stopping.is_set():
                terminate(worker, self._grace_s + _END_S)
                return
            logger.warning("the build worker ended with status %d; starting another one", worker.returncode)
            self._stopping.wait(1.0)

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

    def __enter__(self) -> "SupervisedWorker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()


def watch_worker(settings: Settings) -> None:
    """Keep one worker running until told to stop (the whole life of ``parsimony worker``)."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    with ExitStack() as stack:
        if settings.redis_url is None:
            stack.enter_context(EmbeddedRedis(settings.data_dir))  # a folder that cannot be used is refused here
        stack.enter_context(SupervisedWorker(GRACE_S))
        while True:
            signal.pause()


def leave(number: int, frame: FrameType | None) -> None:
    """End in order (a signal's handler)."""
    raise SystemExit(0)


def _start_worker(sign_end: int, grace_s: float) -> subprocess.Popen[bytes]:
    call = f"work_supervised({os.getpid()}, {sign_end}, {grace_s})"
    code = f"from app.building.supervisor import work_supervised; {call}"
    command = [sys.executable, "-P", "-c", code, "worker"]  # -P: not an "app" of the current folder
    # A group of its own: a Ctrl-C in the terminal is for us, and a worker that is told twice breaks its build off.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(sign_end,), process_group=0)


def work_supervised(watcher: int, sign_end: int, grace_s: float) -> None:
    """Be the worker beside a process that watches it (the child's whole life), and tell it signs of life."""
    from app.building.rq_worker import work

    die_with_parent(signal.SIGTERM, watcher)
    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    os.set_inheritable(sign_end, False)
    work(settings, grace_s=grace_s, sign_of_life=lambda: _tell(sign_end))


def _tell(sign_end: int) -> None:
    with suppress(BrokenPipeError):  # whoever watches has ended; so shall we, by its signal
        os.write(sign_end, b".")
