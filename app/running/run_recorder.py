"""Records runs: samples runs to record and to explore at random.

To explore a run, the other classifiers are called in the background. A random draw that is independent of the item
decides whether a run is explored. No draw is made if earlier items prevent exploration, by the budget, the calls in
flight, or the circuit breakers. So the probability ``explore`` that is written with a row is exact, whether or not the
run was explored.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from app.recording.row_lines import make_row_line
from app.recording.writer import RecordingWriter
from app.running.endpoint_caller import EndpointCaller
from app.running.executor import CallPricing, CompletedRun
from app.running.item_run import ItemRun
from app.running.protocols.message import Chat
from app.serving.catalog import LoadedArtifact
from app.store.recordings import Recordings, StoredRecording
from models.budget import NO_PAYER
from models.endpoint import ChatEndpoint
from models.errors import StoreRefused, StoreUnavailable
from models.recording import MAX_ERROR
from parsimony.runs.steps import CallResult
from solvers.base import Plan

if TYPE_CHECKING:
    from app.running.item_start import RunDependencies

logger = logging.getLogger("parsimony.recordings")
EXPLORE_TIMEOUT_S = 60.0
"""Time limit of the calls of exploration, for each item."""
MAX_CONCURRENT_EXPLORATIONS = 8
"""Items explored at the same time, for each recording and process; until one ends, no further run is drawn."""
FLUSH_INTERVAL_S = 1.0
CLOSE_S = 5.0
"""How long a server that ends waits for calls of exploration."""


@dataclass(frozen=True, slots=True)
class _RecordedRun:
    """A run to record: its decision, its calls, and its probability of exploration."""

    recording: StoredRecording
    loaded: LoadedArtifact[Plan]
    item_run: ItemRun
    results: Sequence[CallResult]
    pricing: CallPricing
    explore: float
    time: float
    caller: EndpointCaller
    explored: Sequence[CallResult] = ()


@dataclass(slots=True)
class _ExploreAccount:
    """The exploration cost of a recording on one day.

    Attributes:
        total: cost in the store, of all servers; None if not read yet.
        pending: cost that is not yet in the store.
        reserved: planned cost of calls in flight.
    """

    day: str = ""
    total: float | None = None
    pending: float = 0.0
    reserved: float = 0.0
    items: int = 0


@dataclass(slots=True)
class RunRecorder:
    """Records the runs of artifacts with a recording; use and close it on one event loop.

    Attributes:
        draw: returns a random number from [0, 1).
    """

    writer: RecordingWriter
    repository: Recordings
    draw: Callable[[], float] = field(default_factory=lambda: Random().random)
    _followed: Sequence[StoredRecording] = ()
    _by_artifact: dict[tuple[str, str], list[StoredRecording]] = field(default_factory=dict)
    _accounts: dict[str, _ExploreAccount] = field(default_factory=dict)
    _exploring: "set[asyncio.Task[None]]" = field(default_factory=set)
    _flushing: "asyncio.Task[None] | None" = None

    def update_recordings(self, recordings: Sequence[StoredRecording]) -> None:
        """Replace the recordings."""
        if recordings is self._followed:
            return
        by_artifact: dict[tuple[str, str], list[StoredRecording]] = {}
        for one in recordings:
            if one.artifact is not None:
                by_artifact.setdefault(one.artifact, []).append(one)
        accounts = {one.id: self._accounts.get(one.id, _ExploreAccount()) for one in recordings if one.spec.explore}
        self._by_artifact, self._accounts, self._followed = by_artifact, accounts, recordings
        if accounts:
            self._begin_flush()

    async def read_recordings(self) -> None:
        """Read the recordings from the store, and apply the bounds on their files.

        Raises StoreUnavailable or StoreRefused.
        """
        recordings = await asyncio.to_thread(self.repository.get_all)
        self.writer.update_recordings(recordings, await asyncio.to_thread(self.repository.list_deleted))
        self.update_recordings(recordings)

    def record_run(
        self,
        loaded: LoadedArtifact[Plan],
        item_run: ItemRun,
        completed: CompletedRun,
        pricing: CallPricing,
        dependencies: "RunDependencies",
    ) -> None:
        """Write a run in the background if it is selected for recording.

        If it is selected for exploration, explore it first.
        """
        recordings = self._by_artifact.get((loaded.ref.kind, loaded.ref.name))
        for recording in recordings or ():
            if recording.spec.sample < 1 and self.draw() >= recording.spec.sample:
                continue
            planned = sum(loaded.kind.mean_costs(loaded.plan).values()) if recording.spec.explore else 0.0
            explore = self._chance_of(recording, loaded, planned, item_run.excluded)
            results = tuple(completed.results)
            run = _RecordedRun(recording, loaded, item_run, results, pricing, explore, time.time(), dependencies.caller)
            if explore and self.draw() < explore:
                self._begin_exploration(run, planned, dependencies)
            else:
                self._write(run)

    def _chance_of(
        self, recording: StoredRecording, loaded: LoadedArtifact[Plan], planned: float, excluded: frozenset[str]
    ) -> float:
        """Return the probability that a run is explored; it must not depend on the item.

        Args:
            excluded: names whose circuit breaker was open when the run began.
        """
        if not recording.spec.explore:
            return 0.0
        account = self._account_of(recording)
        if account.total is None or account.items >= MAX_CONCURRENT_EXPLORATIONS:
            return 0.0
        spent = account.total + account.pending + account.reserved
        if spent + planned > (recording.spec.explore_budget or 0.0):
            return 0.0
        names = loaded.kind.list_answering_names(loaded.plan)
        return 0.0 if excluded.intersection(names) else recording.spec.explore

    def _account_of(self, recording: StoredRecording) -> _ExploreAccount:
        """Return today's account; its total is read in the background."""
        account, day = self._accounts.setdefault(recording.id, _ExploreAccount()), _today()
        if account.day != day:
            account.day, account.total = day, None
            self._begin_flush()
        return account

    def _begin_exploration(self, run: _RecordedRun, planned: float, dependencies: "RunDependencies") -> None:
        account = self._account_of(run.recording)
        account.reserved += planned
        account.items += 1
        exploring = asyncio.ensure_future(self._explore(run, account, planned, dependencies))
        self._exploring.add(exploring)
        exploring.add_done_callback(self._exploring.discard)

    async def _explore(
        self, run: _RecordedRun, account: _ExploreAccount, planned: float, dependencies: "RunDependencies"
    ) -> None:
        """Call the classifiers that the run did not call, and write it with all calls."""
        called = {one.name for one in run.results}
        names = [name for name in run.loaded.kind.list_answering_names(run.loaded.plan) if name not in called]
        item = run.item_run.item.item
        calls = [
            dependencies.caller.call_endpoint(name, item, EXPLORE_TIMEOUT_S, client=dependencies.client)
            for name in names
        ]
        results: Sequence[CallResult] = ()
        try:
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            results = [
                CallResult(name, error="failed", attempts=0) if isinstance(one, BaseException) else one
                for name, one in zip(names, outcomes, strict=True)
            ]
        except asyncio.CancelledError:  # the row must not look as if it had not been drawn
            results = [CallResult(name, error="the server ended", attempts=0) for name in names]
            raise
        finally:
            account.reserved -= planned
            account.items -= 1
            account.pending += sum(map(run.pricing.cost_of, results))
            self._write(replace(run, explored=results))
            dependencies.spending.record_calls(run.loaded, NO_PAYER, results, run.pricing, dependencies.caller)
            self._begin_flush()

    def _write(self, run: _RecordedRun) -> None:
        self.writer.add_row(run.recording, lambda: _make_line(run))

    def _begin_flush(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush_all())

    async def _flush_all(self) -> None:
        """Add exploration costs to the store and read its totals, until none are pending."""
        while any(one.pending or one.total is None or one.items for one in self._accounts.values()):
            with suppress(StoreUnavailable, StoreRefused):  # it is repeated
                for recording_id, account in list(self._accounts.items()):
                    await self._flush_account(recording_id, account)
            await asyncio.sleep(FLUSH_INTERVAL_S)

    async def _flush_account(self, recording_id: str, account: _ExploreAccount) -> None:
        day, cost = _today(), account.pending
        total = await asyncio.to_thread(self.repository.add_explored, recording_id, day, cost)
        account.pending -= cost
        account.day, account.total = day, total

    async def close(self) -> None:
        """Wait for exploration calls, and add their costs to the store, if available."""
        if self._exploring:
            await asyncio.wait(self._exploring, timeout=CLOSE_S)
        for one in self._exploring:
            one.cancel()
        await asyncio.gather(*self._exploring, return_exceptions=True)
        if self._flushing is not None:
            self._flushing.cancel()
        with suppress(StoreUnavailable, StoreRefused, TimeoutError):
            async with asyncio.timeout(FLUSH_INTERVAL_S):
                for recording_id, account in self._accounts.items():
                    if account.pending:
                        await self._flush_account(recording_id, account)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _list_labels(names: Sequence[str], caller: EndpointCaller) -> dict[str, frozenset[str]]:
    """Return the classes of language models that answer with a class."""
    endpoints = ((name, caller.get_endpoint(name)) for name in names)
    chats = ((name, one) for name, one in endpoints if isinstance(one, ChatEndpoint))
    return {name: frozenset(getattr(one.answer, "labels", ())) for name, one in chats}


