"""Helpers that define commands and groups of commands."""

from collections.abc import Callable
from typing import Any

import typer

PLAIN: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
"""Plain text, which any terminal shows, and Rich need not be imported for."""


def command_group(about: str) -> typer.Typer:
    """Return a command with subcommands, even if it has only one."""
    group = typer.Typer(help=about, no_args_is_help=True, **PLAIN)
    group.callback()(lambda: None)  # else one command alone would take the group's place
    return group


def single_command(function: Callable[..., None], **how: Any) -> typer.Typer:
    """Return a command from a function.

    Args:
        how: keyword arguments for ``Typer.command``.
    """
    alone = typer.Typer(**PLAIN)
    alone.command(**how)(function)
    return alone
