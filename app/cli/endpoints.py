"""``parsimony endpoint`` and ``run``: registers endpoints and runs items."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.key_values import parse_json_or_text, parse_key_values
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import open_service
from models import InvalidRequest
from models.errors import Fault

endpoint = command_group("Endpoints: where classifiers are, for runs.")
EndpointArgument = Annotated[str, typer.Argument(help="Name of the classifier in traces and artifacts.")]


@endpoint.command("add")
def endpoint_add(
    name: EndpointArgument,
    spec: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="JSON file that describes the endpoint.")],
    as_json: AsJson = False,
) -> None:
    """Register the endpoint of a classifier; it replaces an endpoint of the same name."""
    try:
        content = json.loads(spec.read_text())
    except ValueError as error:
        raise InvalidRequest.from_faults(Fault((str(spec),), f"must be JSON: {error}")) from error
    with open_service() as service:
        kept = service.put_endpoint(name, content)
    if as_json:
        terminal.print_json(kept)
        return
    terminal.print_warnings([{"message": one} for one in kept.get("warnings", ())])
    terminal.get_console().print(f"registered {name}: try it with parsimony endpoint probe {name} ITEM", soft_wrap=True)


@endpoint.command("list")
def endpoint_list(as_json: AsJson = False) -> None:
    """List the endpoints."""
    with open_service() as service:
        items = service.list_endpoints()
    if as_json:
        terminal.print_json({"items": items})
        return
    terminal.explain_empty_list(items)
    rows = [
        (item["name"], item["endpoint"]["protocol"], item["endpoint"]["url"], item.get("circuit", "")) for item in items
    ]
    terminal.print_table("endpoints", ["name", "protocol", "url", "circuit"], rows)


@endpoint.command("show")
def endpoint_show(name: EndpointArgument) -> None:
    """Show a registered endpoint as JSON; it contains no keys."""
    with open_service() as service:
        listed = next((item for item in service.list_endpoints() if item["name"] == name), None)
    if listed is None:
        raise InvalidRequest.from_faults(Fault((name,), "not found; list endpoints with: parsimony endpoint list"))
    terminal.print_json(listed["endpoint"])


@endpoint.command("probe")
def endpoint_probe(
    name: EndpointArgument,
    item: Annotated[str, typer.Argument(help="Item, as JSON or text; @FILE reads it from a file.")],
    as_json: AsJson = False,
) -> None:
    """Call an endpoint once with an item, and show its reply."""
    with open_service() as service:
        reply = service.probe_endpoint(name, _item(item))
    if as_json:
        terminal.print_json(reply)
        return
    terminal.print_facts(f"endpoint {name}", {key: value for key, value in reply.items() if value is not None})


@endpoint.command("delete")
def endpoint_delete(name: EndpointArgument) -> None:
    """Delete an endpoint; runs continue without it."""
    with open_service() as service:
        service.delete_endpoint(name)
    terminal.get_console().print(f"deleted endpoint {name}")


def run(
    kind: KindArgument,
    name: NameArgument,
    item: Annotated[str, typer.Argument(help="Item, as JSON or text; @FILE reads it from a file.")],
    limits: Annotated[
        list[str] | None, typer.Argument(help="Limits as key=value: deadline=25, budget=4, min_accuracy=0.9, id=a.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an item: decide, call the classifiers, and show the answer with each step."""
    find_kind(kind)
    given = {key: parse_json_or_text(text) for key, text in parse_key_values(limits or ()).items()}
    if isinstance(given.get("id"), int | float):
        given["id"] = parse_key_values(limits or ())["id"]
    with open_service() as service:
        reply = service.run(kind, name, {"item": _item(item), **given}, version)
    if as_json:
        terminal.print_json(reply)
        return
    facts = {key: reply[key] for key in ("label", "confidence", "degraded") if reply[key] is not None}
    spent = reply["spent"]
    took = f"{spent['cost']:.4g} {spent['unit']}, {1000 * spent['seconds']:.3g} ms on the clock"
    terminal.print_facts(f"{kind} {name}", facts | {"spent": took, "decision": reply["decision"]})
    rows = [
        (step["classifier"], step["label"] or step["error"] or "", step["confidence"], step["accepted"], step["cost"])
        for step in reply["steps"]
    ]
    terminal.print_table("calls", ["classifier", "label", "confidence", "accepted", "cost"], rows)


def _item(text: str) -> Any:
    return parse_json_or_text(Path(text[1:]).read_text().strip() if text.startswith("@") else text)
