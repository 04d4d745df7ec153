"""The exceptions, as one small tree; ``app/http/problems.py`` maps them to HTTP statuses.

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
    │   └── UnknownBatch
    ├── Infeasible              no decision can satisfy the deadline or budget
    │   └── ConflictingLimits   limits that cannot be kept together
    ├── Conflict                what is in use cannot be deleted
    ├── Changed                 what is to be replaced or deleted is another one by now
    ├── PayloadTooLarge
    ├── UnsupportedMediaType
    ├── Unauthorized            no key, or an unknown one
    ├── Forbidden               a key without the role
    ├── TooManyBuilds           the queue is full
    ├── TooManyRequests         a caller asks more often than it may
    ├── RequestTimeout          a body does not come
    ├── StoreUnavailable        the store is needed and cannot be reached
    ├── StoreRefused            the store is there and cannot take it: full, read-only
    ├── SolverTimeout           no feasible answer inside the time limit
    ├── EndpointFailed          a run has no answer: what it called failed
    │   └── RunTimeout          its time was over before there was one
    └── Cancelled               a build or a batch was cancelled
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from models.base import LIMITS, NAME_PATTERN

UNKNOWN = "is not a known field"
NO_LIMIT = "is not supported for this kind of artifact"
_MEMBER = re.compile(r"^(constrained-\w+|(literal|tuple|dict|list|function-\w+)\[.*\])$")
MOST_FAULTS = 100
"""Faults that are listed; of more the number."""
MOST_DIGITS = 1e15
"""Larger bounds are written as a power of ten."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with the input: where it is, and what is wrong with it."""

    loc: tuple[str | int, ...]
    msg: str


class ParsimonyError(Exception):
    """The base of all; ``str(error)`` is a sentence for people, with the numbers in it."""


class InvalidRequest(ParsimonyError):
    """The input is wrong; ``faults`` names each field and what is wrong with it."""

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)

    @classmethod
    def from_faults(cls, *faults: Fault) -> "InvalidRequest":
        """Make the error whose detail is the first of its faults.

        >>> print(InvalidRequest.from_faults(Fault(("budget",), "is -1, must be at least 0")))
        budget: is -1, must be at least 0
        """
        return cls(_detail(faults[0], len(faults) - 1), faults)

    @classmethod
    def from_validation(
        cls, error: ValidationError | Sequence[Mapping[str, Any]], *prefix: str | int
    ) -> "InvalidRequest":
        """Make the error of pydantic's findings, with a prefix for their locations.

        A list that is "too short" only because its members were invalid is not reported.
        """
        listed = error if isinstance(error, Sequence) else error.errors()
        inner = {tuple(fault["loc"])[:length] for fault in listed for length in range(len(fault["loc"]))}
        reported = [fault for fault in listed if not (fault["type"] == "too_short" and tuple(fault["loc"]) in inner)]
        reported.sort(
            key=lambda fault: fault["type"] != "extra_forbidden"
        )  # a misspelt name is why another one is missing
        faults = [Fault((*prefix, *_place(fault["loc"])), _said(fault)) for fault in reported[:MOST_FAULTS]]
        if len(reported) > MOST_FAULTS:
            faults.append(Fault(prefix, f"and {len(reported) - MOST_FAULTS} more"))
        return cls(_detail(faults[0], len(reported) - 1), faults)

    def with_prefix(self, prefix: str, *, but: str) -> "InvalidRequest":
        """Put a prefix before where each fault was found, but not where that begins with ``but``."""
        return InvalidRequest.from_faults(
            *(f if f.loc[:1] == (but,) else Fault((prefix, *f.loc), f.msg) for f in self.faults)
        )

    def listing_known(self, message: str) -> "InvalidRequest":
        """Replace the message of each unknown field, to list the known ones."""
        return InvalidRequest.from_faults(
            *(Fault(f.loc, message) if f.msg in (UNKNOWN, NO_LIMIT) else f for f in self.faults)
        )


def _detail(first: Fault, others: int) -> str:
    """Write the first fault, and the number of others."""
    where = ".".join(str(part) for part in first.loc)
    rest = f" (and {others} more)" if others else ""
    return f"{where}: {first.msg}{rest}" if where else f"{first.msg}{rest}"


