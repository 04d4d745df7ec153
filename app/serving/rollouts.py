"""Rollouts at request time: choice of the version, shadow decisions, observations.

Requests read rollouts from memory; the catalog's thread refreshes them. Observations for the store are collected in
memory and added every second. Use all methods except ``refresh_rollouts`` on one event loop.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from threading import Lock
from typing import Any, get_args
from uuid import uuid4

from app.observability.metrics import Metrics
from app.processes.background_flush import BackgroundFlush
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import with_default_limits
from app.store.pointers import Id
from app.store.rollouts import Observations, StoredRollout, VersionRollouts, VersionValue
from models import ArtifactRef, Value
from models.errors import ParsimonyError
from models.rollout import Status
from solvers.base import IN_PROCESS, ModelRunner, Plan
from solvers.rollout_evidence import ShadowDecision

logger = logging.getLogger("parsimony.rollouts")
LoadVersion = Callable[[Id, int], LoadedArtifact[Plan] | None]
"""Returns a version of an artifact; None if this process does not use the artifact."""
MAX_WAITING = 50_000
"""Observations that wait for the store; further ones are dropped, and a warning is logged."""


@dataclass(frozen=True, slots=True)
class ActiveRollout:
    """A running rollout, and its loaded candidate."""

    rollout: StoredRollout
    candidate: LoadedArtifact[Plan]


@dataclass(slots=True)
class PendingObservations:
    """Pending observations of a rollout."""

    rollout: str
    accuracies: list[VersionValue] = field(default_factory=list)
    run_costs: list[VersionValue] = field(default_factory=list)
    answered: list[VersionValue] = field(default_factory=list)
    shadow: list[ShadowDecision] = field(default_factory=list)


@dataclass(slots=True)
class RolloutSplitter:
    """Divides an artifact's traffic between the active version and a rollout's candidate."""

    rollouts: VersionRollouts
    metrics: Metrics
    _live: Mapping[Id, ActiveRollout] = field(default_factory=dict)
    _refreshing: Lock = field(default_factory=Lock)
    _failed: set[str] = field(default_factory=set)
    """Rollouts, by their ids, whose candidate could not be loaded."""
    _waiting: dict[Id, PendingObservations] = field(default_factory=dict)
    _count: int = 0
    _sender: str = field(default_factory=lambda: uuid4().hex)
    _batches: int = 0
    _sending: dict[Id, Observations] = field(default_factory=dict)
    """The addition that the store may not have made."""
    _comparing: "asyncio.Task[None] | None" = None
    _flush: BackgroundFlush = field(init=False)

    def __post_init__(self) -> None:
        self._flush = BackgroundFlush(self._flush_once, lambda: bool(self._waiting or self._sending))

    def refresh_rollouts(self, load: LoadVersion) -> None:
        """Read the rollouts, and load candidates.

        Reads do not overlap, so an older read never replaces a newer one.
        """
        with self._refreshing:
            found = self.rollouts.get_all()
            counts = Counter(rollout.status for rollout in found.values())
            for status in get_args(Status):
                self.metrics.rollouts.labels(status).set(counts[status])
            running = {one: rollout for one, rollout in found.items() if rollout.is_running}
            self._failed.intersection_update(rollout.id for rollout in running.values())
            loaded = {one: self._load(load, one, rollout) for one, rollout in running.items()}
            self._live = {one: live for one, live in loaded.items() if live is not None}

    def _load(self, load: LoadVersion, artifact: Id, rollout: StoredRollout) -> ActiveRollout | None:
        held = self._live.get(artifact)
        if held is not None and held.rollout.sha256 == rollout.sha256:
            return ActiveRollout(rollout, held.candidate)
        try:
            candidate = load(artifact, rollout.rules.version)
        except ParsimonyError as error:
            if rollout.id not in self._failed:
                version = rollout.rules.version
                logger.warning("candidate not loaded artifact=%s version=%d error=%s", artifact, version, error)
            self._failed.add(rollout.id)
            return None
        return None if candidate is None else ActiveRollout(rollout, replace(candidate, is_randomized=True))

    @property
    def is_running(self) -> bool:
        """Whether any artifact has a rollout."""
        return bool(self._live)

    def choose(self, loaded: LoadedArtifact[Plan], item: str | None) -> LoadedArtifact[Plan]:
        """Return the version that decides for an item, given the active version.

        All servers choose the same version for the same id. For items without an id, the choice is random. The chosen
        version is marked (``is_randomized``), because only outcomes of such choices are compared.
        """
        live = self._find(loaded)
        if live is None or live.rollout.mode != "canary" or loaded.ref.version != live.rollout.active_version:
            return loaded
        if _position(live.candidate.ref, item) < live.rollout.rules.share:
            return live.candidate
        return replace(loaded, is_randomized=True)

    def compare_versions(self, loaded: LoadedArtifact[Plan], query: Value, models: ModelRunner = IN_PROCESS) -> None:
        """Let a shadow candidate also decide a share of the queries, when the loop is free.

        Slow decisions are made in a thread, one at a time; queries that arrive in the meantime are not compared.
        """
        live = self._find(loaded)
        if live is None or live.rollout.mode != "shadow" or loaded.ref.version != live.rollout.active_version:
            return
        if random.random() >= live.rollout.rules.share:
            return
        if all(one.kind.is_fast_decision(one.plan, query) for one in (loaded, live.candidate)):
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self._add_decision(loaded, compare_decisions(loaded, live.candidate, query, models)))
        elif self._comparing is None or self._comparing.done():
            self._comparing = asyncio.ensure_future(self._compare_slowly(loaded, live.candidate, query, models))

    def record_run(self, loaded: LoadedArtifact[Plan], cost: float | None, *, is_answered: bool) -> None:
        """Record an item's run, if the rollout chose its version.

        A run without an answer also counts as an answer of quality 0.

        Args:
            cost: cost of the run; None if no call was made.
        """
        version = loaded.ref.version

        def add(waiting: PendingObservations) -> None:
            waiting.answered.append((version, float(is_answered)))
            if cost is not None:
                waiting.run_costs.append((version, cost))
            if not is_answered:
                waiting.accuracies.append((version, 0.0))

        if loaded.is_randomized:
            self._add(loaded, add)

    async def close(self) -> None:
        """Add the pending observations to the store, if it is available."""
        await self._flush.close()
        lost = self._count + sum(one.count for one in self._sending.values())
        if lost:
            logger.warning("rollout observations lost count=%d", lost)
            self.metrics.rollout_observations_lost.inc(lost)

    def _find(self, loaded: LoadedArtifact[Plan]) -> ActiveRollout | None:
        return self._live.get((loaded.ref.kind, loaded.ref.name))

    async def _compare_slowly(
        self, loaded: LoadedArtifact[Plan], candidate: LoadedArtifact[Plan], query: Value, models: ModelRunner
    ) -> None:
        self._add_decision(loaded, await asyncio.to_thread(compare_decisions, loaded, candidate, query, models))

    def _add_decision(self, loaded: LoadedArtifact[Plan], decision: ShadowDecision | None) -> None:
        if decision is not None:
            self._add(loaded, lambda waiting: waiting.shadow.append(decision))

    def _add(self, loaded: LoadedArtifact[Plan], add: Callable[[PendingObservations], None]) -> None:
        if self._count >= MAX_WAITING:
            logger.warning("rollout observations not recorded, retrying waiting=%d", self._count)
            self.metrics.rollout_observations_lost.inc()
            return
        live, artifact = self._find(loaded), (loaded.ref.kind, loaded.ref.name)
        if live is None:
            return
        if artifact not in self._waiting or self._waiting[artifact].rollout != live.rollout.id:
            self._waiting[artifact] = PendingObservations(live.rollout.id)
        self._count += 1
        add(self._waiting[artifact])
        self._flush.start_flushing()

    async def _flush_once(self) -> None:
        if not self._sending and self._waiting:
            self._batches += 1
            sender = self._sender, self._batches
            self._sending = {
                artifact: Observations(
                    accuracies=new.accuracies,
                    run_costs=new.run_costs,
                    answered=new.answered,
                    shadow=new.shadow,
                    rollout=new.rollout,
                    sender=sender,
                )
                for artifact, new in self._waiting.items()
            }
            self._waiting, self._count = {}, 0
        if self._sending:
            await asyncio.to_thread(self.rollouts.add_observations, self._sending)
            self._sending = {}


def get_item_id(query: Value) -> str | None:
    """Return the id of the item of a query, if it has one."""
    item = getattr(query, "item", None)
    return item if isinstance(item, str) else None


def _position(candidate: ArtifactRef, item: str | None) -> float:
    """Return the position of an item in [0, 1), by a hash of its id and the candidate."""
    if item is None:
        return random.random()
    digest = blake2b(f"{candidate.full_name}/{item}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def compare_decisions(
    loaded: LoadedArtifact[Plan], candidate: LoadedArtifact[Plan], query: Value, models: ModelRunner
) -> ShadowDecision | None:
    """Decide a query with both versions; None if the active version cannot decide it.

    Decisions differ if they have other classifiers or features, or the same ones in another order.
    """
    active = _decide(loaded, query, models)
    if active is None:
        return None
    other = _decide(candidate, query, models)
    if other is None:
        return ShadowDecision(None, None)
    costs = None if active[1] is None or other[1] is None else (active[1], other[1])
    return ShadowDecision(active[0] != other[0], costs)


def _decide(
    loaded: LoadedArtifact[Plan], query: Value, models: ModelRunner
) -> tuple[tuple[str, ...], float | None] | None:
    """Return the names in a decision and its expected cost; None if it cannot be made."""
    kind = loaded.kind
    try:
        query, decision = kind.decide(loaded.plan, with_default_limits(loaded, query), models=models)
        expected = kind.estimate_outcome(loaded.plan, loaded.record.summary, query, decision)
    except ParsimonyError:
        return None
    known = frozenset(kind.list_called_names(loaded.plan))
    return tuple(name for name in _texts_in(decision) if name in known), expected.cost


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a decision, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Value):
        yield from _texts_in(vars(value))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts_in(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _texts_in(each)
