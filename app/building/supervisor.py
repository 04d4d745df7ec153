"""Supervises the worker process: restarts it if it dies or hangs."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType

from app.observability.logs import configure_logging
from app.processes.parent_death import die_with_parent
from app.processes.process_name import set_process_name
from app.settings import Settings
from app.store.embedded import EmbeddedRedis

logger = logging.getLogger("parsimony.serve")
RunBatch = Callable[[str], None]
NAME = "build-worker"
"""What the process is called."""
GRACE_S = 45.0
"""How long a build may continue after SIGTERM; docker-compose.yml waits for a minute."""
_SILENCE_S = 30.0
"""How long a worker may be silent: thrice as long as an idle one is, and longer than it waits for the store."""
_END_S = 6.0
"""How long a worker may take to end, besides its grace: a beat, until it sees that the grace is over, and a second."""


class SupervisedWorker(threading.Thread):
    """Thread that keeps one worker process running; the worker ends with the thread.

    Args:
        grace_s: seconds that a build may continue after a stop.
        run_batch: runs the batch of a job, in a separate process.
        silence_s: seconds without a heartbeat after which a worker is restarted.
    """

    def __init__(self, grace_s: float, run_batch: RunBatch, silence_s: float = _SILENCE_S) -> None:
        super().__init__(name="worker-supervisor", daemon=True)
        self._stopping = threading.Event()
        self._grace_s, self._run_batch, self._silence_s = grace_s, run_batch, silence_s

    def run(self) -> None:
        """Keep one worker running."""
        while not self._stopping.is_set():
            worker, signs = _start_worker(self._grace_s, self._run_batch)
            self._watch(worker, signs)
            signs.close()
            if self._stopping.is_set():
                _end(worker, self._grace_s + _END_S)
                return
            logger.warning("worker ended, restarting status=%d", worker.exitcode)
            self._stopping.wait(1.0)

    def _watch(self, worker: BaseProcess, signs: Connection) -> None:
        """Wait until a worker ends; end it if it sends no heartbeat for too long."""
        last_sign_at = time.monotonic()
        while worker.is_alive() and not self._stopping.wait(0.2):
            with suppress(EOFError):  # it is about to end
                while signs.poll():
                    signs.recv_bytes()
                    last_sign_at = time.monotonic()
            if time.monotonic() - last_sign_at > self._silence_s:
                logger.warning("worker hangs, killing it silence_s=%.0f", self._silence_s)
                worker.kill()
                worker.join()

    def __enter__(self) -> "SupervisedWorker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()


def supervise_worker(settings: Settings, run_batch: RunBatch) -> None:
    """Keep one worker running until SIGTERM (main function of ``parsimony worker``)."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_gracefully)
    with ExitStack() as stack:
        if settings.redis_url is None:
            stack.enter_context(EmbeddedRedis(settings.data_dir))  # a folder that cannot be used is refused here
        stack.enter_context(SupervisedWorker(GRACE_S, run_batch))
        while True:
            signal.pause()


def stop_gracefully(number: int, frame: FrameType | None) -> None:
    """Handle a signal: exit the process in an orderly way."""
    raise SystemExit(0)


def _start_worker(grace_s: float, run_batch: RunBatch) -> tuple[BaseProcess, Connection]:
    """Start a worker; return its process and the connection with its heartbeats."""
    context = get_context("spawn")
    signs, sign_end = context.Pipe(duplex=False)
    worker = context.Process(target=run_supervised_worker, args=(os.getpid(), sign_end, grace_s, run_batch), name=NAME)
    worker.start()
    sign_end.close()
    return worker, signs


def _end(worker: BaseProcess, grace_s: float) -> None:
    """Terminate a worker, and kill it if it has not ended after the grace period."""
    worker.terminate()
    worker.join(grace_s)
    worker.kill()
    worker.join()


def run_supervised_worker(watcher: int, sign_end: Connection, grace_s: float, run_batch: RunBatch) -> None:
    """Run the worker in a supervised child process, which sends heartbeats."""
    os.setpgid(0, 0)  # a Ctrl-C in the terminal is for who watches: a worker that is told twice breaks its build off
    set_process_name(NAME)
    die_with_parent(signal.SIGTERM, watcher)
    from app.building.worker import run_worker  # what takes a second, once we are sure to end with who watches

    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    run_worker(settings, run_batch, grace_s=grace_s, send_heartbeat=lambda: _tell(sign_end))


def _tell(sign_end: Connection) -> None:
    with suppress(BrokenPipeError):  # the parent process has ended; its signal will end this one
        sign_end.send_bytes(b".")
