"""Builds: queued in RQ, with a record of ours that holds their state.

A record changes in transactions that look at its status first, so a build that was cancelled or given up can publish
nothing, and one that published is ``succeeded`` in the same moment. While a worker builds, it counts up a *beat*; the
servers watch the heartbeats, and end a build without one.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast
from uuid import uuid4

from pydantic import ValidationError

from app.processes.clock import current_time, seconds_between
from app.store.client import Pipeline, Store, make_key, translate_errors
from app.store.datasets import OPEN_BUILDS
from app.store.job_queue import JobQueue
from app.store.pages import USUAL_PAGE, Page, newest_first
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
from models.advice import AdviceRequest
from models.errors import Cancelled, StoreRefused, StoreUnavailable, TooManyBuilds, UnknownBuild, UnknownDataset
from models.stored_dataset import DatasetInfo
from solvers import KINDS, AnyKind

ADVICE = "advice"
"""The kind of builds that compute advice."""
JOB = "app.building.worker.run_build"
KEPT_ENDED = 1000
DATASET_KINDS = {FeatureTable: "features", Trace: "trace"}
_KIND = "build"
_ALL = make_key("builds", "all")
_BEATS = make_key("builds", "beats")
_NUMBER = make_key("builds", "number")
_COUNTS = make_key("builds", "counts")
_DURATIONS = make_key("builds", "durations")


class Builds:
    """The builds of one store."""

    def __init__(self, store: Store, *, queue_limit: int, timeout_s: int) -> None:
        self._store = store
        self._queue, self._queue_limit, self._timeout_s = JobQueue(store), queue_limit, timeout_s

    def enqueue_build(self, request: BuildRequest) -> Build:
        """Queue a build; raises InvalidRequest, UnknownDataset or TooManyBuilds."""
        kind, options = checked_request(request)
        build = _queued(
            kind=kind.name,
            name=request.name,
            dataset=request.dataset,
            params=options.model_dump(mode="json"),
            seed=request.seed,
        )
        return self._enqueue(build, lambda raw: check_dataset(kind, options, build.dataset, raw))

    def enqueue_advice(self, request: AdviceRequest) -> Build:
        """Queue the builds that advice needs, as one; raises InvalidRequest, UnknownDataset or TooManyBuilds."""
        from solvers import advice  # and with it all solvers, which nothing else here needs

        limits = request.model_dump(mode="json", exclude={"dataset", "seed"})
        build = _queued(kind=ADVICE, name=request.dataset, dataset=request.dataset, params=limits, seed=request.seed)
        return self._enqueue(build, lambda raw: advice.check(_facts(build.dataset, raw)))

    def _enqueue(self, build: Build, check: Callable[[bytes | None], None]) -> Build:
        """Queue a build after checking its dataset."""
        dataset_key = make_key("dataset", build.dataset)

        def change(pipe: Pipeline) -> Build:
            check(cast("bytes | None", pipe.get(dataset_key)))
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
            self._queue.enqueue_job(pipe, JOB, build.id, self._timeout_s)
            return build

        queued = self._store.run_transaction(change, dataset_key, OPEN_BUILDS, _NUMBER)
        with suppress(StoreUnavailable, StoreRefused):  # it is queued, whatever comes after: the next one forgets
            self._forget_old()
        return queued

    def get(self, build_id: str) -> Build:
        """Return a build; raises UnknownBuild."""
        raw, progress = self._store.get_many([_record(build_id), _progress(build_id)])
        if raw is None:
            raise UnknownBuild(f"build {build_id!r} not found")
        return _read(raw, progress)

    def list_page(self, *, limit: int = USUAL_PAGE, cursor: str | None = None) -> Page[Build]:
        """Give a page of the builds that are remembered, the newest first."""
        page = newest_first(self._store, _KIND, _ALL, limit, cursor)
        records = self._store.get_many([name for i in page.items for name in (_record(i), _progress(i))])
        pairs = zip(records[::2], records[1::2], strict=True)
        return Page([_read(raw, progress) for raw, progress in pairs if raw is not None], page.next, page.total)

    def count_open(self) -> int:
        """Count the builds that are queued or running."""
        count: int = self._store.execute("scard", OPEN_BUILDS)
        return count

    def cancel(self, build_id: str) -> Build:
        """Stop a build, wherever it is; one that has ended stays as it is. Raises UnknownBuild."""
        build = self.end_build(build_id, "cancelled", None)
        self._queue.stop(build_id)  # a worker that has just taken it sees its status before its first step
        return build

    def start_build(self, build_id: str) -> Build | None:
        """Take a queued build; None if it is not waiting any more."""

        def change(pipe: Pipeline) -> Build | None:
            build = _read_watched(pipe, build_id)
            if build.status != "queued":
                return None
            started = build.model_copy(update={"status": "running", "started_at": current_time()})
            pipe.multi()
            pipe.set(_record(build_id), started.model_dump_json())
            _count(pipe, "queued", "running")
            pipe.hincrby(_BEATS, build_id, 1)
            return started

        return self._store.run_transaction(change, _record(build_id))

    def report_progress(self, build_id: str, progress: BuildProgress) -> None:
        """Note how far a build has come; raises Cancelled if it is not running any more."""
        self._store.execute("set", _progress(build_id), progress.model_dump_json())
        self.refuse_unless_running(self.get(build_id))

    def renew_heartbeat(self, build_id: str) -> None:
        """Renew the heartbeat of a build."""
        self._store.execute("hincrby", _BEATS, build_id, 1)

    def end_build(self, build_id: str, status: BuildStatus, error: str | None) -> Build:
        """End a build that has not ended; one that has stays as it is. Raises UnknownBuild."""

        def change(pipe: Pipeline) -> Build:
            build = _read_watched(pipe, build_id)
            if build.ended:
                return build
            pipe.multi()
            return _write_end(pipe, build, status, error, None)

        return self._store.run_transaction(change, _record(build_id))

    def commit_result(
        self, build_id: str
    ) -> tuple[Callable[[Pipeline], None], Callable[[Pipeline, ArtifactRef], None]]:
        """Give what a publication checks (the build still runs) and writes (it has succeeded) in its transaction."""
        seen: list[Build] = []

        def check(pipe: Pipeline) -> None:
            seen[:] = [_read_watched(pipe, build_id)]
            self.refuse_unless_running(seen[0])

        def commit(pipe: Pipeline, ref: ArtifactRef) -> None:
            _write_end(pipe, seen[0], "succeeded", None, ref)

        return check, commit

    def end_successfully(self, build_id: str, write: Callable[[Pipeline], None]) -> None:
        """End a running build well, and write what it made in the same transaction; raises Cancelled."""

        def change(pipe: Pipeline) -> None:
            build = _read_watched(pipe, build_id)
            self.refuse_unless_running(build)
            pipe.multi()
            write(pipe)
            _write_end(pipe, build, "succeeded", None, None)

        self._store.run_transaction(change, _record(build_id))

    @staticmethod
    def watch_cancellation(build_id: str) -> str:
        """Give the key to watch in a transaction that depends on a build."""
        return _record(build_id)

    @staticmethod
    def refuse_unless_running(build: Build) -> None:
        """Raise Cancelled unless the build is running."""
        if build.status != "running":
            raise Cancelled(f"build {build.id} is {build.status}")

    def list_unended(self) -> list[Build]:
        """List the builds that are queued or running."""
        ids = self._store.get_members(OPEN_BUILDS)
        records = self._store.get_many([_record(build_id) for build_id in ids])
        return [Build.model_validate_json(record) for record in records if record is not None]

    def count_by_status(self) -> dict[str, int]:
        """Count the builds by what became of them."""
        return {status: int(count) for status, count in self._store.get_texts(_COUNTS).items()}

    def total_durations(self) -> dict[str, tuple[int, float]]:
        """Give for each kind how many builds ended after they ran, and how long all these ran, in seconds."""
        sums = {name: float(value) for name, value in self._store.get_texts(_DURATIONS).items()}
        return {
            kind: (int(sums.get(f"{kind}:ended", 0)), sums.get(f"{kind}:seconds", 0.0))
            for kind in KINDS
            if f"{kind}:ended" in sums
        }

    def list_heartbeats(self) -> dict[str, int]:
        """Give the beat of every build that has one."""
        return {build_id: int(beat) for build_id, beat in self._store.get_texts(_BEATS).items()}

    def is_waiting(self, build_id: str) -> bool:
        """Whether the build is queued."""
        return self._queue.has_job(build_id)

    def count_workers(self) -> int:
        """Count the workers that are alive."""
        from rq import Worker

        with translate_errors():
            return len(Worker.all(connection=self._store.client))

    def _forget_old(self) -> None:
        """Forget the oldest ended builds beyond those that are kept."""
        oldest = {item.decode() for item in self._store.execute("zrange", _ALL, 0, -KEPT_ENDED - 1)}
        for build_id in oldest - set(self._store.get_members(OPEN_BUILDS)):
            self._store.execute("delete", _record(build_id), _progress(build_id))
            self._store.execute("zrem", _ALL, build_id)


def _queued(**facts: Any) -> Build:
    waiting = BuildProgress(message="waiting for a worker")
    return Build(id=uuid4().hex, **facts, status="queued", progress=waiting, created_at=current_time())


def checked_request(request: BuildRequest) -> tuple[AnyKind, Value]:
    """Return the kind and the options of a build; raises InvalidRequest."""
    kind = KINDS.get(request.kind)
    if kind is None:
        raise InvalidRequest.from_faults(Fault(("kind",), f"is {request.kind!r}, must be one of {', '.join(KINDS)}"))
    try:
        return kind, kind.options.model_validate_json(json.dumps(request.params))
    except ValidationError as error:
        message = f"is not a parameter of {kind.name}; available: {', '.join(kind.options.model_fields)}"
        raise InvalidRequest.from_validation(error, "params").listing_known(message) from error
    except ValueError as error:  # NaN or infinity among the parameters
        raise InvalidRequest.from_faults(Fault(("params",), str(error))) from error


def check_dataset(kind: AnyKind, options: Value, dataset: str, raw: bytes | None) -> None:
    """Refuse a dataset that is not there, or that the kind cannot learn from with these options."""
    facts = _facts(dataset, raw)
    wanted = [DATASET_KINDS[one] for one in kind.datasets]
    if facts.spec.kind not in wanted:
        message = f"is of kind {facts.spec.kind!r}, a {kind.name} learns from {' or '.join(wanted)}"
        raise InvalidRequest.from_faults(Fault(("dataset",), f"{dataset!r} {message}"))
    try:
        kind.check(facts, options)
    except InvalidRequest as error:
        raise error.with_prefix("params", but="dataset") from error


def _facts(dataset: str, raw: bytes | None) -> DatasetInfo:
    if raw is None:
        raise UnknownDataset(f"dataset {dataset!r} not found")
    return DatasetInfo.model_validate_json(raw)


def _count(pipe: Pipeline, before: BuildStatus, after: BuildStatus) -> None:
    pipe.hincrby(_COUNTS, before, -1)
    pipe.hincrby(_COUNTS, after, 1)


def _count_queued(pipe: Pipeline) -> int:
    """Count the builds that wait; RQ's own list lacks those that a worker has just been handed."""
    names = [_record(item.decode()) for item in cast("set[bytes]", pipe.smembers(OPEN_BUILDS))]
    records = cast("list[bytes | None]", pipe.mget(names)) if names else []
    return sum(raw is not None and json.loads(raw)["status"] == "queued" for raw in records)


