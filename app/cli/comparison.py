"""``parsimony evaluate-version`` and ``diff``: compare versions before one is activated."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app import terminal
from app.cli.key_values import parse_repeated_keys
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import open_service
from models.version_diff import VersionDiff
from models.version_evaluation import VersionEvaluation

Since = Annotated[
    str | None, typer.Option(help="Start of a recording's rows, as 2026-11-01T00:00:00Z; default: the oldest row.")
]
Until = Annotated[str | None, typer.Option(help="End of a recording's rows, exclusive; default: now.")]
Limits = Annotated[list[str] | None, typer.Argument(help="Limits as key=value, for example budget=5.")]
Rows = Annotated[str, typer.Option("--on", help="Dataset or recording whose rows were logged.")]


def evaluate_version(
    kind: KindArgument,
    name: NameArgument,
    version: Annotated[int, typer.Argument(min=1, help="Version to evaluate.")],
    on: Rows,
    limits: Limits = None,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the cost and accuracy that a version would have had on logged rows."""
    find_kind(kind)
    with open_service() as service:
        times = {"since": since, "until": until}
        found = service.evaluate_version(kind, name, version, on, times, limits or [])
    if as_json:
        terminal.print_json(found.model_dump(mode="json"))
        return
    title = f"{found.artifact.full_name} on {found.rows:,} rows of {on}, {found.supported_rows:,} with all its calls"
    figures, unit = found.figures, found.unit
    rows = [
        (label, one.method.replace("_", " "), one.value, *one.interval, one.effective_rows)
        for label, one in (
            ("accuracy", figures.accuracy),
            (f"cost, {unit}", figures.cost),
            (f"loss, {unit}", figures.loss),
        )
        if one is not None
    ]
    terminal.print_table(title, ["figure", "method", "value", "from", "to", "effective rows"], rows)
    terminal.print_table(
        "difference from", ["compared with", "figure", "difference", "from", "to"], list(_difference_rows(found))
    )
    terminal.print_warnings([{"message": one.refusal} for one in found.comparisons if one.refusal])


def _difference_rows(found: VersionEvaluation) -> list[tuple[Any, ...]]:
    return [
        (one.name, label, difference.value, *difference.interval)
        for one in found.comparisons
        if one.differences is not None
        for label, difference in (
            ("accuracy", one.differences.accuracy),
            (f"cost, {found.unit}", one.differences.cost),
            (f"loss, {found.unit}", one.differences.loss),
        )
        if difference is not None
    ]


def show_diff(
    kind: KindArgument,
    name: NameArgument,
    before: Annotated[int, typer.Option("--from", min=1, help="First version.")],
    after: Annotated[int, typer.Option("--to", min=1, help="Second version.")],
    limits: Limits = None,
    on: Annotated[str | None, typer.Option("--on", help="Dataset or recording whose rows both decide.")] = None,
    since: Since = None,
    until: Until = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file to write the comparison to, as a page to print.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what changes from one version to another, as Markdown."""
    from app.serving.diff_report import list_lines

    find_kind(kind)
    given = {"from": before, "to": after, "on": on, "since": since, "until": until}
    between = [(name, value) for name, value in given.items() if value is not None] + parse_repeated_keys(limits or [])
    with open_service() as service:
        if output is not None:
            output.write_bytes(service.get_diff_page(kind, name, between))
            terminal.get_console().print(f"wrote {output}: {kind} {name}, version {before} to {after}", soft_wrap=True)
            return
        found: VersionDiff = service.get_diff(kind, name, between)
    if as_json:
        terminal.print_json(found.model_dump(mode="json"))
        return
    for line in list_lines(found):
        typer.echo(line)
