"""``parsimony decide`` and ``feedback``: what an artifact answers, and what became of its answers."""

from typing import Annotated

import orjson
import typer

from app import terminal
from app.cli.key_values import read_query
from app.cli.options import AsJson, NameArgument, SolverArgument, load, open_store, show_decision, solver_called
from app.serving.answers import decided


def decide(
    solver: SolverArgument,
    name: NameArgument,
    query: Annotated[list[str] | None, typer.Argument(help="The query, as key=value, for example deadline=5.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version to ask; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask an artifact for a decision."""
    solver_called(solver)
    asked = read_query(solver, query or ())
    live = load(solver_called(solver), name, version)
    show_decision(live, orjson.loads(decided(live, asked)), as_json)


def feedback(
    solver: SolverArgument,
    name: NameArgument,
    version: Annotated[int | None, typer.Option(min=1, help="The version; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was estimated of an artifact's decisions against what was told of them."""
    solver_called(solver)
    with open_store() as repos:
        report = repos.feedback.report(repos.artifacts.record(solver, name, version))
    terminal.feedback(report, as_json)
