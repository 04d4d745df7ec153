"""Builds: queued in RQ, told of in a record of ours, which alone says what became of a build.

A record changes in transactions that look at its status first, so a build that was cancelled or given up can publish
nothing, and one that published is ``succeeded`` in the same moment. While a worker builds, it counts up a *beat*; the
servers watch the beats, and end a build whose beat stands still.
"""

import json
import time
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

from pydantic import ValidationError
from rq import Queue, Worker
from rq.command import send_stop_job_command
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.serializers import JSONSerializer

from app.clock import now, seconds_between
from app.datasets import OPEN_BUILDS, DatasetInfo
from app.store import Pipeline, Store, key, translated
from models import (
    ArtifactRef,
    Build,
    BuildProgress,
    BuildRequest,
    BuildStatus,
    Fault,
    FeatureTable,
    InvalidRequest,
    Trace,
    Value,
)
from models.errors import Cancelled, TooManyBuilds, UnknownBuild, UnknownDataset
from solvers import SOLVERS, Solver

QUEUE_NAME = "parsimony-builds"
JOB = "app.worker.run_build"
SILENCE_S = 30.0
"""How long a running build's beat may stand still before the build is given up."""
GAP_S = 10.0
"""Between looks that lie further apart the store was away, and nobody could beat."""
KEPT_ENDED = 1000
KINDS = {FeatureTable: "features", Trace: "trace"}
_ALL = key("builds", "all")
_BEATS = key("builds", "beats")
_NUMBER = key("builds", "number")
_COUNTS = key("builds", "counts")
_DURATIONS = key("builds", "durations")


