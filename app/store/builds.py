"""Builds in the store: their queue (RQ), status, progress, and heartbeats.

Status changes are transactions that check the current status. So a canceled build cannot publish, and publishing and
the status ``succeeded`` are one step. A running worker increments a heartbeat. Servers fail a build whose heartbeat
stops.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast
from uuid import uuid4

from pydantic import ValidationError

from app.processes.clock import current_timestamp, seconds_between
from app.store.build_owners import NO_TEAM, BuildOwner, add_owner, remove_owner, require_team_room
from app.store.client import Pipeline, Store, make_store_key, translate_errors
from app.store.conversation_windows import require_same_window
from app.store.datasets import OPEN_BUILDS
from app.store.job_queue import JobQueue
from app.store.name_quotas import LEAST_BYTES, NO_QUOTAS, NameQuotas
from app.store.paging import DEFAULT_PAGE_SIZE, Page, list_newest_page
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
from models.dataset_source import DatasetSource
from models.errors import Cancelled, StoreRefused, StoreUnavailable, TooManyBuilds, UnknownBuild, UnknownDataset
from models.stored_dataset import DatasetInfo
from models.word_embedding import DIMENSIONS, WORDS
from solvers import KINDS, AnyKind
from solvers.base import require_min_complete_rows

ADVICE = "advice"
"""The kind of builds that compute advice."""
SOURCE = "dataset"
"""The kind of builds that check the files of a dataset, and sample their rows."""
JOB = "app.building.run_build.run_build"
MAX_ENDED_BUILDS = 1000
DATASET_KINDS = {FeatureTable: "features", Trace: "trace"}
_KIND = "build"
_ALL = make_store_key("builds", "all")
_BEATS = make_store_key("builds", "beats")
_NUMBER = make_store_key("builds", "number")
_COUNTS = make_store_key("builds", "counts")
_DURATIONS = make_store_key("builds", "durations")


class Builds:
    """Repository of builds."""

    def __init__(self, store: Store, *, queue_limit: int, timeout_s: int, quotas: NameQuotas = NO_QUOTAS) -> None:
        self._store, self._quotas = store, quotas
        self._queue, self._queue_limit, self._timeout_s = JobQueue(store), queue_limit, timeout_s

    def enqueue_build(
        self,
        request: BuildRequest,
        *,
        in_background: bool = False,
        build_id: str | None = None,
        owner: BuildOwner = NO_TEAM,
    ) -> Build:
        """Queue a build.

        Args:
            in_background: whether all other jobs have priority.
            build_id: id of the build; if a build has this id already, it is returned. None for a new id.
        Raises:
            InvalidRequest: the options are not valid for the kind or the dataset.
            UnknownDataset: the dataset was not found.
            TooManyBuilds: the queue is full, or the team has its maximum of open builds.
            QuotaExceeded: the team of the name has its maximum of artifacts or bytes.
        """
        kind, options = validate_build_request(request)
        build = _queued(
            build_id=build_id,
            kind=kind.name,
            name=request.name,
            dataset=request.dataset,
            params=options.model_dump(mode="json"),
            seed=request.seed,
            guarantees=request.guarantees,
            activate=request.activate,
        )
        return self._enqueue(build, lambda raw: check_dataset(kind, options, request, raw), in_background, owner)

    def enqueue_advice(self, request: AdviceRequest, owner: BuildOwner = NO_TEAM) -> Build:
        """Queue one job that builds and compares all kinds for advice.

        Raises InvalidRequest, UnknownDataset, or TooManyBuilds.
        """
        from solvers import advice  # and with it all solvers, which nothing else here needs

        limits = request.model_dump(mode="json", exclude={"dataset", "seed"})
        build = _queued(kind=ADVICE, name=request.dataset, dataset=request.dataset, params=limits, seed=request.seed)
        return self._enqueue(build, lambda raw: advice.check(_facts(build.dataset, raw)), owner=owner)

    def enqueue_source(self, name: str, spec: Value, source: DatasetSource, owner: BuildOwner = NO_TEAM) -> Build:
        """Queue a job that checks a source's files and stores a sample as a dataset.

        Raises TooManyBuilds if the queue is full, or the team has its maximum of open builds. Raises QuotaExceeded if
        the team of the name has its maximum of datasets or bytes.
        """
        params = {"spec": spec.model_dump(mode="json"), "source": source.model_dump(mode="json")}
        build = _queued(kind=SOURCE, name=name, dataset=name, params=params, seed=source.seed)
        return self._enqueue(build, owner=owner)

    def _enqueue(
        self,
        build: Build,
        check: Callable[[bytes | None], None] = lambda record: None,
        in_background: bool = False,
        owner: BuildOwner = NO_TEAM,
    ) -> Build:
        """Queue a build after checking its dataset; an existing build of this id is returned."""
        dataset_key = make_store_key("dataset", build.dataset)

        def change(pipe: Pipeline) -> Build:
            if pipe.exists(_record(build.id)):
                return _read_watched(pipe, build.id)
            check(cast("bytes | None", pipe.get(dataset_key)))
            self._require_room(pipe, owner)
            self._require_quota(build)
            number = int(cast("bytes | None", pipe.get(_NUMBER)) or 0) + 1
            pipe.multi()
            add_owner(pipe, build.id, owner)
            pipe.set(_NUMBER, number)
            pipe.zadd(_ALL, {build.id: number})
            pipe.sadd(OPEN_BUILDS, build.id)
            pipe.set(_record(build.id), build.model_dump_json())
            pipe.hincrby(_COUNTS, "queued", 1)
            self._queue.enqueue_job(pipe, JOB, build.id, self._timeout_s, in_background=in_background)
            return build

        queued = self._store.run_transaction(change, dataset_key, OPEN_BUILDS, _NUMBER)
        with suppress(StoreUnavailable, StoreRefused):  # it is queued, whatever comes after: the next one forgets
            self._forget_old()
        return queued

    def check_room(self, owner: BuildOwner) -> None:
        """Raise TooManyBuilds if a build of a team would be refused now."""
        self._store.run_transaction(lambda pipe: self._require_room(pipe, owner), OPEN_BUILDS)

    def _require_room(self, pipe: Pipeline, owner: BuildOwner) -> None:
        waiting = _count_queued(pipe)
        if waiting >= self._queue_limit:
            raise TooManyBuilds(f"queue full: {waiting} builds, maximum is {self._queue_limit}; retry later")
        require_team_room(pipe, owner)

    def _require_quota(self, build: Build) -> None:
        """Raise QuotaExceeded if the result of a build would be refused now."""
        quota = self._quotas.find_quota(build.name)
        if build.kind == SOURCE:
            quota.require_dataset_room(self._store, build.name, LEAST_BYTES)
        elif build.kind != ADVICE:
            quota.require_artifact_room(self._store, (build.kind, build.name), LEAST_BYTES)

    def get(self, build_id: str) -> Build:
        """Return a build; raises UnknownBuild."""
        raw, progress = self._store.get_many([_record(build_id), _progress(build_id)])
        if raw is None:
            raise UnknownBuild(f"build {build_id!r} not found")
        (build,) = self._with_places([_read(raw, progress)])
        return build

    def _with_places(self, builds: list[Build]) -> list[Build]:
        """Return builds; queued ones get their place in the queue and the job before them."""
        if all(build.status != "queued" for build in builds):
            return builds
        waiting = self._queue.list_waiting()
        running = [f"{each.kind} {each.name}" for each in self.list_unended() if each.status == "running"]

        def with_place(build: Build) -> Build:
            place = waiting.index(build.id) + 1 if build.id in waiting else 1
            message = f"place {place} in the queue; running: {', '.join(running) or 'nothing, waiting for a worker'}"
            return build.model_copy(update={"progress": BuildProgress(message=message)})

        return [with_place(build) if build.status == "queued" else build for build in builds]

    def list_page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Build]:
        """Return a page of builds, newest first."""
        page = list_newest_page(self._store, _KIND, _ALL, limit, cursor)
        records = self._store.get_many([name for i in page.items for name in (_record(i), _progress(i))])
        pairs = zip(records[::2], records[1::2], strict=True)
        builds = [_read(raw, progress) for raw, progress in pairs if raw is not None]
        return Page(self._with_places(builds), page.next, page.total)

    def count_open(self) -> int:
        """Return the number of queued and running builds."""
        count: int = self._store.execute("scard", OPEN_BUILDS)
        return count

    def cancel(self, build_id: str) -> Build:
        """Cancel a queued or running build; no effect if it has ended.

        Raises UnknownBuild.
        """
        build = self.end_build(build_id, "cancelled", None)
        self._queue.stop(build_id)  # a worker that has just taken it sees its status before its first step
        return build

    def start_build(self, build_id: str) -> Build | None:
        """Mark a queued build as running and return it; None if it is not queued."""

        def change(pipe: Pipeline) -> Build | None:
            build = _read_watched(pipe, build_id)
            if build.status != "queued":
                return None
            started = build.model_copy(update={"status": "running", "started_at": current_timestamp()})
            pipe.multi()
            pipe.set(_record(build_id), started.model_dump_json())
            _count(pipe, "queued", "running")
            pipe.hincrby(_BEATS, build_id, 1)
            return started

        return self._store.run_transaction(change, _record(build_id))

    def report_progress(self, build_id: str, progress: BuildProgress) -> None:
        """Record the progress of a build; raises Cancelled if it is not running."""
        self._store.execute("set", _progress(build_id), progress.model_dump_json())
        self.require_running(self.get(build_id))

    def renew_heartbeat(self, build_id: str) -> None:
        """Renew the heartbeat of a build."""
        self._store.execute("hincrby", _BEATS, build_id, 1)

    def end_build(self, build_id: str, status: BuildStatus, error: str | None) -> Build:
        """Set the final status of a build; no effect if it has ended.

        Raises UnknownBuild.
        """

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
        """Return two functions for the transaction that publishes a build's artifact.

        The first checks that the build is running; the second marks it as succeeded.
        """
        seen: list[Build] = []

        def check(pipe: Pipeline) -> None:
            seen[:] = [_read_watched(pipe, build_id)]
            self.require_running(seen[0])

        def commit(pipe: Pipeline, ref: ArtifactRef) -> None:
            _write_end(pipe, seen[0], "succeeded", None, ref)

        return check, commit

    def end_successfully(self, build_id: str, write: Callable[[Pipeline], None]) -> None:
        """Mark a running build as succeeded, and write its result, in one transaction.

        Raises Cancelled if it is not running.
        """

        def change(pipe: Pipeline) -> None:
            build = _read_watched(pipe, build_id)
            self.require_running(build)
            pipe.multi()
            write(pipe)
            _write_end(pipe, build, "succeeded", None, None)

        self._store.run_transaction(change, _record(build_id))

    @staticmethod
    def watch_cancellation(build_id: str) -> str:
        """Return the key to watch in a transaction that depends on a build's status."""
        return _record(build_id)

    @staticmethod
    def require_running(build: Build) -> None:
        """Raise Cancelled unless the build is running."""
        if build.status != "running":
            raise Cancelled(f"build {build.id} is {build.status}")

    def list_unended(self) -> list[Build]:
        """Return the queued and running builds."""
        ids = self._store.get_members(OPEN_BUILDS)
        records = self._store.get_many([_record(build_id) for build_id in ids])
        return [Build.model_validate_json(record) for record in records if record is not None]

    def count_by_status(self) -> dict[str, int]:
        """Return the number of builds by status."""
        return {status: int(count) for status, count in self._store.get_texts(_COUNTS).items()}

    def total_durations(self) -> dict[str, tuple[int, float]]:
        """Return for each kind the number of ended builds and their total seconds."""
        sums = {name: float(value) for name, value in self._store.get_texts(_DURATIONS).items()}
        return {
            kind: (int(sums.get(f"{kind}:ended", 0)), sums.get(f"{kind}:seconds", 0.0))
            for kind in KINDS
            if f"{kind}:ended" in sums
        }

    def list_heartbeats(self) -> dict[str, int]:
        """Return the heartbeat counter of each running build."""
        return {build_id: int(beat) for build_id, beat in self._store.get_texts(_BEATS).items()}

    def is_waiting(self, build_id: str) -> bool:
        """Return whether the build waits in the job queue."""
        return self._queue.has_job(build_id)

    def count_workers(self) -> int:
        """Return the number of registered workers."""
        from rq import Worker

        with translate_errors():
            return len(Worker.all(connection=self._store.client))

    def _forget_old(self) -> None:
        """Delete the oldest ended builds beyond the maximum number."""
        oldest = {item.decode() for item in self._store.execute("zrange", _ALL, 0, -MAX_ENDED_BUILDS - 1)}
        for build_id in oldest - set(self._store.get_members(OPEN_BUILDS)):
            self._store.execute("delete", _record(build_id), _progress(build_id))
            self._store.execute("zrem", _ALL, build_id)


