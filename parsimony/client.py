"""Clients of a server: every operation, synchronous and asynchronous."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from parsimony.artifact_requests import (
    changes_versions,
    find_version,
    request_decision,
    request_records,
    request_shared_decision,
)
from parsimony.artifacts import A, Artifact, AsyncArtifact, HasArtifacts
from parsimony.decisions import RETRY_S, CachedDecision, Decision, DecisionCache
from parsimony.errors import NO_REPLY, UNREACHABLE, ParsimonyError, ServerError, TooManyRequests, Unavailable
from parsimony.feedback import FeedbackSender
from parsimony.recorder import Recorder
from parsimony.resumable_upload import Pause, ReportUpload, advance_upload, perform_upload, upload_file
from parsimony.transport import NOT_MODIFIED, Connection, Request, send, send_async

if TYPE_CHECKING:
    from parsimony.replies import ArtifactRecord, Build
    from parsimony.typed_routes import AsyncRoutes, SyncRoutes
else:
    from parsimony.routes import Routes as AsyncRoutes
    from parsimony.routes import Routes as SyncRoutes

_POLL_INTERVAL_S = 0.2
MIN_REQUEST_TIMEOUT_S = 0.05
"""Least time limit of a request for a decision that is not held, in seconds."""
DECISION_CACHE_TTL_S = 30.0
"""Seconds for which decisions that are the same for all items are held."""


class BaseClient(HasArtifacts[A]):
    """Settings and held decisions of a client."""

    _http_type: Callable[..., Any]

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
        hold_s: float = DECISION_CACHE_TTL_S,
    ) -> None:
        self._connection = Connection(url, key, timeout_s, retries)
        self._http = self._http_type(**self._connection.make_options())
        self._held = DecisionCache(hold_s)
        self._unavailable_until = 0.0
        self._records: dict[tuple[str, str, int | None], ArtifactRecord] = {}

    def _look_up(
        self, kind: str, name: str, version: int | None, query: Mapping[str, Any], timeout_s: float | None
    ) -> "Decision | DecisionAttempt":
        """Return the held decision if it is fresh, else how to ask for it: with an older one, shortly and once.

        Raises Unavailable if the server was unavailable less than ``RETRY_S`` ago, and no decision is held.
        """
        key, generation = DecisionCache.make_key(kind, name, version, query), self._held.generation
        if key is None:
            self._refuse_at_once()
            request, limit_s = request_decision(kind, name, version, query), bound_timeout(timeout_s)
            return DecisionAttempt(request, self._connection.retries, limit_s)
        held = self._held.get(key)
        if held is None:
            self._refuse_at_once()
            request, limit_s = request_shared_decision(kind, name, version, query), bound_timeout(timeout_s)
            return DecisionAttempt(request, self._connection.retries, limit_s, key, generation=generation)
        if self._held.is_fresh(held):
            return held.decision
        limits = [held.retry_s, self._connection.timeout_s, *([] if timeout_s is None else [timeout_s / 2])]
        request = request_shared_decision(kind, name, version, query, held.tag)
        return DecisionAttempt(request, 0, min(limits), key, held, generation)

    def _refuse_at_once(self) -> None:
        if time.monotonic() < self._unavailable_until:
            raise Unavailable(f"{self._http.base_url} was unavailable less than {RETRY_S:g} s ago", code=UNREACHABLE)

    def _keep_decision(self, attempt: "DecisionAttempt", reply: httpx.Response) -> Decision:
        """Hold and return the decision of a reply, or the held one if it has not changed."""
        self._unavailable_until = 0.0
        if attempt.held is not None and reply.status_code == NOT_MODIFIED:
            decision, tag = replace(attempt.held.decision, is_stale=False), attempt.held.tag
        else:
            decision, tag = Decision(_read(reply)), reply.headers.get("etag", "")
        return decision if attempt.key is None else self._held.keep(attempt.key, decision, tag, attempt.generation)

    def _use_stale(self, attempt: "DecisionAttempt", error: ParsimonyError) -> Decision:
        """Return the held decision, marked as stale; raises the error without one."""
        if attempt.key is not None and attempt.held is not None:
            return self._held.postpone(attempt.key, attempt.held)
        if error.code in (UNREACHABLE, NO_REPLY) and attempt.timeout_s is None:
            self._unavailable_until = time.monotonic() + RETRY_S
        raise error

    def _forget(self) -> None:
        """Drop decisions and records, since the versions of artifacts may have changed."""
        self._held.clear()
        self._records.clear()


@dataclass(frozen=True)
class DecisionAttempt:
    """One request of a decision to the server, with the cached decision as fallback.

    Attributes:
        retries: how often the request is repeated.
        timeout_s: time limit in seconds; None: the client's.
        key: key of the decision in the cache; None for a decision about one item, which is not cached.
        held: the cached decision, which is not fresh.
        generation: generation of the cache at the request.
    """

    request: Request
    retries: int
    timeout_s: float | None
    key: str | None = None
    held: CachedDecision | None = None
    generation: int = 0


class Parsimony(BaseClient[Artifact], SyncRoutes):
    """Client of a server. Connections are reused; methods may be called from several threads.

    Args:
        url: address of the server; None: that of ``PARSIMONY_URL``, or port 8000 of this machine.
        key: API key; None: that of ``PARSIMONY_KEY``, or none.
        timeout_s: time limit of each request, in seconds.
        retries: how often a request that changes nothing twice is sent again if the server is unavailable.
        hold_s: seconds for which a decision that is the same for all items is held, unless this client changes the
            version that decides. While the server is unavailable, an older one is used, marked ``is_stale``.
    """

    _artifact_type = Artifact
    _http_type = httpx.Client
    _http: httpx.Client

    def __enter__(self) -> "Parsimony":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address of the server."""
        return str(self._http.base_url)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def decide(
        self, kind: str, name: str, *, version: int | None = None, timeout_s: float | None = None, **query: Any
    ) -> Decision:
        """Return a decision; one that is the same for all items is held for ``hold_s`` seconds.

        Args:
            kind: artifact kind.
            timeout_s: time limit in seconds, with retries; None: the client's for each attempt. Each read of the reply
                may take as long; ``AsyncParsimony`` limits all of it.
            query: limits such as ``budget=5``, and what is known of the item.
        Raises:
            Infeasible: no decision keeps the limits.
            NotFound: no such artifact.
            InvalidRequest: an invalid limit or value.
            Unavailable: the server is unavailable, or was less than a second ago, and no decision is held.
        """
        attempt = self._look_up(kind, name, version, query, timeout_s)
        if isinstance(attempt, Decision):
            return attempt
        try:
            reply = send(self._http, attempt.request, attempt.retries, attempt.timeout_s)
        except (Unavailable, TooManyRequests) as error:
            return self._use_stale(attempt, error)
        return self._keep_decision(attempt, reply)

    def describe(
        self, kind: str, name: str, version: int | None = None, *, timeout_s: float | None = None
    ) -> "ArtifactRecord":
        """Return an artifact's record: unit, summary, and savings. It is read once.

        Args:
            timeout_s: time limit in seconds, with retries; None: the client's for each attempt.
        Raises:
            NotFound: no such artifact.
        """
        key = kind, name, version
        if key not in self._records:
            reply = send(self._http, request_records(*key), self._connection.retries, bound_timeout(timeout_s))
            self._records[key] = find_version(_read(reply), version)
        return self._records[key]

    def build(
        self, kind: str, name: str, dataset: str, *, timeout_s: float | None = None, **options: Any
    ) -> "ArtifactRecord":
        """Build an artifact and wait for it; return its record.

        Args:
            timeout_s: seconds to wait; None: until it ends.
            options: ``params``, ``seed``, and ``guarantees``, as in the API.
        Raises:
            ServerError: the build failed; the message has the reason.
            TimeoutError: it did not end in time; it continues.
        """
        build = self.start_build(kind, name, dataset, **options)
        ends_at = inf if timeout_s is None else time.monotonic() + timeout_s
        while (version := _built_version(build, ends_at)) is None:
            time.sleep(_POLL_INTERVAL_S)
            build = self.show_build(build["id"])
        self._forget()
        return self.describe(kind, name, version)

    def upload_table(
        self, table: str | Path, *, upload_id: str | None = None, on_progress: ReportUpload | None = None
    ) -> str:
        """Upload a table of any size in parts, and return the id for ``put_dataset_upload``.

        After an error of the connection or the server, the upload continues where it was.

        Args:
            table: path of a CSV, JSON Lines, or Parquet file; the first two also gzipped.
            upload_id: id of an interrupted upload of the same file, to continue it; None for a new one.
            on_progress: receives the progress after each part, with the id.
        Raises:
            NotFound: the upload to continue has expired.
            Unavailable: the server is unavailable for about two minutes.
        """
        steps = upload_file(table, upload_id, on_progress)
        return perform_upload(steps, lambda request: send(self._http, request, self._connection.retries))

    def record(self, name: str, classifiers: Mapping[str, Any] | None = None, **options: Any) -> Recorder:
        """Record calls of your own classifiers, from which a dataset is made.

        Args:
            classifiers: functions of an item, or fitted classifiers, by name; None: add them by
                ``Recorder.classifier``.
            options: ``costs``, ``unit``, ``explore``, and others of ``Recorder``.
        """
        return Recorder(self, name, classifiers or {}, **options)

    def collect_feedback(self, **options: Any) -> FeedbackSender:
        """Return a sender that reports outcomes in the background, in batches."""
        return FeedbackSender(self.send_feedback, **options)

    def _send(self, request: Request) -> Any:
        try:
            return _read(send(self._http, request, self._connection.retries))
        finally:
            if changes_versions(request):
                self._forget()