class Builds:
    """The builds of one store."""

    def __init__(self, store: Store, *, queue_limit: int, timeout_s: int) -> None:
        self._store = store
        self._queue_limit, self._timeout_s = queue_limit, timeout_s

    def enqueue(self, request: BuildRequest) -> Build:
        """Queue a build; raises InvalidRequest, UnknownDataset or TooManyBuilds."""
        solver, options = checked_request(request)
        build = Build(
            id=uuid4().hex,
            **request.model_dump(exclude={"params"}),
            params=options.model_dump(mode="json"),
            status="queued",
            progress=BuildProgress(message="waiting for a worker"),
            created_at=now(),
        )
        dataset_key = key("dataset", build.dataset)

        def change(pipe: Pipeline) -> Build:
            check_dataset(solver, options, build.dataset, cast("bytes | None", pipe.get(dataset_key)))
            waiting = _count_queued(pipe)
            if waiting >= self._queue_limit:
                raise TooManyBuilds(f"{waiting} builds are waiting, the limit is {self._queue_limit}; try again later")
            number = int(cast("bytes | None", pipe.get(_NUMBER)) or 0) + 1
            pipe.multi()
            pipe.set(_NUMBER, number)
            pipe.zadd(_ALL, {build.id: number})
            pipe.sadd(OPEN_BUILDS, build.id)
            pipe.set(_record(build.id), build.model_dump_json())
            pipe.hincrby(_COUNTS, "queued", 1)
            self._queue().enqueue_call(
                JOB, (build.id,), job_id=build.id, timeout=self._timeout_s, result_ttl=60, failure_ttl=60, pipeline=pipe
            )
            return build

        queued = self._store.transact(change, dataset_key, OPEN_BUILDS, _NUMBER)
        self._forget_old()
        return queued

    def get(self, build_id: str) -> Build:
        """Tell of a build; raises UnknownBuild."""
        with translated():
            raw, progress = cast(
                "list[bytes | None]", self._store.client.mget([_record(build_id), _progress(build_id)])
            )
        if raw is None:
            raise UnknownBuild(f"there is no build {build_id!r}")
        return _read(raw, progress)

    def recent(self) -> list[Build]:
        """List the builds that are remembered, the newest first."""
        with translated():
            ids = [item.decode() for item in cast("list[bytes]", self._store.client.zrevrange(_ALL, 0, -1))]
            names = [name for i in ids for name in (_record(i), _progress(i))]
            found = cast("list[bytes | None]", self._store.client.mget(names)) if names else []
        return [_read(raw, progress) for raw, progress in zip(found[::2], found[1::2], strict=True) if raw is not None]

    def cancel(self, build_id: str) -> Build:
        """Stop a build, wherever it is; one that has ended stays as it is. Raises UnknownBuild."""
        build = self.end(build_id, "cancelled", None)
        with translated():
            try:
                self._queue().remove(build_id)
                send_stop_job_command(self._store.client, build_id, serializer=JSONSerializer)
            except (InvalidJobOperation, NoSuchJobError):
                pass  # no worker has it: it waited, or has ended, or will see its status before its first step
        return build

    def start(self, build_id: str) -> Build | None:
        """Take a queued build; None if it is not waiting any more."""

        def change(pipe: Pipeline) -> Build | None:
            build = _read_watched(pipe, build_id)
            if build.status != "queued":
                return None
            started = build.model_copy(update={"status": "running", "started_at": now()})
            pipe.multi()
            pipe.set(_record(build_id), started.model_dump_json())
            _count(pipe, "queued", "running")
            pipe.hincrby(_BEATS, build_id, 1)
            return started

        return self._store.transact(change, _record(build_id))

    def report(self, build_id: str, progress: BuildProgress) -> None:
        """Note how far a build has come; raises Cancelled if it is not running any more."""
        with translated():
            self._store.client.set(_progress(build_id), progress.model_dump_json())
        self.refuse_unless_running(self.get(build_id))

    def beat(self, build_id: str) -> None:
        """Say that the worker of a build is alive."""
        with translated():
            self._store.client.hincrby(_BEATS, build_id, 1)

    def end(self, build_id: str, status: BuildStatus, error: str | None) -> Build:
        """End a build that has not ended; one that has stays as it is. Raises UnknownBuild."""

        def change(pipe: Pipeline) -> Build:
            build = _read_watched(pipe, build_id)
            if build.ended:
                return build
            pipe.multi()
            return _write_end(pipe, build, status, error, None)

        return self._store.transact(change, _record(build_id))

    def committing(self, build_id: str) -> tuple[Callable[[Pipeline], None], Callable[[Pipeline, ArtifactRef], None]]:
        """Give what a publication checks (the build still runs) and writes (it has succeeded) in its transaction."""
        seen: list[Build] = []

        def check(pipe: Pipeline) -> None:
            seen[:] = [_read_watched(pipe, build_id)]
            self.refuse_unless_running(seen[0])

        def commit(pipe: Pipeline, ref: ArtifactRef) -> None:
            _write_end(pipe, seen[0], "succeeded", None, ref)

        return check, commit

    @staticmethod
    def watched(build_id: str) -> str:
        """Give the key to watch in a transaction that depends on a build."""
        return _record(build_id)

    @staticmethod
    def refuse_unless_running(build: Build) -> None:
        """Raise Cancelled unless the build is running."""
        if build.status != "running":
            raise Cancelled(f"build {build.id} is {build.status}")

    def unended(self) -> list[Build]:
        """List the builds that are queued or running."""
        ids = self._store.members(OPEN_BUILDS)
        found = self._store.get_many_json([_record(build_id) for build_id in ids])
        return [Build.model_validate_json(json.dumps(record)) for record in found]

    def counts(self) -> dict[str, int]:
        """Count the builds by what became of them."""
        with translated():
            found = cast("dict[bytes, bytes]", self._store.client.hgetall(_COUNTS))
        return {status.decode(): int(count) for status, count in found.items()}

    def durations(self) -> dict[str, tuple[int, float]]:
        """Give for each solver how many builds ended after they ran, and how long all these ran, in seconds."""
        with translated():
            found = cast("dict[bytes, bytes]", self._store.client.hgetall(_DURATIONS))
        told = {name.decode(): float(value) for name, value in found.items()}
        return {
            solver: (int(told.get(f"{solver}:ended", 0)), told.get(f"{solver}:seconds", 0.0))
            for solver in SOLVERS
            if f"{solver}:ended" in told
        }

    def beats(self) -> dict[str, int]:
        """Give the beat of every build that has one."""
        with translated():
            found = cast("dict[bytes, bytes]", self._store.client.hgetall(_BEATS))
        return {build_id.decode(): int(beat) for build_id, beat in found.items()}

    def is_waiting(self, build_id: str) -> bool:
        """Whether the build stands in the queue."""
        with translated():
            return self._store.client.lpos(self._queue().key, build_id) is not None

    def workers(self) -> int:
        """Count the workers that are alive."""
        with translated():
            return len(Worker.all(connection=self._store.client))

    def _queue(self) -> Queue:
        return Queue(QUEUE_NAME, connection=self._store.client, serializer=JSONSerializer)

    def _forget_old(self) -> None:
        """Forget the oldest ended builds beyond those that are kept."""
        with translated():
            ids = [item.decode() for item in cast("list[bytes]", self._store.client.zrange(_ALL, 0, -KEPT_ENDED - 1))]
            for build_id in set(ids) - set(self._store.members(OPEN_BUILDS)):
                self._store.client.delete(_record(build_id), _progress(build_id))
                self._store.client.zrem(_ALL, build_id)