def _place(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Leave out what pydantic calls the member of a union that was tried.

    >>> _place(("params", "samples", "literal['auto']")), _place(("budget", "constrained-float"))
    (('params', 'samples'), ('budget',))
    """
    return tuple(part for part in loc if not (isinstance(part, str) and _MEMBER.match(part)))


def _said(fault: Mapping[str, Any]) -> str:
    """Return a plain message for a fault that pydantic found."""
    context = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return NO_LIMIT if fault["loc"][-1] in LIMITS else UNKNOWN
        case "tuple_type":
            return "must be a list"
        case "model_type" | "model_attributes_type":
            return "must be an object"
        case "too_short":
            return f"must have at least {context.get('min_length', 1)}, has {context.get('actual_length', 0)}"
        case "union_tag_not_found":
            return f"{context.get('discriminator')} is missing"
        case "less_than_equal" if context.get("le", 0) > MOST_DIGITS:
            return f"Input should be less than or equal to {context['le']:g}"
        case "json_invalid":
            return f"must be JSON: {context.get('error', fault['msg'])}"
        case "string_pattern_mismatch" if context.get("pattern") == NAME_PATTERN:
            return "must be lower-case letters, digits, '.', '_' or '-', at most 63, the first a letter or digit"
        case _:
            return str(fault["msg"]).removeprefix("Value error, ")


class CorruptArtifact(InvalidRequest):
    """The bytes do not match their checksum or format."""


class NotFound(ParsimonyError):
    """What was named does not exist."""


class UnknownDataset(NotFound):
    """No dataset has this name."""


class UnknownBuild(NotFound):
    """No build has this id."""


class UnknownAdvice(NotFound):
    """No advice was given on this dataset, or it was replaced since."""


class UnknownArtifact(NotFound):
    """No artifact of this kind has this name."""


class UnknownVersion(NotFound):
    """The artifact has no such version."""


class UnknownEndpoint(NotFound):
    """No endpoint has this name."""


class UnknownBatch(NotFound):
    """No batch has this id, or it is forgotten."""


class Infeasible(ParsimonyError):
    """No decision can satisfy the deadline or budget."""


@dataclass(frozen=True, slots=True)
class ConflictingLimit:
    """One of the limits that cannot be kept together: its name in the caller's words, its bound, whether that is the
    most, and by how much it would have to move, with the others as they are; None if time ran out."""

    limit: str
    bound: float
    most: bool
    give: float | None

    def __str__(self) -> str:
        """Write it as text.

        >>> print(ConflictingLimit("budget", 10.0, True, 2.5))
        budget at most 10 (would have to be 12.5)
        """
        needed = (
            "" if self.give is None else f" (would have to be {self.bound + (1 if self.most else -1) * self.give:.6g})"
        )
        return f"{self.limit} at {'most' if self.most else 'least'} {self.bound:.6g}{needed}"


class ConflictingLimits(Infeasible):
    """No assignment keeps all limits; ``conflict`` is a smallest set of them that cannot be kept together."""

    def __init__(self, detail: str, conflict: Sequence[ConflictingLimit] = ()) -> None:
        super().__init__(detail)
        self.conflict = tuple(conflict)

    @classmethod
    def from_limits(cls, *conflict: ConflictingLimit) -> "ConflictingLimits":
        """Make the error that lists each limit, and its nearest value that would be feasible."""
        if len(conflict) == 1:
            return cls(f"no assignment keeps {conflict[0]}", conflict)
        return cls(f"no assignment keeps these together: {'; '.join(map(str, conflict))}; one must give", conflict)


class Conflict(ParsimonyError):
    """What is in use cannot be deleted or replaced."""


class Changed(ParsimonyError):
    """What is to be replaced or deleted is not what the caller takes it for."""


class PayloadTooLarge(ParsimonyError):
    """The body is over the limit."""


class UnsupportedMediaType(ParsimonyError):
    """The body is of a type that this route does not read."""


class Unauthorized(ParsimonyError):
    """No key was sent, or one that is not known."""


class Forbidden(ParsimonyError):
    """The key lacks the role that this needs."""


class TooManyBuilds(ParsimonyError):
    """The build queue is full."""


class TooManyRequests(ParsimonyError):
    """The rate limit is exceeded; ``wait_s``: seconds until the next request is accepted."""

    def __init__(self, detail: str, wait_s: float = 1.0) -> None:
        super().__init__(detail)
        self.wait_s = wait_s


class RequestTimeout(ParsimonyError):
    """A body came too slowly, or not to its end."""


class StoreUnavailable(ParsimonyError):
    """The store is needed and cannot be reached."""


class StoreRefused(ParsimonyError):
    """The store can be reached and refuses to write: it is full or read-only."""


class SolverTimeout(ParsimonyError):
    """No feasible answer was found inside the time limit."""


class EndpointFailed(ParsimonyError):
    """No classifier that a run called gave an answer."""


class RunTimeout(EndpointFailed):
    """The time of a run was over before any classifier gave an answer."""


class Cancelled(ParsimonyError):
    """A build or a batch was cancelled."""