def _make_line(run: _RecordedRun) -> bytes:
    """Return the line of a run."""
    item = run.item_run.item
    size = () if item.size is None else item.size if isinstance(item.size, tuple) else (item.size,)
    candidates = run.loaded.kind.list_answering_names(run.loaded.plan)
    labels = _list_labels(candidates, run.caller)
    calls = [_describe_call(run, one, labels, 1.0, is_explored=False) for one in run.results if one.name in candidates]
    calls += [_describe_call(run, one, labels, run.explore, is_explored=True) for one in run.explored]
    row = {
        "id": item.id if item.id is not None else hash_item(run.recording.id, item.item),
        "time": run.time,
        "version": run.loaded.ref.version,
        "size": size,
        "explore": run.explore,
        "candidates": candidates,
        "calls": calls,
    }
    embedding = item.embedding if item.embedding is not None else run.item_run.progress.embedding
    return make_row_line(row, run.recording.spec, embedding, _to_json(item.item))


def _describe_call(
    run: _RecordedRun,
    result: CallResult,
    labels: Mapping[str, frozenset[str]],
    propensity: float,
    *,
    is_explored: bool,
) -> dict[str, Any]:
    """Return a call without possible content: free answers and error messages."""
    keeps, classes = run.recording.spec.keeps_items, labels.get(result.name)
    is_content = classes is not None and result.label not in classes
    error = None if result.error is None else result.error[:MAX_ERROR] if keeps else "failed"
    return {
        "classifier": result.name,
        "label": None if is_content and not keeps else result.label,
        "confidence": result.confidence,
        "cost": run.pricing.cost_of(replace(result, setup_cost=0.0)),  # datasets have set-up groups of their own
        "seconds": result.seconds,
        "propensity": propensity,
        "is_explored": is_explored,
        "error": error,
    }


def _to_json(item: Any) -> Any:
    """Return an item as JSON; for a chat, the fields of its request."""
    return {**item.options, "messages": item.messages} if isinstance(item, Chat) else item


def hash_item(key: str, item: Any) -> str:
    """Return an id for an item without one: a keyed hash.

    Equal items of a recording have equal hashes.
    """
    text = orjson.dumps(_to_json(item), option=orjson.OPT_SORT_KEYS)
    return hmac.digest(key.encode(), text, "sha256")[:16].hex()
