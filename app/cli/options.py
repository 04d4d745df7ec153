"""Arguments and options that several commands share."""

from typing import Annotated

import typer

from models import Fault, InvalidRequest
from solvers import KINDS, AnyKind

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the API returns it.")]
NameArgument = Annotated[str, typer.Argument(help="Name of the artifact or dataset.")]
KindArgument = Annotated[str, typer.Argument(help=f"Kind of the artifact: {', '.join(KINDS)}.")]
Params = Annotated[list[str] | None, typer.Option("--param", "-p", help="Parameter of the build, as key=value (JSON).")]


def find_kind(name: str) -> AnyKind:
    """Return a kind by name; raises InvalidRequest if it is unknown."""
    if name not in KINDS:
        raise InvalidRequest.from_faults(Fault(("kind",), f"must be one of {', '.join(KINDS)}, got {name!r}"))
    return KINDS[name]
