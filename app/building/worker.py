"""RQ worker that runs each build or batch in a separate process."""

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

from app.building.run_build import run_build
from app.processes.cpu_time import read_cpu_ticks
from app.processes.parent_death import die_with_parent
from app.processes.priority import lower_priority_to_idle
from app.settings import Settings
from app.store.batches import MAX_BATCH_DURATION_S, Batches, parse_job_id
from app.store.builds import Builds
from app.store.client import translate_errors
from app.store.job_queue import QUEUE_NAMES
from app.store.repositories import Repositories, open_repositories
from models.errors import StoreRefused, StoreUnavailable
from solvers import KINDS

logger = logging.getLogger("parsimony.worker")

HEARTBEAT_INTERVAL_S = 5
PRELOADED = (
    "moocore",
    "scipy.linalg",
    "scipy.special",
    "sklearn.linear_model",
    "sklearn.pipeline",
    *(f"solvers.{name}" for name in KINDS),
)
"""What builds and batches import when they are called: loaded here once, and not by the process of each of them."""
HANG_TIMEOUT_S = 60.0
"""A build whose processes do nothing for so long hangs."""


class BuildJob(Job):
    """An RQ job that can only run the build or batch of its id.

    A plain RQ job imports and calls any function that the store names. Then anyone with write access to the store could
    run code.
    """

    run_batch: ClassVar[Callable[[str], None]]

    def perform(self) -> None:
        """Run the build or the batch."""
        if parse_job_id(self.id) is None:
            run_build(self.id)
        else:
            type(self).run_batch(self.id)

    def execute_success_callback(self, *_: Any) -> None:
        """Do nothing; callbacks named in the store are not called."""

    def execute_failure_callback(self, *_: Any) -> None:
        """Do nothing; callbacks named in the store are not called."""

    def execute_stopped_callback(self, *_: Any) -> None:
        """Do nothing; callbacks named in the store are not called."""

    def send_webhooks(self, *_: Any, **__: Any) -> None:
        """Do nothing; webhooks named in the store are not sent."""


