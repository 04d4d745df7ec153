"""Circuit breakers: an endpoint that fails again and again is left out for a while, then tried by a single call.

In a server process, for each endpoint. (The libraries for it wrap a function and keep its exceptions; here what failed
is set by replies, and read before a decision which endpoints to call.)
"""

from dataclasses import dataclass

from models.endpoint import CircuitState

FAILURES = 5
"""So many calls in a row that failed open the circuit."""
REST_S = 10.0
"""So many seconds it stays open before one call tries."""


@dataclass(slots=True)
class CircuitBreaker:
    """The circuit of one endpoint; times are those of one clock, in seconds."""

    failures: int = 0
    opened_at: float | None = None
    is_probed: bool = False

    def state_at(self, now: float) -> CircuitState:
        """Return the state at a time."""
        if self.opened_at is None:
            return "closed"
        return "half-open" if now >= self.opened_at + REST_S else "open"

    def allows_call(self, now: float) -> bool:
        """Return whether a call may be made; half-open, one at a time."""
        state = self.state_at(now)
        return state == "closed" or (state == "half-open" and not self.is_probed)

    def record_start(self, now: float) -> bool:
        """Record the start of a call; returns whether it is the probe of an open circuit."""
        is_probe = self.state_at(now) == "half-open"
        self.is_probed = self.is_probed or is_probe
        return is_probe

    def record_end(self, now: float, is_ill: bool | None, is_probe: bool) -> None:
        """Record the end of a call. is_ill: whether the endpoint failed; None: unknown. While the
        circuit is open only the call that tries it counts: others were begun before."""
        if is_probe:
            self.is_probed = False
        if is_ill is None or (self.opened_at is not None and not is_probe):
            return
        self.failures = self.failures + 1 if is_ill else 0
        if not is_ill:
            self.opened_at = None
        elif self.failures >= FAILURES:
            self.opened_at = now