def _queued(*, build_id: str | None = None, **facts: Any) -> Build:
    waiting = BuildProgress(message="waiting for a worker")
    return Build(id=build_id or uuid4().hex, **facts, status="queued", progress=waiting, created_at=current_timestamp())


def validate_build_request(request: BuildRequest) -> tuple[AnyKind, Value]:
    """Return the kind and the options of a build; raises InvalidRequest."""
    kind = KINDS.get(request.kind)
    if kind is None:
        raise InvalidRequest.from_faults(Fault(("kind",), f"must be one of {', '.join(KINDS)}, got {request.kind!r}"))
    try:
        return kind, kind.options.model_validate_json(json.dumps(request.params))
    except ValidationError as error:
        message = f"is not a parameter of {kind.name}; available: {', '.join(kind.options.model_fields)}"
        raise InvalidRequest.from_validation(error, "params").listing_known(message) from error
    except ValueError as error:  # NaN or infinity among the parameters
        raise InvalidRequest.from_faults(Fault(("params",), str(error))) from error


def check_dataset(kind: AnyKind, options: Value, request: BuildRequest, raw: bytes | None) -> None:
    """Raise an error if a dataset is missing or unsuitable for these options and guarantees."""
    facts = _facts(request.dataset, raw)
    wanted = [DATASET_KINDS[one] for one in kind.datasets]
    if facts.spec.kind not in wanted:
        message = f"is of kind {facts.spec.kind!r}, a {kind.name} learns from {' or '.join(wanted)}"
        raise InvalidRequest.from_faults(Fault(("dataset",), f"{request.dataset!r} {message}"))
    if not kind.takes_partial_traces:
        require_min_complete_rows(facts)
    try:
        kind.check(facts if kind.takes_partial_traces else facts.of_complete_rows(), options)
    except InvalidRequest as error:
        raise error.with_prefix("params", but="dataset") from error
    if getattr(options, "embedder", None) == WORDS and facts.embedding_dimensions != DIMENSIONS:
        message = f"must be an endpoint: embeddings of {WORDS!r} have {DIMENSIONS} numbers, those of the dataset "
        fault = Fault(("params", "embedder"), f"{message}have {facts.embedding_dimensions}")
        raise InvalidRequest.from_faults(fault)
    require_same_window(kind, options, facts)
    if request.guarantees is not None:
        from solvers.guarantees import check_guarantees  # takes SciPy, which nothing else here needs

        check_guarantees(kind, facts, options, request.guarantees)


