"""What commands share: the words for what they take."""

from typing import Annotated

import typer

from models import Fault, InvalidRequest
from solvers import KINDS, AnyKind

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
NameArgument = Annotated[str, typer.Argument(help="The name.")]
SolverArgument = Annotated[str, typer.Argument(help=f"The solver: {', '.join(KINDS)}.")]
Params = Annotated[
    list[str] | None, typer.Option("--param", "-p", help="A parameter of the build, as key=value (JSON).")
]


def solver_called(name: str) -> AnyKind:
    """Give a solver by its name; raises InvalidRequest if there is none."""
    if name not in KINDS:
        raise InvalidRequest.at(Fault(("solver",), f"is {name!r}, must be one of {', '.join(KINDS)}"))
    return KINDS[name]
