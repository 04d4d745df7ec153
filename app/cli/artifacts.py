"""``parsimony artifacts``: lists, shows, rolls back, and deletes artifacts."""

import sys
from contextlib import suppress
from typing import Annotated

import typer

from app import terminal
from app.cli.options import AsJson, find_kind
from app.cli.service import ServiceClient, open_service
from models import Fault, InvalidRequest
from models.errors import StoreRefused


def show_artifacts(
    kind: Annotated[str | None, typer.Argument(help="List artifacts of this kind only.")] = None,
    name: Annotated[str | None, typer.Argument(help="Show this artifact and its versions.")] = None,
    activate: Annotated[int | None, typer.Option(min=1, help="Activate this version (roll back or forward).")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the artifact: all versions and feedback.")] = False,
    delete_version: Annotated[int | None, typer.Option(min=1, help="Delete this version and its feedback.")] = None,
    even_active: Annotated[
        bool, typer.Option("--even-active", help="Delete the version even if it is active.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """List, show, roll back, and delete artifacts and their versions."""
    asked = [option for option, given in _given(activate, delete, delete_version).items() if given]
    if len(asked) > 1:
        raise InvalidRequest.from_faults(Fault((asked[1],), f"cannot be combined with {asked[0]}"))
    if even_active and delete_version is None:
        raise InvalidRequest.from_faults(Fault(("even-active",), "requires --delete-version"))
    if kind is not None:
        find_kind(kind)
    with open_service() as service:
        if kind is None or name is None:
            if asked:
                raise InvalidRequest.from_faults(Fault((asked[0],), "requires a kind and a name"))
            _print_list(service, kind, as_json)
        elif delete or delete_version is not None:
            _delete(service, kind, name, delete_version, even_active=even_active, yes=yes, as_json=as_json)
        else:
            if activate is not None:
                service.activate(kind, name, activate)
            terminal.print_versions(service.list_versions(kind, name), as_json)


def _given(activate: int | None, delete: bool, delete_version: int | None) -> dict[str, bool]:
    return {"activate": activate is not None, "delete": delete, "delete-version": delete_version is not None}


def _print_list(service: ServiceClient, kind: str | None, as_json: bool) -> None:
    records = service.list_artifacts(kind)
    if as_json:
        terminal.print_json({"items": [record.model_dump(mode="json") for record in records]})
        return
    terminal.explain_empty_list(records)
    columns = ["kind", "name", "version", "savings", "created"]
    rows = [[r.kind, r.name, r.version, r.savings.brief if r.savings else "-", r.created_at[:10]] for r in records]
    if any(record.drift for record in records):
        columns.append("drift")
        rows = [[*row, ", ".join(record.drift)] for row, record in zip(rows, records, strict=True)]
    terminal.print_table("artifacts", columns, rows, whole=("kind", "name", "created"))


def _delete(
    service: ServiceClient, kind: str, name: str, version: int | None, *, even_active: bool, yes: bool, as_json: bool
) -> None:
    """Delete an artifact or a version after the user has typed its name."""
    with suppress(StoreRefused):  # a damaged record can be deleted, too
        service.get_artifact(kind, name, version)  # one that is not there needs no confirmation
    what = f"{kind} {name}" if version is None else f"version {version} of {kind} {name}"
    if not yes and _typed(f"{what} will be deleted permanently; type {name} to confirm: ") != name:
        raise InvalidRequest.from_faults(Fault(("name",), f"does not match; {what} was not deleted"))
    if version is None:
        service.delete_artifact(kind, name)
    else:
        service.delete_version(kind, name, version, even_active=even_active)
    if as_json:
        terminal.print_json({"deleted": {"kind": kind, "name": name, "version": version}})
    else:
        terminal.get_console().print(f"deleted {what}")


def _typed(question: str) -> str:
    """Prompt on standard error; standard output is reserved for programs."""
    typer.echo(question, nl=False, err=True)
    return sys.stdin.readline().strip()
