"""What commands share: the words for what they take."""

from typing import Annotated

import typer

from models import Fault, InvalidRequest
from solvers import KINDS, AnyKind

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
NameArgument = Annotated[str, typer.Argument(help="The name.")]
KindArgument = Annotated[str, typer.Argument(help=f"The kind: {', '.join(KINDS)}.")]
Params = Annotated[
    list[str] | None, typer.Option("--param", "-p", help="A parameter of the build, as key=value (JSON).")
]


def kind_named(name: str) -> AnyKind:
    """Give a kind by its name; raises InvalidRequest if there is none."""
    if name not in KINDS:
        raise InvalidRequest.from_faults(Fault(("kind",), f"is {name!r}, must be one of {', '.join(KINDS)}"))
    return KINDS[name]
