"""Rounds that alternate between servers: replies over raw sockets, and the table of their ratios."""

import socket
import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table


def read_reply(connection: socket.socket) -> bytes:
    """Return a reply whose body is a JSON object."""
    reply = connection.recv(65536)
    while not reply.endswith(b"}"):
        reply += connection.recv(65536)
    return reply


def print_ratios(
    title: str, columns: tuple[str, str], rounds: Mapping[str, Sequence[float]], peers: Mapping[str, str]
) -> None:
    """Print the median of each row's rounds, and its ratios to peers of the same rounds.

    Args:
        columns: headings of the names and of the medians.
        peers: the row to compare with, by the heading of the ratios.
    """
    table = Table(title=title, title_justify="left")
    for place, name in enumerate((*columns, *(heading for peer in peers for heading in (peer, "spread")))):
        table.add_column(name, justify="right" if place else "left")
    for name, measured in rounds.items():
        cells = [f"{statistics.median(measured):.2f}"]
        for peer in peers.values():
            ratios = [mine / other for mine, other in zip(measured, rounds[peer], strict=True)]
            cells += [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}-{max(ratios):.2f}"]
        table.add_row(name, *cells)
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table, 80 columns wide outside of a terminal."""
    console = Console()
    Console(width=None if console.is_terminal else 80).print(table)
