"""Hints after interrupted commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app import terminal
from models.errors import ParsimonyError


@dataclass
class Interruption:
    """What to do after a command was interrupted or failed; empty for nothing."""

    hint: str = ""


@contextmanager
def explain_interruption() -> Iterator[Interruption]:
    """Print a hint, which the block sets, if the block is interrupted or fails."""
    interruption = Interruption()
    try:
        yield interruption
    except (KeyboardInterrupt, ParsimonyError):
        if interruption.hint:
            terminal.get_console(stderr=True).print(interruption.hint, soft_wrap=True)
        raise
