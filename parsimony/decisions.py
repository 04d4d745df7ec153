"""Decisions of artifacts, and their cache, which is used while they are fresh or the server is unavailable."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from parsimony.functions import to_plain

MAX_HELD = 1000
"""Decisions that a cache holds; the one held longest is dropped first."""
RETRY_S, LONGEST_RETRY_S = 1.0, 8.0
"""Seconds for which a stale decision is used before the server is asked again: at first, and after several failures."""
ITEM_FIELDS = {"item", "embedding", "query", "text", "acquired", "computed"}
"""Fields of queries whose decisions are of one item, and not held for others."""


@dataclass(frozen=True)
class Decision(Mapping[str, Any]):
    """A decision: a mapping of the reply's fields, which differ by kind.

    Attributes:
        fields: the reply, such as ``steps`` of a cascade or ``classifier`` of a portfolio.
        is_stale: whether it is older than the client's ``hold_s``, because the server is unavailable.
    """

    fields: Mapping[str, Any]
    is_stale: bool = False

    @property
    def id(self) -> str:
        """The id, for feedback."""
        return str(self.fields["decision"])

    @property
    def expected(self) -> Mapping[str, Any]:
        """The expected outcome of items with this decision: accuracy, cost, and their intervals."""
        expected: Mapping[str, Any] = self.fields["expected"]
        return expected

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


@dataclass(frozen=True)
class CachedDecision:
    """A decision in the cache.

    Attributes:
        until: when it stops being fresh, in seconds of the cache's clock.
        tag: the server's ``ETag`` of it; empty without.
        retry_s: seconds that the next request may take, and, if it fails, for which the decision is used stale.
    """

    decision: Decision
    until: float
    tag: str = ""
    retry_s: float = RETRY_S


@dataclass
class DecisionCache:
    """Decisions by query. Thread-safe.

    Attributes:
        hold_s: seconds for which a decision is fresh.
        clock: returns seconds.
        generation: how often it has been cleared.
    """

    hold_s: float
    clock: Callable[[], float] = time.monotonic
    generation: int = 0
    _held: "OrderedDict[str, CachedDecision]" = field(default_factory=OrderedDict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @staticmethod
    def make_key(kind: str, name: str, version: int | None, query: Mapping[str, Any]) -> str | None:
        """Return the key of a query; None if its decision is of one item."""
        if kind == "portfolio" or ITEM_FIELDS & query.keys():
            return None
        try:
            return json.dumps([kind, name, version, query], sort_keys=True, default=to_plain)
        except (TypeError, ValueError):  # the request refuses it
            return None

    def get(self, key: str) -> CachedDecision | None:
        """Return the held decision of a query, fresh or not."""
        with self._lock:
            return self._held.get(key)

    def is_fresh(self, held: CachedDecision) -> bool:
        """Return whether a decision may be used without asking the server."""
        return self.clock() <= held.until

    def keep(self, key: str, decision: Decision, tag: str = "", generation: int | None = None) -> Decision:
        """Store a decision, and return it.

        Args:
            generation: when it was asked for; it is not stored if the cache has been cleared since.
        """
        with self._lock:
            if generation is not None and generation != self.generation:
                return decision
            self._held[key] = CachedDecision(decision, self.clock() + self.hold_s, tag)
            self._held.move_to_end(key)
            while len(self._held) > MAX_HELD:
                self._held.popitem(last=False)
        return decision

    def clear(self) -> None:
        """Drop all decisions, also those that are being asked for."""
        with self._lock:
            self.generation += 1
            self._held.clear()

    def postpone(self, key: str, held: CachedDecision) -> Decision:
        """Return a decision marked as stale, and use it for its ``retry_s`` before the server is asked again."""
        stale = replace(held.decision, is_stale=True)
        with self._lock:
            if self._held.get(key) is held:
                longer = min(2 * held.retry_s, LONGEST_RETRY_S)
                self._held[key] = CachedDecision(stale, self.clock() + held.retry_s, held.tag, longer)
        return stale
