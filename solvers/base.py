"""What every solver is: a plan that can decide, and a way to fit one. Solvers know no clock, network or files."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from models import Dataset, Value


class Progress(Protocol):
    """Told how far a fit has come; it raises Cancelled if the fit is to stop. Cheap enough for every step."""

    def __call__(self, done: int, total: int, message: str) -> None: ...


class Plan(Protocol):
    """What a fit found: a frozen dataclass of arrays and plain values, kept as an artifact, that answers queries."""

    def decide(self, query: Any) -> Value:
        """Answer in microseconds; raises Infeasible, with the numbers, if nothing can satisfy the query."""


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class Fitted(Generic[P]):
    """A plan, and what the fit found out on the way: plain JSON values for people to read."""

    plan: P
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Solver(Generic[P]):
    """One line of the registry: what a subject learns from, is told, is asked and keeps."""

    name: str
    dataset: type[Dataset]
    options: type[Value]
    query: type[Value]
    plan: type[P]
    fit: Callable[[Any, Any, np.random.Generator, Progress], Fitted[P]]
    """``fit(dataset, options, rng, progress)``: same dataset, options and seed, same plan to the last bit."""


def silent(done: int, total: int, message: str) -> None:
    """Report progress to nobody."""
