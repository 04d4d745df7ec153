"""``parsimony budgets`` and ``spend``: sets, lists, and deletes budgets, and reports the cost of calls."""

from typing import Annotated, Any

import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.key_values import parse_json_or_text, parse_key_values
from app.cli.options import AsJson
from app.cli.service import open_service

budgets = command_group("Budgets: what keys, teams, and artifacts may spend.")
BudgetArgument = Annotated[str, typer.Argument(help="Name of the budget.")]
TEXTS = ("scope", "target", "unit", "period", "when_spent")


@budgets.command("set")
def budgets_set(
    name: BudgetArgument,
    fields: Annotated[
        list[str],
        typer.Argument(help="Fields as key=value: scope=team target=search amount=500 period=month when_spent=refuse."),
    ],
    as_json: AsJson = False,
) -> None:
    """Set a budget; it replaces a budget of the same name, and keeps its spent amount."""
    pairs = parse_key_values(fields)
    spec = {key: text if key in TEXTS else parse_json_or_text(text) for key, text in pairs.items()}
    with open_service() as service:
        kept = service.put_budget(name, spec)
    if as_json:
        terminal.print_json(kept)
        return
    terminal.print_warnings([{"message": one} for one in kept.get("warnings", ())])
    terminal.get_console().print(f"set budget {name}", soft_wrap=True)


@budgets.command("list")
def budgets_list(as_json: AsJson = False) -> None:
    """List the budgets with their spent amounts."""
    with open_service() as service:
        items = service.list_budgets()
    if as_json:
        terminal.print_json({"items": items})
        return
    terminal.explain_empty_list(items)
    rows = [row for item in items for row in _rows_of(item)]
    columns = ["name", "scope", "bound", "spent", "reserved", "resets at", "when spent"]
    terminal.print_table("budgets", columns, rows)


def _rows_of(item: dict[str, Any]) -> list[tuple[Any, ...]]:
    spec = item["budget"]
    scope = f"{spec['scope']} {spec['target']}"
    return [
        (
            item["name"],
            scope,
            f"{one['amount']:.6g} {spec['unit'] if one['quantity'] == 'cost' else one['quantity']}",
            f"{one['spent']:.6g}",
            f"{one['reserved']:.6g}",
            one["resets_at"] or "never",
            spec["when_spent"],
        )
        for one in item["balances"]
    ]


@budgets.command("delete")
def budgets_delete(name: BudgetArgument) -> None:
    """Delete a budget; its limits no longer apply."""
    with open_service() as service:
        service.delete_budget(name)
    terminal.get_console().print(f"deleted budget {name}")


def show_spend(
    by: Annotated[
        list[str] | None, typer.Option(help="Column to group by, repeatable: day, key, team, artifact, model.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="First day, as 2026-11-01; default: 30 days ending today.")] = None,
    end: Annotated[str | None, typer.Option(help="Last day; default: today.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the cost of calls, compared with calling the strongest classifier only."""
    columns = by or ["team", "model"]
    with open_service() as service:
        report = service.get_spend({"by": columns, "start": start, "end": end})
    if as_json:
        terminal.print_json(report)
        return
    terminal.explain_empty_list(report["rows"])
    rows = [
        (
            *(row[name] or "none" for name in columns),
            "planned" if row["is_planned"] else "measured",
            *(row[name] for name in ("calls", "cost", "strongest_cost", "unit")),
        )
        for row in report["rows"]
    ]
    terminal.print_table("spend", [*columns, "costs", "calls", "cost", "strongest only", "unit"], rows)