class AsyncParsimony(BaseClient[AsyncArtifact], AsyncRoutes):
    """Client of a server, for asyncio. Arguments and errors are those of ``Parsimony``."""

    _artifact_type = AsyncArtifact
    _http_type = httpx.AsyncClient
    _http: httpx.AsyncClient

    def __init__(self, url: str | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        import_module("anyio._backends._asyncio")  # takes 70 ms, which are not to count within the first deadline

    async def __aenter__(self) -> "AsyncParsimony":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def decide(
        self, kind: str, name: str, *, version: int | None = None, timeout_s: float | None = None, **query: Any
    ) -> Decision:
        """Return a decision; arguments and errors are those of ``Parsimony.decide``."""
        attempt = self._look_up(kind, name, version, query, timeout_s)
        if isinstance(attempt, Decision):
            return attempt
        try:
            reply = await send_async(self._http, attempt.request, attempt.retries, attempt.timeout_s)
        except (Unavailable, TooManyRequests) as error:
            return self._use_stale(attempt, error)
        return self._keep_decision(attempt, reply)

    async def describe(
        self, kind: str, name: str, version: int | None = None, *, timeout_s: float | None = None
    ) -> "ArtifactRecord":
        """Return an artifact's record; arguments and errors are those of ``Parsimony.describe``."""
        key = kind, name, version
        if key not in self._records:
            reply = await send_async(
                self._http, request_records(*key), self._connection.retries, bound_timeout(timeout_s)
            )
            self._records[key] = find_version(_read(reply), version)
        return self._records[key]

    async def build(
        self, kind: str, name: str, dataset: str, *, timeout_s: float | None = None, **options: Any
    ) -> "ArtifactRecord":
        """Build an artifact and wait for it; arguments and errors are those of ``Parsimony.build``."""
        build = await self.start_build(kind, name, dataset, **options)
        ends_at = inf if timeout_s is None else time.monotonic() + timeout_s
        while (version := _built_version(build, ends_at)) is None:
            await asyncio.sleep(_POLL_INTERVAL_S)
            build = await self.show_build(build["id"])
        self._forget()
        return await self.describe(kind, name, version)

    async def upload_table(
        self, table: str | Path, *, upload_id: str | None = None, on_progress: ReportUpload | None = None
    ) -> str:
        """Upload a table of any size; arguments and errors are those of ``Parsimony.upload_table``."""
        steps = upload_file(table, upload_id, on_progress)
        outcome: httpx.Response | ParsimonyError | None = None
        while not isinstance(step := advance_upload(steps, outcome), str):
            try:
                outcome = await self._perform_step(step)
            except ParsimonyError as error:
                outcome = error
        return step

    async def _perform_step(self, step: Request | Pause) -> httpx.Response | None:
        if isinstance(step, Request):
            return await send_async(self._http, step, self._connection.retries)
        await asyncio.sleep(step.seconds)
        return None

    async def _send(self, request: Request) -> Any:
        try:
            return _read(await send_async(self._http, request, self._connection.retries))
        finally:
            if changes_versions(request):
                self._forget()


def bound_timeout(timeout_s: float | None) -> float | None:
    """Return the time limit of a request without which nothing can be decided, at least ``MIN_REQUEST_TIMEOUT_S``."""
    return None if timeout_s is None else max(timeout_s, MIN_REQUEST_TIMEOUT_S)


def _built_version(build: "Build", ends_at: float) -> int | None:
    """Return the version of a build that has succeeded, None before.

    Raises ServerError if it failed or was canceled, TimeoutError after ``ends_at``.
    """
    if build["status"] in ("failed", "cancelled"):
        reason = build["error"] or "cancelled"
        message = f"build {build['id']} {build['status']}: {reason}"
        raise ServerError(message, code="build-failed", details={**build})
    if build["status"] == "succeeded" and build["artifact"] is not None:
        return build["artifact"]["version"]
    if time.monotonic() > ends_at:
        raise TimeoutError(f"build {build['id']} has not ended in time; it continues")
    return None


def _read(reply: httpx.Response) -> Any:
    if reply.status_code == 204:
        return None
    if "json" not in reply.headers.get("content-type", ""):
        return reply.content
    try:
        return reply.json()
    except ValueError as error:
        raise ParsimonyError(f"{reply.request.url} sent malformed JSON", status=reply.status_code) from error
