"""What commands share: the words for what they take."""

from typing import Annotated, Any

import typer

from models import Fault, InvalidRequest
from solvers import SOLVERS, Solver

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
NameArgument = Annotated[str, typer.Argument(help="The name.")]
SolverArgument = Annotated[str, typer.Argument(help=f"The solver: {', '.join(SOLVERS)}.")]
Params = Annotated[
    list[str] | None, typer.Option("--param", "-p", help="A parameter of the build, as key=value (JSON).")
]


def solver_called(name: str) -> Solver[Any]:
    """Give a solver by its name; raises InvalidRequest if there is none."""
    if name not in SOLVERS:
        raise InvalidRequest.at(Fault(("solver",), f"is {name!r}, must be one of {', '.join(SOLVERS)}"))
    return SOLVERS[name]
