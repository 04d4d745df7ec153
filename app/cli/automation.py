"""``parsimony automation``: shows, sets, and deletes the automatic steps after drift."""

from typing import Annotated

import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.key_values import parse_json_or_text, parse_key_values
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import open_service
from models.rollout import Automation, AutomationSpec
from solvers.kind import make_query

automation = command_group("Automation: a rebuild after drift, and the rollout of its version.")


@automation.command("show")
def automation_show(kind: KindArgument, name: NameArgument, as_json: AsJson = False) -> None:
    """Show the automation of an artifact, and its latest steps and failures."""
    find_kind(kind)
    with open_service() as service:
        _print(f"{kind} {name}", service.get_automation(kind, name), as_json)


@automation.command("set")
def automation_set(
    kind: KindArgument,
    name: NameArgument,
    fields: Annotated[
        list[str],
        typer.Argument(help='Fields as key=value: rebuild_on_drift=true recording=NAME rollout={"mode":"shadow"}.'),
    ],
    as_json: AsJson = False,
) -> None:
    """Set what follows from drift of an artifact; after a failure, the failed step is repeated."""
    find_kind(kind)
    spec = make_query(
        AutomationSpec, **{key: parse_json_or_text(text) for key, text in parse_key_values(fields).items()}
    )
    with open_service() as service:
        _print(f"{kind} {name}", service.put_automation(kind, name, spec), as_json)


@automation.command("delete")
def automation_delete(kind: KindArgument, name: NameArgument) -> None:
    """Turn the automation of an artifact off; its events are kept."""
    find_kind(kind)
    with open_service() as service:
        service.put_automation(kind, name, AutomationSpec())
    terminal.get_console().print(f"turned the automation of {kind} {name} off", soft_wrap=True)


def _print(title: str, shown: Automation, as_json: bool) -> None:
    if as_json:
        terminal.print_json(shown.model_dump(mode="json"))
        return
    facts = shown.model_dump(exclude={"spec", "events"})
    terminal.print_facts(title, shown.spec.model_dump(exclude_none=True) | facts)
    rows = [(one.at, one.event, one.reason) for one in shown.events]
    terminal.print_table("events", ["at", "event", "reason"], rows, whole=("at", "event"))
