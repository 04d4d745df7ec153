"""Rate limits: one token bucket per client."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MAX_CLIENTS = 10_000
"""Buckets held at once; the least recently used one is evicted for a new one."""


class RateLimiter:
    """Token buckets of clients: ``rate`` tokens per second, with a capacity of at least one."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._clock = rate, max(1.0, rate), clock
        self._held: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def take_token(self, caller: Hashable, max_wait_s: float = 0.0) -> float:
        """Take a token if one is available within ``max_wait_s``; return the seconds until then. O(1).

        >>> buckets = RateLimiter(2.0, clock=lambda: 0.0)
        >>> [buckets.take_token("a") for _ in range(3)], buckets.take_token("b")
        ([0.0, 0.0, 0.5], 0.0)
        >>> [buckets.take_token("b", max_wait_s=1.0) for _ in range(5)]  # the last two take none
        [0.0, 0.5, 1.0, 1.5, 1.5]
        """
        now = self._clock()
        tokens, before = self._held.pop(caller, (self._most, now))
        tokens = min(self._most, tokens + (now - before) * self._rate)
        wait = max(0.0, (1.0 - tokens) / self._rate)
        self._held[caller] = (tokens if wait > max_wait_s else tokens - 1.0, now)
        if len(self._held) > MAX_CLIENTS:
            self._held.popitem(last=False)
        return wait