class BuildWorker(Worker):
    """RQ worker that also renews the heartbeat of its build or batch."""

    builds: Builds
    batches: Batches
    grace_s: float
    send_heartbeat: Callable[[], None]
    max_connection_wait_time = 5.0  # a store that came back is not kept waiting
    trains_here = True
    """Whether builds train on this machine, so that their CPU time shows progress; on a Dask cluster it does not."""
    _taken: float = 0.0
    _worked: float = 0.0
    _ticks: int = -1
    _stop_requested_at: float | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether a stop signal was received."""
        return self._stop_requested_at is not None

    def request_stop(self, signum: Any, frame: Any) -> None:
        """Record a stop signal and its time."""
        self._stop_requested_at = time.monotonic()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Renew the registration of this worker, even if the store has lost it."""
        self.send_heartbeat()
        super().heartbeat(timeout, pipeline)
        worker_registration.register(self, pipeline)

    def monitor_work_horse(self, job: Job, queue: Queue) -> None:
        """Wait for the process of a job, and start measuring its run time."""
        self._taken = self._worked = time.monotonic()
        super().monitor_work_horse(job, queue)

    def set_current_job_working_time(self, current_job_working_time: float, pipeline: Any = None) -> None:
        """Set the job's run time by a monotonic clock; RQ kills jobs that exceed their timeout."""
        self.current_job_working_time = time.monotonic() - self._taken if current_job_working_time else 0.0

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        """Run a job in its child process, which ends no later than the worker."""
        assert self.pid is not None
        die_with_parent(signal.SIGKILL, self.pid)
        lower_priority_to_idle()  # and so does what trains for the build
        super().main_work_horse(job, queue)

    def kill_horse(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Kill the job's process only; its child processes end or clean up themselves."""
        if self.horse_pid:
            with suppress(ProcessLookupError):
                os.kill(self.horse_pid, sig)

    def maintain_heartbeats(self, job: Job) -> None:
        """Renew the heartbeat; end a job that hangs or exceeds its time limit."""
        try:
            with translate_errors():
                super().maintain_heartbeats(job)
                self._beat(job.id)
        except (StoreUnavailable, StoreRefused) as error:
            logger.warning("heartbeat failed, build continues build=%s error=%s", job.id, error)
        limit = float(job.timeout or 0)
        if parse_job_id(job.id) is None and self._stands_still():  # a batch may wait for those it calls
            self._end(job, f"its process did nothing for {HANG_TIMEOUT_S:.0f} s: it hangs")
        elif 0 < limit < self.current_job_working_time - HEARTBEAT_INTERVAL_S:
            whose = (
                "PARSIMONY_BUILD_TIMEOUT_S" if parse_job_id(job.id) is None else f"{MAX_BATCH_DURATION_S} s for a batch"
            )
            self._end(job, f"took longer than {limit:g} s ({whose})")
        elif self._stop_requested_at is not None and time.monotonic() - self._stop_requested_at > self.grace_s:
            what = "build" if parse_job_id(job.id) is None else "batch"
            self._give_up(job, f"the worker was stopped before the {what} had ended; start it again")
            self.kill_horse()

    def _stands_still(self) -> bool:
        """Return whether the build's process and its child processes used no CPU time for long."""
        ticks = read_cpu_ticks(self.horse_pid) if self.trains_here else 0
        if ticks != self._ticks or not self.trains_here:
            self._ticks, self._worked = ticks, time.monotonic()
        return time.monotonic() - self._worked > HANG_TIMEOUT_S

    def _beat(self, job_id: str) -> None:
        batch = parse_job_id(job_id)
        if batch is None:
            self.builds.renew_heartbeat(job_id)
        else:
            self.batches.renew_heartbeat(batch[0])

    def _give_up(self, job: Job, why: str) -> None:
        """Fail a build whose process has died; a batch continues in another process."""
        batch = parse_job_id(job.id)
        if batch is None:
            self.builds.end_build(job.id, "failed", why)
        else:
            self.batches.requeue_or_fail(*batch, why)

    def _end(self, job: Job, why: str) -> None:
        batch = parse_job_id(job.id)
        try:
            if batch is None:
                self.builds.end_build(job.id, "failed", why)
            else:
                self.batches.end_batch(batch[0], "failed", why)
        finally:
            self.kill_horse()

    def handle_work_horse_killed(self, job: Job, retpid: Any, ret_val: Any, rusage: Any) -> None:
        """Handle a job whose process was killed, usually because memory ran out."""
        cause = f"signal {os.WTERMSIG(ret_val)}" if ret_val and os.WIFSIGNALED(ret_val) else f"status {ret_val}"
        self._give_up(job, f"its process was killed by {cause}; it may have run out of memory")
        super().handle_work_horse_killed(job, retpid, ret_val, rusage)  # type: ignore[no-untyped-call]


def run_worker(
    settings: Settings, run_batch: Callable[[str], None], *, grace_s: float, send_heartbeat: Callable[[], None]
) -> None:
    """Run queued builds and batches until SIGTERM; continue after store outages.

    Args:
        run_batch: runs the batch of a job.
        grace_s: seconds that a running job may continue after SIGTERM.
        send_heartbeat: called about every ten seconds.
    """
    # RQ ends a job's process without joblib's cleanup. Its resource tracker then removes the folders, with a warning.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
    for name in PRELOADED:
        import_module(name)
    BuildJob.run_batch = staticmethod(run_batch)
    is_stopping = False
    with open_repositories(settings, client_name="parsimony-worker") as repos:
        while not is_stopping:
            send_heartbeat()
            for number in (signal.SIGTERM, signal.SIGINT):  # RQ sets handlers of its own while it works
                signal.signal(number, lambda *_: sys.exit(0))
            try:
                with translate_errors():
                    repos.store.check_connection()
                    is_stopping = _work(repos, grace_s, send_heartbeat)
            except (StoreUnavailable, StoreRefused) as error:
                logger.warning("store unavailable, retrying error=%s", error)
                time.sleep(1.0)
                repos.restart_store()


def _work(repos: Repositories, grace_s: float, send_heartbeat: Callable[[], None]) -> bool:
    """Run jobs until SIGTERM (returns True) or until the store is lost (returns False)."""
    client = repos.store.client
    worker = BuildWorker(
        [Queue(name, connection=client, serializer=JSONSerializer, job_class=BuildJob) for name in QUEUE_NAMES],
        job_class=BuildJob,
        connection=client,
        serializer=JSONSerializer,
        worker_ttl=25,
        job_monitoring_interval=HEARTBEAT_INTERVAL_S,
        maintenance_interval=10,
        log_job_description=False,
    )
    worker.builds, worker.batches = repos.builds, repos.batches
    worker.grace_s, worker.send_heartbeat = grace_s, send_heartbeat
    worker.trains_here = repos.settings.dask_scheduler is None
    logger.info("worker started queues=%s", ",".join(QUEUE_NAMES))
    worker.work(logging_level="WARNING")
    return worker.is_stopping
