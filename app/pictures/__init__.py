"""Pictures of artifacts, the same as the console's main charts: one module a subject, each with ``draw``."""

from collections.abc import Callable

from matplotlib.figure import Figure

from app.catalog import Live
from app.pictures import cascade, index, pipeline, policy, portfolio
from app.pictures.canvas import SUFFIXES, save

PICTURES: dict[str, Callable[[Live], Figure]] = {
    "cascade": cascade.draw,
    "index": index.draw,
    "portfolio": portfolio.draw,
    "pipeline": pipeline.draw,
    "policy": policy.draw,
}

__all__ = ["PICTURES", "SUFFIXES", "save"]
