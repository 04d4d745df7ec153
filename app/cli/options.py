"""What commands share: the words for what they take, the store, and plans from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer

from app import terminal
from app.serving.catalog import Live
from app.settings import Settings
from app.store.repositories import Repositories, open_repositories
from models import Fault, InvalidRequest
from solvers import SOLVERS, Plan, Solver

P = TypeVar("P", bound=Plan)

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
NameArgument = Annotated[str, typer.Argument(help="The name.")]
SolverArgument = Annotated[str, typer.Argument(help=f"The solver: {', '.join(SOLVERS)}.")]
Params = Annotated[
    list[str] | None, typer.Option("--param", "-p", help="A parameter of the build, as key=value (JSON).")
]


@contextmanager
def open_store() -> Iterator[Repositories]:
    """Open the store that the settings name; where that makes a new one, say so, for it may be the wrong folder."""
    settings = Settings()
    here = (settings.data_dir / "redis").resolve()
    if settings.redis_url is None and not here.exists():
        said = f"a new store is made in {here}; a server that runs elsewhere has its own: see PARSIMONY_DATA_DIR"
        terminal.console(stderr=True).print(said, soft_wrap=True)
    with open_repositories(settings, client_name="parsimony-cli") as repos:
        yield repos


def load(solver: Solver[P], name: str, version: int | None) -> Live[P]:
    """Load a plan from the store."""
    with open_store() as repos:
        record = repos.artifacts.record(solver.name, name, version)
        return Live(record, record.ref, repos.artifacts.plan(record))


def show_decision(live: Live[Any], decision: dict[str, Any], as_json: bool) -> None:
    """Show what a plan decided."""
    if as_json:
        terminal.print_json(decision)
    else:
        terminal.print_facts(
            f"{live.ref.solver} {live.ref.name}, version {live.ref.version}, in {live.record.unit}", decision
        )


def solver_called(name: str) -> Solver[Any]:
    """Give a solver by its name; raises InvalidRequest if there is none."""
    if name not in SOLVERS:
        raise InvalidRequest.at(Fault(("solver",), f"is {name!r}, must be one of {', '.join(SOLVERS)}"))
    return SOLVERS[name]