class Watch:
    """Ends builds whose worker has died: one whose beat stood still, or that is queued yet stands in no queue."""

    def __init__(self, builds: Builds, *, silence_s: float = SILENCE_S, gap_s: float = GAP_S) -> None:
        self._builds, self._silence_s, self._gap_s = builds, silence_s, gap_s
        self._seen: dict[str, tuple[tuple[str, int], float]] = {}
        self._looked = time.monotonic()

    def look(self) -> None:
        """Look once; to be called every few seconds."""
        open_builds, beats = self._builds.unended(), self._builds.beats()
        if time.monotonic() - self._looked > self._gap_s:
            self._seen.clear()  # the store was away: nobody could beat
        self._looked = time.monotonic()
        ids = {build.id for build in open_builds}
        self._seen = {build_id: seen for build_id, seen in self._seen.items() if build_id in ids}
        for build in open_builds:
            if build.status == "queued" and self._builds.is_waiting(build.id):
                self._seen.pop(build.id, None)
                continue
            sign, moment = (build.status, beats.get(build.id, 0)), time.monotonic()
            old, since = self._seen.get(build.id, (None, moment))
            self._seen[build.id] = (sign, since if old == sign else moment)
            if old == sign and moment - since > self._silence_s:
                self._builds.end(build.id, "failed", f"its worker died: no sign of life for {self._silence_s:.0f} s")


def checked_request(request: BuildRequest) -> tuple[Solver[Any], Value]:
    """Give the solver and its options; raises InvalidRequest."""
    solver = SOLVERS.get(request.solver)
    if solver is None:
        raise InvalidRequest.at(Fault(("solver",), f"is {request.solver!r}, must be one of {', '.join(SOLVERS)}"))
    try:
        return solver, solver.options.model_validate_json(json.dumps(request.params))
    except ValidationError as error:
        said = f"is no parameter of {solver.name}; there are {', '.join(solver.options.model_fields)}"
        raise InvalidRequest.of(error, "params").telling_known(said) from error
    except ValueError as error:  # NaN or infinity among the parameters
        raise InvalidRequest.at(Fault(("params",), str(error))) from error


def check_dataset(solver: Solver[Any], options: Value, dataset: str, raw: bytes | None) -> None:
    """Refuse a dataset that is not there, or that the solver cannot learn from with these options."""
    if raw is None:
        raise UnknownDataset(f"there is no dataset called {dataset!r}")
    facts = DatasetInfo.model_validate_json(raw)
    wanted = [KINDS[kind] for kind in solver.datasets]
    if facts.spec.kind not in wanted:
        said = f"is of kind {facts.spec.kind!r}, the solver {solver.name!r} learns from {' or '.join(wanted)}"
        raise InvalidRequest.at(Fault(("dataset",), f"{dataset!r} {said}"))
    try:
        solver.check(facts, options)
    except InvalidRequest as error:
        raise error.under("params", but="dataset") from error


def _count(pipe: Pipeline, before: BuildStatus, after: BuildStatus) -> None:
    pipe.hincrby(_COUNTS, before, -1)
    pipe.hincrby(_COUNTS, after, 1)


def _count_queued(pipe: Pipeline) -> int:
    """Count the builds that wait; RQ's own list lacks those that a worker has just been handed."""
    names = [_record(item.decode()) for item in cast("set[bytes]", pipe.smembers(OPEN_BUILDS))]
    found = cast("list[bytes | None]", pipe.mget(names)) if names else []
    return sum(raw is not None and json.loads(raw)["status"] == "queued" for raw in found)


def _write_end(pipe: Pipeline, build: Build, status: BuildStatus, error: str | None, ref: ArtifactRef | None) -> Build:
    finished = now()
    ended = build.model_copy(update={"status": status, "error": error, "artifact": ref, "finished_at": finished})
    pipe.set(_record(build.id), ended.model_dump_json())
    _count(pipe, build.status, status)
    if ended.started_at is not None:
        pipe.hincrby(_DURATIONS, f"{build.solver}:ended", 1)
        pipe.hincrbyfloat(_DURATIONS, f"{build.solver}:seconds", seconds_between(ended.started_at, finished))
    pipe.srem(OPEN_BUILDS, build.id)
    pipe.hdel(_BEATS, build.id)
    return ended


def _read_watched(pipe: Pipeline, build_id: str) -> Build:
    raw = cast("bytes | None", pipe.get(_record(build_id)))
    if raw is None:
        raise UnknownBuild(f"there is no build {build_id!r}")
    return _read(raw, cast("bytes | None", pipe.get(_progress(build_id))))


def _read(raw: bytes, progress: bytes | None) -> Build:
    build = Build.model_validate_json(raw)
    if progress is None:
        return build
    return build.model_copy(update={"progress": BuildProgress.model_validate_json(progress)})


def _record(build_id: str) -> str:
    return key("build", build_id)


def _progress(build_id: str) -> str:
    return key("progress", build_id)  # not below the record's key, which callers spell
