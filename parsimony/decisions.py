"""Decisions of artifacts, and their cache, which is used while they are fresh or the server is unavailable."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

MAX_HELD = 1000
"""Decisions that a cache holds; the least recently used one is dropped first."""


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


@dataclass
class DecisionCache:
    """Decisions by query. Thread-safe.

    Attributes:
        hold_s: seconds for which a decision is fresh.
        clock: returns seconds.
    """

    hold_s: float
    clock: Callable[[], float] = time.monotonic
    _held: "OrderedDict[str, tuple[float, Decision]]" = field(default_factory=OrderedDict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @staticmethod
    def make_key(kind: str, name: str, version: int | None, query: Mapping[str, Any]) -> str:
        """Return the key of a query."""
        return json.dumps([kind, name, version, query], sort_keys=True)

    def get_fresh(self, key: str) -> Decision | None:
        """Return a decision that is not older than ``hold_s``."""
        with self._lock:
            held = self._held.get(key)
            if held is None or self.clock() - held[0] > self.hold_s:
                return None
            self._held.move_to_end(key)
            return held[1]

    def get_stale(self, key: str) -> Decision | None:
        """Return a decision of any age, marked as stale."""
        with self._lock:
            held = self._held.get(key)
        return None if held is None else replace(held[1], is_stale=True)

    def keep(self, key: str, decision: Decision) -> None:
        """Store a decision in the cache."""
        with self._lock:
            self._held[key] = (self.clock(), decision)
            self._held.move_to_end(key)
            while len(self._held) > MAX_HELD:
                self._held.popitem(last=False)
