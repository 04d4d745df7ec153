"""The worker: takes builds and batches from RQ's queue, runs each in a process of its own, and watches over it."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar

from rq import Worker, worker_registration
from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer

from app.building.worker import run_build
from app.processes.cpu_time import ticks_of
from app.processes.parent_death import die_with_parent
from app.processes.priority import lower_priority_to_idle
from app.settings import Settings
from app.store.batches import LONGEST_S, Batches, batch_of
from app.store.builds import Builds
from app.store.client import translate_errors
from app.store.job_queue import QUEUE_NAME
from app.store.repositories import Repositories, open_repositories
from models.errors import StoreRefused, StoreUnavailable
from solvers import KINDS

logger = logging.getLogger("parsimony.worker")

BEAT_S = 5
PRELOADED = (
    "moocore",
    "scipy.linalg",
    "scipy.special",
    "sklearn.linear_model",
    "sklearn.pipeline",
    *(f"solvers.{name}" for name in KINDS),
)
"""What builds and batches import when they are called: loaded here once, and not by the process of each of them."""
STILL_S = 60.0
"""A build whose processes do nothing for so long hangs."""


class BuildJob(Job):
    """A job that runs the build or the batch of its own id and nothing else, whatever the store has as the function
    to be called.

    RQ would import and call any function named there: anyone who can write to the store could run code.
    """

    run_batch: ClassVar[Callable[[str], None]]

    def perform(self) -> None:
        """Run the build, or the batch."""
        if batch_of(self.id) is None:
            run_build(self.id)
        else:
            type(self).run_batch(self.id)

    def execute_success_callback(self, *_: Any) -> None:
        """Call nothing."""

    def execute_failure_callback(self, *_: Any) -> None:
        """Call nothing."""

    def execute_stopped_callback(self, *_: Any) -> None:
        """Call nothing."""

    def send_webhooks(self, *_: Any, **__: Any) -> None:
        """Send nothing."""


class BuildWorker(Worker):
    """RQ's worker, which also counts up the beat of the build or batch that it watches over."""

    builds: Builds
    batches: Batches
    grace_s: float
    sign_of_life: Callable[[], None]
    max_connection_wait_time = 5.0  # a store that came back is not kept waiting
    trains_here = True
    """Whether builds train in processes of their own; on a cluster nobody here works while they do."""
    _taken: float = 0.0
    _worked: float = 0.0
    _ticks: int = -1
    _told_to_stop: float | None = None

    @property
    def told_to_stop(self) -> bool:
        """Whether it was a signal that ended the work, not the store's absence."""
        return self._told_to_stop is not None

    def request_stop(self, signum: Any, frame: Any) -> None:
        """Remember the signal, and when it came."""
        self._told_to_stop = time.monotonic()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Renew this worker's registration; a store that came back empty has lost it."""
        self.sign_of_life()
        super().heartbeat(timeout, pipeline)
        worker_registration.register(self, pipeline)

    def monitor_work_horse(self, job: Job, queue: Queue) -> None:
        """Wait for the process of a build, from now on."""
        self._taken = self._worked = time.monotonic()
        super().monitor_work_horse(job, queue)

    def set_current_job_working_time(self, current_job_working_time: float, pipeline: Any = None) -> None:
        """Count by a clock that does not jump: RQ kills what works for too long."""
        self.current_job_working_time = time.monotonic() - self._taken if current_job_working_time else 0.0

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        """Begin the life of the process of one build, which ends with the worker's at the latest."""
        assert self.pid is not None
        die_with_parent(signal.SIGKILL, self.pid)
        lower_priority_to_idle()  # and so does what trains for the build
        super().main_work_horse(job, queue)

    def kill_horse(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Kill the process of a build alone: those that train end with it, those that clean up behind it must live."""
        if self.horse_pid:
            with suppress(ProcessLookupError):
                os.kill(self.horse_pid, sig)

    def maintain_heartbeats(self, job: Job) -> None:
        """Renew the build's heartbeat; end a build that exceeds its time limit."""
        try:
            with translate_errors():
                super().maintain_heartbeats(job)
                self._beat(job.id)
        except (StoreUnavailable, StoreRefused) as error:
            logger.warning("heartbeat of build %s failed; the build continues: %s", job.id, error)
        limit = float(job.timeout or 0)
        if batch_of(job.id) is None and self._stands_still():  # a batch may wait for those it calls
            self._end(job, f"its process did nothing for {STILL_S:.0f} s: it hangs")
        elif 0 < limit < self.current_job_working_time - BEAT_S:
            whose = "PARSIMONY_BUILD_TIMEOUT_S" if batch_of(job.id) is None else f"{LONGEST_S} s for a batch"
            self._end(job, f"took longer than {limit:g} s ({whose})")
        elif self._told_to_stop is not None and time.monotonic() - self._told_to_stop > self.grace_s:
            what = "build" if batch_of(job.id) is None else "batch"
            self._give_up(job, f"the worker was stopped before the {what} had ended; start it again")
            self.kill_horse()

    def _stands_still(self) -> bool:
        """Whether the process of the build, and those that train for it, have not worked for long."""
        ticks = ticks_of(self.horse_pid) if self.trains_here else 0
        if ticks != self._ticks or not self.trains_here:
            self._ticks, self._worked = ticks, time.monotonic()
        return time.monotonic() - self._worked > STILL_S

    def _beat(self, job_id: str) -> None:
        batch = batch_of(job_id)
        if batch is None:
            self.builds.renew_heartbeat(job_id)
        else:
            self.batches.renew_heartbeat(batch[0])

    def _give_up(self, job: Job, why: str) -> None:
        """End a build whose process has died; a batch continues where it stopped, in another process."""
        batch = batch_of(job.id)
        if batch is None:
            self.builds.end_build(job.id, "failed", why)
        else:
            self.batches.give_up(*batch, why)

    def _end(self, job: Job, why: str) -> None:
        batch = batch_of(job.id)
        try:
            if batch is None:
                self.builds.end_build(job.id, "failed", why)
            else:
                self.batches.end_batch(batch[0], "failed", why)
        finally:
            self.kill_horse()

    def handle_work_horse_killed(self, job: Job, retpid: Any, ret_val: Any, rusage: Any) -> None:
        """Give up a build or a batch whose process was killed, by the kernel for want of memory most often."""
        cause = f"signal {os.WTERMSIG(ret_val)}" if ret_val and os.WIFSIGNALED(ret_val) else f"status {ret_val}"
        self._give_up(job, f"its process was killed by {cause}; it may have run out of memory")
        super().handle_work_horse_killed(job, retpid, ret_val, rusage)  # type: ignore[no-untyped-call]


def run_rq_worker(
    settings: Settings, run_batch: Callable[[str], None], *, grace_s: float, sign_of_life: Callable[[], None]
) -> None:
    """Take builds and batches from the queue until SIGTERM, through every absence of the store.

    run_batch: runs the batch of a job. grace_s: how long a running job may continue after SIGTERM.
    sign_of_life: called every ten seconds or so.
    """
    for name in PRELOADED:
        import_module(name)
    BuildJob.run_batch = staticmethod(run_batch)
    told_to_stop = False
    with open_repositories(settings, client_name="parsimony-worker") as repos:
        while not told_to_stop:
            sign_of_life()
            for number in (signal.SIGTERM, signal.SIGINT):  # RQ sets handlers of its own while it works
                signal.signal(number, lambda *_: sys.exit(0))
            try:
                with translate_errors():
                    repos.store.check_connection()
                    told_to_stop = _work(repos, grace_s, sign_of_life)
            except (StoreUnavailable, StoreRefused) as error:
                logger.warning("%s; trying again", error)
                time.sleep(1.0)
                repos.restart_store()


def _work(repos: Repositories, grace_s: float, sign_of_life: Callable[[], None]) -> bool:
    """Take builds until SIGTERM (True) or until the store is lost (False)."""
    queue = Queue(QUEUE_NAME, connection=repos.store.client, serializer=JSONSerializer, job_class=BuildJob)
    worker = BuildWorker(
        [queue],
        job_class=BuildJob,
        connection=repos.store.client,
        serializer=JSONSerializer,
        worker_ttl=25,
        job_monitoring_interval=BEAT_S,
        maintenance_interval=10,
        log_job_description=False,
    )
    worker.builds, worker.batches = repos.builds, repos.batches
    worker.grace_s, worker.sign_of_life = grace_s, sign_of_life
    worker.trains_here = repos.settings.dask_scheduler is None
    logger.info("the worker takes builds from %s", queue.name)
    worker.work(logging_level="WARNING")
    return worker.told_to_stop
