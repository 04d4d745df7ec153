"""``parsimony rollouts``: starts, shows, and stops the rollout of a version."""

from typing import Annotated

import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import open_service
from models.rollout import RolloutComparison, RolloutRequest, VersionRollout
from solvers.kind import make_query

rollouts = command_group("Rollouts: another version decides next to the active one, or for a share of the items.")


@rollouts.command("start")
def rollouts_start(
    kind: KindArgument,
    name: NameArgument,
    version: Annotated[int, typer.Option(min=1, help="The version to roll out.")],
    shadow: Annotated[bool, typer.Option("--shadow", help="Only compare its decisions.")] = False,
    share: Annotated[float, typer.Option(help="Share of the items for which it decides.")] = 0.1,
    promote: Annotated[
        bool, typer.Option("--promote", help="Promote it by itself once the outcomes prove it.")
    ] = False,
    max_accuracy_loss: Annotated[float, typer.Option(help="Largest accepted loss of accuracy.")] = 0.01,
    min_saving: Annotated[
        float | None, typer.Option(help="Smallest saving for a promotion, as a share of the mean cost.")
    ] = None,
    max_extra_cost: Annotated[
        float | None, typer.Option(help="Abort if it costs more by this share of the mean cost.")
    ] = None,
    max_item_cost: Annotated[float | None, typer.Option(help="Upper bound on the cost of an item.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start the rollout of a version."""
    find_kind(kind)
    promotion = {"max_accuracy_loss": max_accuracy_loss, "min_saving": min_saving}
    rules = make_query(
        RolloutRequest,
        version=version,
        mode="shadow" if shadow else "canary",
        share=share,
        promote=promotion if promote or min_saving is not None else None,
        abort={"max_accuracy_loss": max_accuracy_loss, "max_extra_cost": max_extra_cost},
        max_item_cost=max_item_cost,
    )
    with open_service() as service:
        _print(service.put_rollout(kind, name, rules), as_json)


@rollouts.command("list")
def rollouts_list(as_json: AsJson = False) -> None:
    """List the last rollout of each artifact, running or ended."""
    with open_service() as service:
        items = service.list_rollouts()
    if as_json:
        terminal.print_json({"items": [one.model_dump(mode="json") for one in items]})
        return
    terminal.explain_empty_list(items)
    rows = [(one.kind, one.name, one.rules.version, one.mode, one.rules.share, one.status) for one in items]
    terminal.print_table("rollouts", ["kind", "name", "version", "mode", "share", "status"], rows)


@rollouts.command("show")
def rollouts_show(kind: KindArgument, name: NameArgument, as_json: AsJson = False) -> None:
    """Show the last rollout of an artifact: outcomes of both versions, evidence, and events."""
    find_kind(kind)
    with open_service() as service:
        _print(service.get_rollout(kind, name), as_json)


@rollouts.command("stop")
def rollouts_stop(kind: KindArgument, name: NameArgument, as_json: AsJson = False) -> None:
    """Stop a rollout: the active version decides for all items again."""
    find_kind(kind)
    with open_service() as service:
        _print(service.stop_rollout(kind, name), as_json)


def _print(rollout: VersionRollout, as_json: bool) -> None:
    if as_json:
        terminal.print_json(rollout.model_dump(mode="json"))
        return
    title = f"{rollout.kind} {rollout.name}: {rollout.mode} of version {rollout.rules.version}, {rollout.status}"
    if rollout.shadow.decisions or rollout.shadow.errors:
        terminal.print_facts(title, rollout.shadow.model_dump())
    compared = rollout.accuracy, rollout.answered, rollout.cost
    rows = [
        (f"version {rollout.active_version}", *(_rounded(one.active.mean) for one in compared)),
        (f"version {rollout.rules.version}", *(_rounded(one.candidate.mean) for one in compared)),
        ("outcomes of each", *(f"{one.active.outcomes}, {one.candidate.outcomes}" for one in compared)),
        ("difference", *(_rounded(one.difference) for one in compared)),
        ("95 % interval", *map(_interval, compared)),
        ("promote evidence", *(_rounded(one.promote_evidence) for one in compared)),
        ("abort evidence", *(_rounded(one.abort_evidence) for one in compared)),
    ]
    terminal.print_table(title, ["", "accuracy", "answered runs", f"cost ({rollout.unit})"], rows)
    events = [(one.at, one.event, one.by, one.reason) for one in rollout.events]
    terminal.print_table("events", ["at", "event", "by", "reason"], events, whole=("at", "event", "by"))


def _interval(compared: RolloutComparison) -> str:
    low, high = compared.difference_interval or (None, None)
    return "-" if low is None else f"{_rounded(low)} to {_rounded(high)}"


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
