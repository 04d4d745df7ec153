"""Exception classes; ``app/http/problem_details.py`` maps them to HTTP statuses.

::

    ParsimonyError
    ├── InvalidRequest          a field is missing, out of range, not finite, of the wrong shape
    │   └── CorruptArtifact     bytes that do not match their checksum or format
    ├── NotFound
    │   ├── UnknownDataset
    │   ├── UnknownBuild
    │   ├── UnknownAdvice
    │   ├── UnknownArtifact
    │   ├── UnknownVersion
    │   ├── UnknownEndpoint
    │   ├── UnknownBatch
    │   ├── UnknownBudget
    │   ├── UnknownRollout
    │   ├── UnknownRecording
    │   └── UnknownUpload
    ├── Infeasible              no decision can satisfy the deadline or budget
    │   └── ConflictingLimits   limits that cannot be kept together
    ├── SmallOverlap            logged rows do not support an estimate
    ├── Conflict                a resource that is in use cannot be deleted
    ├── Changed                 the resource has changed since it was read
    ├── PayloadTooLarge
    ├── UnsupportedMediaType
    ├── Unauthorized            no key, or an unknown one
    ├── Forbidden               a key without the role
    ├── TooManyBuilds           the queue is full
    ├── QuotaExceeded           a team's names have their maximum of objects or bytes
    ├── TooManyRequests         the rate limit is exceeded
    ├── BudgetSpent             a budget is spent
    ├── RequestTimeout          a body is not received in time
    ├── StoreUnavailable        the store cannot be reached
    ├── StoreRefused            the store refuses writes: full, read-only
    ├── SolverTimeout           no feasible answer inside the time limit
    ├── EndpointFailed          a run has no answer, because its calls failed
    │   ├── EndpointsBusy       all its classifiers have reached their rate limits
    │   └── RunTimeout          its time limit ended before any answer
    ├── ProviderRefused         a model's provider rejects the request itself
    └── Cancelled               a build or a batch was cancelled
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from models.overlap import Overlap
from models.validation_messages import NO_LIMIT, UNKNOWN, describe_fault, drop_union_parts

MAX_FAULTS = 100
"""Faults that are listed; of more the number."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An invalid field of the input, and the reason.

    Attributes:
        row: the first invalid row, counted from 0; None for reasons without one row.
    """

    loc: tuple[str | int, ...]
    msg: str
    row: int | None = None


class ParsimonyError(Exception):
    """Base of all errors; ``str(error)`` is a message for users."""


class InvalidRequest(ParsimonyError):
    """The input is invalid; ``faults`` lists each invalid field and the reason."""

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)

    @classmethod
    def from_faults(cls, *faults: Fault) -> "InvalidRequest":
        """Return an error with these faults; its message is the first fault.

        >>> print(InvalidRequest.from_faults(Fault(("budget",), "is -1, must be at least 0")))
        budget: is -1, must be at least 0
        """
        return cls(_detail(faults[0], len(faults) - 1), faults)

    @classmethod
    def from_validation(
        cls, error: ValidationError | Sequence[Mapping[str, Any]], *prefix: str | int
    ) -> "InvalidRequest":
        """Convert a Pydantic validation error; ``prefix`` is prepended to its locations.

        A list that is too short only because its members were invalid is not reported.
        """
        listed = error if isinstance(error, Sequence) else error.errors()
        inner = {tuple(fault["loc"])[:length] for fault in listed for length in range(len(fault["loc"]))}
        reported = [fault for fault in listed if not (fault["type"] == "too_short" and tuple(fault["loc"]) in inner)]
        # a misspelt name is why another one is missing
        reported.sort(key=lambda fault: fault["type"] != "extra_forbidden")
        faults = [
            Fault((*prefix, *drop_union_parts(fault["loc"])), describe_fault(fault)) for fault in reported[:MAX_FAULTS]
        ]
        if len(reported) > MAX_FAULTS:
            faults.append(Fault(prefix, f"and {len(reported) - MAX_FAULTS} more"))
        return cls(_detail(faults[0], len(reported) - 1), faults)

    def with_prefix(self, prefix: str, *, but: str) -> "InvalidRequest":
        """Return the error with a prefix prepended to the location of each fault.

        A location that begins with ``but`` is unchanged.
        """
        return InvalidRequest.from_faults(
            *(f if f.loc[:1] == (but,) else Fault((prefix, *f.loc), f.msg) for f in self.faults)
        )

    def listing_known(self, message: str) -> "InvalidRequest":
        """Return the error; messages about unknown fields list the known fields."""
        return InvalidRequest.from_faults(
            *(Fault(f.loc, message) if f.msg in (UNKNOWN, NO_LIMIT) else f for f in self.faults)
        )


def _detail(first: Fault, others: int) -> str:
    """Return the first fault, and the number of further faults."""
    where = ".".join(str(part) for part in first.loc)
    rest = f" (and {others} more)" if others else ""
    return f"{where}: {first.msg}{rest}" if where else f"{first.msg}{rest}"


class CorruptArtifact(InvalidRequest):
    """The bytes do not match their checksum or format."""


class NotFound(ParsimonyError):
    """The named resource does not exist."""


class UnknownDataset(NotFound):
    """No dataset has this name."""


class UnknownBuild(NotFound):
    """No build has this id."""


class UnknownAdvice(NotFound):
    """The dataset has no advice, or was replaced since."""


class UnknownArtifact(NotFound):
    """No artifact of this kind has this name."""


class UnknownVersion(NotFound):
    """The artifact does not have this version."""


class UnknownEndpoint(NotFound):
    """No endpoint has this name."""


class UnknownBatch(NotFound):
    """No batch has this id, or it has expired."""


class UnknownBudget(NotFound):
    """No budget has this name."""


class UnknownRollout(NotFound):
    """The artifact has had no rollout."""


class UnknownRecording(NotFound):
    """No recording has this name."""


class UnknownUpload(NotFound):
    """No upload has this id, or it has expired or been used."""


class Infeasible(ParsimonyError):
    """No decision is within the deadline or budget."""


@dataclass(frozen=True, slots=True)
class ConflictingLimit:
    """One of several conflicting limits of a batch.

    Attributes:
        limit: path of the limit in the request.
        bound: value of the limit.
        most: whether the bound is a maximum; otherwise it is a minimum.
        give: amount by which to relax the limit if the others are unchanged; None if time ran out.
    """

    limit: str
    bound: float
    most: bool
    give: float | None

    def __str__(self) -> str:
        """Return the limit as text.

        >>> print(ConflictingLimit("budget", 10.0, True, 2.5))
        budget at most 10 (would have to be 12.5)
        """
        needed = (
            "" if self.give is None else f" (would have to be {self.bound + (1 if self.most else -1) * self.give:.6g})"
        )
        return f"{self.limit} at {'most' if self.most else 'least'} {self.bound:.6g}{needed}"


class ConflictingLimits(Infeasible):
    """No assignment keeps all limits; ``conflict`` is a minimal conflicting set."""

    def __init__(self, detail: str, conflict: Sequence[ConflictingLimit] = ()) -> None:
        super().__init__(detail)
        self.conflict = tuple(conflict)

    @classmethod
    def from_limits(cls, *conflict: ConflictingLimit) -> "ConflictingLimits":
        """Return the error that lists each limit and its nearest feasible value."""
        if len(conflict) == 1:
            return cls(f"no assignment meets {conflict[0]}", conflict)
        return cls(f"limits cannot be met together: {'; '.join(map(str, conflict))}; relax one of them", conflict)


class SmallOverlap(ParsimonyError):
    """Logged rows do not support an estimate; ``overlap`` has the numbers."""

    def __init__(self, detail: str, overlap: Overlap | None = None) -> None:
        super().__init__(detail)
        self.overlap = overlap


class Conflict(ParsimonyError):
    """The resource is in use and cannot be deleted or replaced."""


class PreconditionFailed(ParsimonyError):
    """The resource to replace or delete has changed (``If-Match``)."""


class PayloadTooLarge(ParsimonyError):
    """The body exceeds the size limit."""


class UnsupportedMediaType(ParsimonyError):
    """The route does not support the media type of the body."""


class Unauthorized(ParsimonyError):
    """The API key is missing or unknown."""


class Forbidden(ParsimonyError):
    """The API key does not have the required role."""


class TooManyBuilds(ParsimonyError):
    """The build queue is full."""


class QuotaExceeded(ParsimonyError):
    """A team has its maximum of what is stored under its names."""


class TooManyRequests(ParsimonyError):
    """The rate limit is exceeded; ``wait_s`` is the time until the next request."""

    def __init__(self, detail: str, wait_s: float = 1.0) -> None:
        super().__init__(detail)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class SpentBound:
    """A bound of a budget that the item would exceed.

    Attributes:
        budget: name of the budget.
        quantity: what is limited: cost, requests, or tokens.
        spent: amount spent in this period by items that have ended.
        reserved: planned maximum of the items in flight.
        released: part of the amount that pacing allows to be spent so far.
        planned: planned maximum of the item.
        resets_at: end of the period, UTC, ISO 8601; None if it never ends.
    """

    budget: str
    quantity: str
    unit: str
    amount: float
    spent: float
    reserved: float
    released: float
    planned: float
    resets_at: str | None


class BudgetSpent(ParsimonyError):
    """The item's planned maximum exceeds the remaining budget; ``bound`` has the numbers."""

    def __init__(self, detail: str, bound: SpentBound | None = None) -> None:
        super().__init__(detail)
        self.bound = bound

    @classmethod
    def from_bound(cls, bound: SpentBound) -> "BudgetSpent":
        """Return an error whose message has the numbers of the bound."""
        left = max(bound.released - bound.spent - bound.reserved, 0.0)
        until = f"; it resets at {bound.resets_at}" if bound.resets_at else ""
        return cls(
            f"budget {bound.budget!r} has {left:.6g} of {bound.released:.6g} {bound.unit} left ({bound.spent:.6g} "
            f"spent, {bound.reserved:.6g} reserved by items in flight), the item may cost {bound.planned:.6g}{until}",
            bound,
        )


