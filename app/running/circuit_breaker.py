"""Circuit breakers: exclude failing endpoints, and probe them with single calls.

Each server process has one circuit breaker per endpoint. Libraries are not suitable: they wrap a function and record
its exceptions. Here, the content of replies determines failures, and decisions read the state before any call.
"""

from dataclasses import dataclass

from models.endpoint import CircuitState

FAILURES = 5
"""So many calls in a row that failed open the circuit."""
OPEN_CIRCUIT_S = 10.0
"""So many seconds it stays open before one call tries."""


@dataclass(slots=True)
class CircuitBreaker:
    """Circuit breaker of one endpoint; all times are seconds of one clock."""

    failures: int = 0
    opened_until: float | None = None
    is_probed: bool = False

    @property
    def is_open(self) -> bool:
        """Return whether the circuit is open or half-open."""
        return self.opened_until is not None

    def state_at(self, now: float) -> CircuitState:
        """Return the state at a time: closed, open, or half-open."""
        if self.opened_until is None:
            return "closed"
        return "half-open" if now >= self.opened_until else "open"

    def allows_call(self, now: float) -> bool:
        """Return whether a call may start; a half-open breaker allows one at a time."""
        state = self.state_at(now)
        return state == "closed" or (state == "half-open" and not self.is_probed)

    def record_start(self, now: float) -> bool:
        """Record the start of a call; return whether it probes an open circuit."""
        is_probe = self.state_at(now) == "half-open"
        self.is_probed = self.is_probed or is_probe
        return is_probe

    def record_end(self, now: float, is_ill: bool | None, is_probe: bool, rest_s: float | None = None) -> None:
        """Record the end of a call.

        While the circuit is open, only the result of the probe counts; other calls started before it opened.

        Args:
            is_ill: whether the endpoint failed; None if unknown.
            rest_s: seconds for which the circuit opens immediately; None if it opens only after repeated failures.
        """
        if is_probe:
            self.is_probed = False
        if rest_s is not None:
            self.opened_until = max(self.opened_until or 0.0, now + rest_s)
        elif is_ill is None or (self.is_open and not is_probe):
            return
        self.failures = self.failures + 1 if is_ill else 0
        if not is_ill:
            self.opened_until = None
        elif self.failures >= FAILURES and rest_s is None:
            self.opened_until = now + OPEN_CIRCUIT_S
