"""``parsimony decide`` and ``feedback``: decisions and their actual outcomes."""

from typing import Annotated, Any

import typer

from app import terminal
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import ServiceClient, open_service
from models import ArtifactRef


def decide(
    kind: KindArgument,
    name: NameArgument,
    query: Annotated[
        list[str] | None, typer.Argument(help="Limits and known values as key=value, for example deadline=5.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Get a decision of an artifact."""
    find_kind(kind)
    with open_service() as service:
        show_decision(service, service.decide(kind, name, query or [], version), version, as_json)


def feedback(
    kind: KindArgument,
    name: NameArgument,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare expected with actual outcomes of an artifact's decisions."""
    find_kind(kind)
    with open_service() as service:
        report = service.get_feedback(kind, name, version)
    terminal.print_feedback(report, as_json)


def show_decision(service: ServiceClient, decision: dict[str, Any], version: int | None, as_json: bool) -> None:
    """Print a decision of an artifact's version, the active one by default."""
    if as_json:
        terminal.print_json(decision)
        return
    ref = ArtifactRef.model_validate(decision["artifact"])
    unit = service.get_artifact(ref.kind, ref.name, version).unit
    terminal.print_facts(f"{ref.kind} {ref.name}, version {ref.version}, in {unit}", decision)
