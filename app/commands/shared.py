"""What commands share: the words for what they take, the store, and plans from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from app import show
from app.catalog import Live
from app.parts import Parts, open_parts
from app.settings import Settings
from models import ArtifactRef, Fault, InvalidRequest
from solvers import SOLVERS

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
NameArgument = Annotated[str, typer.Argument(help="The name.")]
SolverArgument = Annotated[str, typer.Argument(help=f"The solver: {', '.join(SOLVERS)}.")]
Params = Annotated[
    list[str] | None, typer.Option("--param", "-p", help="A parameter of the build, as key=value (JSON).")
]


@contextmanager
def open_store() -> Iterator[Parts]:
    with open_parts(Settings(), client_name="parsimony-cli") as parts:
        yield parts


def load(solver: str, name: str, version: int | None) -> Live:
    """Load a plan from the store."""
    with open_store() as parts:
        record = parts.artifacts.record(solver, name, version)
        return Live(record, ArtifactRef(solver=solver, name=name, version=record.version), parts.artifacts.plan(record))


def show_decision(live: Live, found: dict[str, Any], as_json: bool) -> None:
    """Show what a plan decided."""
    if as_json:
        show.print_json(found)
    else:
        show.print_facts(f"{live.ref.solver} {live.ref.name}, version {live.ref.version}, in {live.record.unit}", found)


def refuse_unknown(solver: str) -> None:
    """Raise InvalidRequest unless there is such a solver."""
    if solver not in SOLVERS:
        raise InvalidRequest.at(Fault(("solver",), f"is {solver!r}, must be one of {', '.join(SOLVERS)}"))