def _write_end(pipe: Pipeline, build: Build, status: BuildStatus, error: str | None, ref: ArtifactRef | None) -> Build:
    finished = current_time()
    ended = build.model_copy(update={"status": status, "error": error, "artifact": ref, "finished_at": finished})
    pipe.set(_record(build.id), ended.model_dump_json())
    _count(pipe, build.status, status)
    if ended.started_at is not None:
        pipe.hincrby(_DURATIONS, f"{build.kind}:ended", 1)
        pipe.hincrbyfloat(_DURATIONS, f"{build.kind}:seconds", seconds_between(ended.started_at, finished))
    pipe.srem(OPEN_BUILDS, build.id)
    pipe.hdel(_BEATS, build.id)
    return ended


def _read_watched(pipe: Pipeline, build_id: str) -> Build:
    raw = cast("bytes | None", pipe.get(_record(build_id)))
    if raw is None:
        raise UnknownBuild(f"build {build_id!r} not found")
    return _read(raw, cast("bytes | None", pipe.get(_progress(build_id))))


def _read(raw: bytes, progress: bytes | None) -> Build:
    build = Build.model_validate_json(raw)
    if progress is None:
        return build
    return build.model_copy(update={"progress": BuildProgress.model_validate_json(progress)})


def _record(build_id: str) -> str:
    return make_key("build", build_id)


def _progress(build_id: str) -> str:
    return make_key("progress", build_id)  # not below the record's key, which callers spell
