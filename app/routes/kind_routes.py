"""The routes of an artifact kind, and what the fast router and OpenAPI need to know of them."""

from dataclasses import dataclass

from fastapi import APIRouter

from app.serving.answers import LookUp
from models import Value


@dataclass(frozen=True, slots=True)
class KindRoutes:
    """The routes of a kind.

    Attributes:
        router: the routes.
        look_ups: those that are answered on the hot path.
        bodies: the types of bodies that routes read themselves, off the event loop.
        collection: of its artifacts, in paths.
    """

    router: APIRouter
    look_ups: tuple[LookUp, ...] = ()
    bodies: tuple[type[Value], ...] = ()
    collection: str = ""
    operations: tuple[str, ...] = ()
    """What can be done with one of its artifacts: the ends of the paths."""