def _facts(dataset: str, raw: bytes | None) -> DatasetInfo:
    if raw is None:
        raise UnknownDataset(f"dataset {dataset!r} not found")
    return DatasetInfo.model_validate_json(raw)


def _count(pipe: Pipeline, before: BuildStatus, after: BuildStatus) -> None:
    pipe.hincrby(_COUNTS, before, -1)
    pipe.hincrby(_COUNTS, after, 1)


def _count_queued(pipe: Pipeline) -> int:
    """Return the number of waiting builds.

    RQ's own list lacks jobs that have just been passed to a worker.
    """
    names = [_record(item.decode()) for item in cast("set[bytes]", pipe.smembers(OPEN_BUILDS))]
    records = cast("list[bytes | None]", pipe.mget(names)) if names else []
    return sum(raw is not None and json.loads(raw)["status"] == "queued" for raw in records)


def _write_end(pipe: Pipeline, build: Build, status: BuildStatus, error: str | None, ref: ArtifactRef | None) -> Build:
    finished = current_timestamp()
    ended = build.model_copy(update={"status": status, "error": error, "artifact": ref, "finished_at": finished})
    pipe.set(_record(build.id), ended.model_dump_json())
    _count(pipe, build.status, status)
    if ended.started_at is not None:
        pipe.hincrby(_DURATIONS, f"{build.kind}:ended", 1)
        pipe.hincrbyfloat(_DURATIONS, f"{build.kind}:seconds", seconds_between(ended.started_at, finished))
    pipe.srem(OPEN_BUILDS, build.id)
    pipe.hdel(_BEATS, build.id)
    remove_owner(pipe, build.id)
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
    return make_store_key("build", build_id)


def _progress(build_id: str) -> str:
    return make_store_key("progress", build_id)  # not below the record's key, which callers spell
