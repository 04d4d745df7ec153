"""Routes of an artifact kind, for the router, the fast router, and OpenAPI."""

from dataclasses import dataclass

from fastapi import APIRouter

from app.serving.decision_replies import FastDecisionRoute
from models import Value


@dataclass(frozen=True, slots=True)
class KindRoutes:
    """Routes of an artifact kind.

    Attributes:
        router: the regular routes.
        fast_routes: routes that the fast router answers.
        bodies: types of request bodies that the routes parse themselves, in a thread.
        collection: the name of the kind's artifacts in paths, such as ``cascades``.
    """

    router: APIRouter
    fast_routes: tuple[FastDecisionRoute, ...] = ()
    bodies: tuple[type[Value], ...] = ()
    collection: str = ""
    operations: tuple[str, ...] = ()
    """What can be done with one of its artifacts: the ends of the paths."""
