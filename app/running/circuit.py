"""Circuit breakers: an endpoint that fails again and again is left out for a while, then tried by a single call.

In a server process, for each endpoint. (The libraries for it wrap a function and keep its exceptions; here what failed
is told by a reply, and the state is asked for beforehand, by who decides what to call.)
"""

from dataclasses import dataclass

from models.endpoint import CircuitState

FAILURES = 5
"""So many calls in a row that failed open the circuit."""
REST_S = 10.0
"""So many seconds it stays open before one call tries."""


@dataclass(slots=True)
class Circuit:
    """The circuit of one endpoint; times are those of one clock, in seconds."""

    failures: int = 0
    opened_at: float | None = None
    trying: bool = False

    def state(self, now: float) -> CircuitState:
        """Tell it."""
        if self.opened_at is None:
            return "closed"
        return "half-open" if now >= self.opened_at + REST_S else "open"

    def admits(self, now: float) -> bool:
        """Tell whether a call may be made; half-open, one may at a time."""
        state = self.state(now)
        return state == "closed" or (state == "half-open" and not self.trying)

    def begin(self, now: float) -> None:
        """Note that a call is made."""
        self.trying = self.state(now) == "half-open"

    def end(self, now: float, failed: bool) -> None:
        """Note how a call ended."""
        self.trying = False
        if not failed:
            self.failures, self.opened_at = 0, None
            return
        self.failures += 1
        if self.failures >= FAILURES:
            self.opened_at = now

    def leave(self) -> None:
        """Note that a call was given up by its caller, which tells nothing of the endpoint."""
        self.trying = False
