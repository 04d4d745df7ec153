"""Routes of an artifact kind, for the router, the fast router, and OpenAPI."""

from dataclasses import dataclass

from fastapi import APIRouter

from app.serving.answers import LookUp
from models import Value


@dataclass(frozen=True, slots=True)
class KindRoutes:
    """Routes of an artifact kind.

    Attributes:
        router: the regular routes.
        look_ups: routes that the fast router answers.
        bodies: types of request bodies that routes parse themselves, in a thread.
        collection: the name of the kind's artifacts in paths, such as ``cascades``.
    """

    router: APIRouter
    look_ups: tuple[LookUp, ...] = ()
    bodies: tuple[type[Value], ...] = ()
    collection: str = ""
    operations: tuple[str, ...] = ()
    """What can be done with one of its artifacts: the ends of the paths."""
