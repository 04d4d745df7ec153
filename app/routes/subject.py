"""What the application asks of the module of a subject's routes: its ``subject``."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fastapi import APIRouter

from app.serving.answers import LookUp
from models import Value
from solvers import KINDS

Limits = dict[str, float]
"""Of size, budget, deadline and min_accuracy those that were given."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The routes of a subject, and what is to be known of them beside FastAPI.

    limits: those of these that mean something to it. what_if: makes a query of the limits that were
    given, or says why there can be none. look_ups: routes that are answered on the hot path. bodies: the types of
    bodies that its routes read themselves, off the event loop. senseless: those of its limits that mean nothing to a
    plan.
    """

    router: APIRouter
    limits: frozenset[str]
    what_if: Callable[[Limits], Value | str]
    look_ups: tuple[LookUp[Any], ...] = ()
    bodies: tuple[type[Value], ...] = ()
    senseless: Callable[[Any], frozenset[str]] = lambda plan: frozenset()


def all_subjects() -> dict[str, Subject]:
    """Give what the module of each solver in ``app/routes`` calls ``subject``; raises TypeError if it is none.

    So a solver needs no line anywhere else for its routes.
    """
    subjects: dict[str, Subject] = {}
    for name in KINDS:
        subject = getattr(import_module(f"app.routes.{name}"), "subject", None)
        if not isinstance(subject, Subject):
            raise TypeError(f"app/routes/{name}.py must have a Subject called subject, has {subject!r}")
        subjects[name] = subject
    return subjects