class RequestTimeout(ParsimonyError):
    """The body was received too slowly or incompletely."""


class StoreUnavailable(ParsimonyError):
    """The store cannot be reached."""


class StoreRefused(ParsimonyError):
    """The store refuses writes because it is full or read-only."""


class SolverTimeout(ParsimonyError):
    """No feasible solution was found within the time limit."""


class EndpointFailed(ParsimonyError):
    """No classifier of a run returned an answer."""


class EndpointsBusy(EndpointFailed):
    """All classifiers of a run have reached their rate limits.

    ``wait_s`` is the time until the first one can be called.
    """

    def __init__(self, detail: str, wait_s: float = 5.0) -> None:
        super().__init__(detail)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class ProviderError:
    """The error reply of a model's provider: its status, and OpenAI's error fields."""

    status: int
    message: str | None = None
    type: str | None = None
    param: str | None = None
    code: str | None = None


class ProviderRefused(ParsimonyError):
    """A provider rejected the request as invalid; no other model is called.

    ``reply`` is the provider's error.
    """

    def __init__(self, detail: str, reply: ProviderError = ProviderError(400)) -> None:
        super().__init__(detail)
        self.reply = reply


class RunTimeout(EndpointFailed):
    """The time limit of a run ended before any classifier answered."""


class Cancelled(ParsimonyError):
    """A build or batch was canceled."""
