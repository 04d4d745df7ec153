"""Gives up jobs of dead workers: builds fail, and batches are queued again."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from app.store.batches import Batches
from app.store.builds import Builds
from models import Build
from models.batch import Batch

Job = TypeVar("Job", Build, Batch)

HEARTBEAT_TIMEOUT_S = 30.0
"""The time without a heartbeat after which a running build is given up."""


MAX_CHECK_GAP_S = 10.0
"""If two checks are further apart, the store was unavailable, and heartbeats could not be written."""


class Watchdog:
    """Fails builds without a heartbeat, and queued builds that are not in a queue."""

    def __init__(self, builds: Builds, batches: Batches, clock: Callable[[], float] = time.monotonic) -> None:
        self._builds, self._batches, self._clock = builds, batches, clock
        self._seen: dict[str, tuple[tuple[str, int], float]] = {}
        self._looked = clock()

    def check_builds(self) -> None:
        """Check all builds once; call it every few seconds."""
        if self._clock() - self._looked > MAX_CHECK_GAP_S:
            self._seen.clear()  # the store was unavailable: no heartbeat could be written
        self._looked = self._clock()
        builds, batches = self._builds.list_unended(), self._batches.list_unended()
        ids = {build.id for build in builds} | {batch.id for batch in batches}
        self._seen = {one: seen for one, seen in self._seen.items() if one in ids}
        why = f"its worker died: no sign of life for {HEARTBEAT_TIMEOUT_S:.0f} s"
        for build in self._silent(builds, self._builds.list_heartbeats(), self._builds.is_waiting):
            self._builds.end_build(build.id, "failed", why)
        for batch in self._silent(batches, self._batches.list_heartbeats(), self._batches.is_waiting):
            self._batches.requeue_or_fail(batch.id, self._batches.enqueue_attempt(batch.id), why)

    def _silent(
        self, jobs: Sequence[Job], beats: Mapping[str, int], is_waiting: Callable[[str], bool]
    ) -> Iterator[Job]:
        """Yield the jobs that have had no heartbeat for too long."""
        for job in jobs:
            if job.status == "queued" and is_waiting(job.id):
                self._seen.pop(job.id, None)
                continue
            sign, moment = (job.status, beats.get(job.id, 0)), self._clock()
            old, since = self._seen.get(job.id, (None, moment))
            self._seen[job.id] = (sign, since if old == sign else moment)
            if old == sign and moment - since > HEARTBEAT_TIMEOUT_S:
                del self._seen[job.id]
                yield job
