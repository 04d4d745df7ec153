"""Pictures of artifacts, the same as the console's main charts: one module a subject, each with ``draw``."""

from importlib import import_module
from typing import Any

from matplotlib.figure import Figure

from app.pictures.canvas import SUFFIXES, save
from app.serving.catalog import Live
from models import InvalidRequest

__all__ = ["SUFFIXES", "draw", "save"]


def draw(live: Live[Any]) -> Figure:
    """Draw an artifact as ``draw`` of ``app.pictures.<solver>`` does; raises InvalidRequest if there is no such."""
    name = f"{__name__}.{live.ref.solver}"
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InvalidRequest(f"there is no picture of a {live.ref.solver}") from error
    picture: Figure = module.draw(live)
    return picture
