"""What the command line prints: tables for people in 80 columns, the API's JSON for programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from app.settings import Settings
from models import ArtifactRecord, Build
from models.feedback import QUANTITIES, FeedbackReport
from models.stored_dataset import DatasetInfo
from solvers import Progress

_MOST_COLUMNS = 5
_SIDE_BY_SIDE = 3
_MOST_ITEMS = 12
_MOST_RECORDS = 24
_FOR_PROGRAMS = ("traffic", "savings")
"""What of a summary is shown otherwise: ``--json`` has it."""
_FIRST = ("name", "strategy", "classifier", "deadline", "cascade")
"""Columns that identify records come first."""


def get_console(*, stderr: bool = False) -> Console:
    """Give the terminal, or a plain 80 columns where there is none."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = 80
    return made


def print_json(value: Any) -> None:
    """Print as the API would send it."""
    print(json.dumps(value, indent=2, ensure_ascii=False))  # noqa: T201


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: Sequence[str] = ()) -> None:
    """Print a table; numbers are right-aligned. whole: columns whose cells are not wrapped, if there is room."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for position, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[position], int | float) for row in rows)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        widest = max((len(str(row[position])) for row in rows), default=0) if name in whole else None
        table.add_column(name.replace("_", " "), justify=justify, overflow="fold", min_width=widest)
    for row in rows:
        table.add_row(*[format_value(cell) for cell in row])
    get_console().print(table)


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Print names and values, one a row; lists of records become tables of their own."""
    nested = {name: value for name, value in facts.items() if _is_records(value)}
    print_table(title, ["", ""], [(name, value) for name, value in facts.items() if name not in nested])
    for name, records in nested.items():
        more = (
            f" (the first {_MOST_RECORDS} of {len(records)}; all with --json)" if len(records) > _MOST_RECORDS else ""
        )
        _print_records(f"{name}{more}", records[:_MOST_RECORDS])


def _print_records(title: str, records: Sequence[dict[str, Any]]) -> None:
    """Print records one a row, or side by side where they hold too much for a row of 80 columns."""
    different = dict.fromkeys(column for record in records for column in record)
    columns = sorted(different, key=lambda name: name not in _FIRST)
    if len(columns) <= _MOST_COLUMNS and not any(isinstance(value, dict) for r in records for value in r.values()):
        print_table(title, columns, [[record.get(column) for column in columns] for record in records])
        return
    flat = [_flat(record) for record in records]
    names = sorted(dict.fromkeys(name for record in flat for name in record), key=lambda name: name not in _FIRST)
    for start in range(0, len(flat), _SIDE_BY_SIDE):
        some = flat[start : start + _SIDE_BY_SIDE]
        heads = [f"#{start + position}" for position in range(1, len(some) + 1)]
        print_table(title, ["", *heads], [[name, *[record.get(name) for record in some]] for name in names])


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Bring nested records to one level.

    >>> _flat({"a": {"b": 1}})
    {'a.b': 1}
    """
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def format_value(value: Any) -> str:
    """Write a value for people.

    >>> format_value(0.123456), format_value(None), format_value(["a", "b"]), format_value(True)
    ('0.123456', '-', 'a, b', 'yes')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        more = f", … ({len(value)} in all)" if len(value) > _MOST_ITEMS else ""
        return ", ".join(map(format_value, value[:_MOST_ITEMS])) + more or "-"
    if isinstance(value, dict):
        return "\n".join(f"{name}: {format_value(item)}" for name, item in value.items()) or "-"
    return str(value)


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Show how far long work has come: a bar on a terminal, a line for each new message elsewhere."""
    out = get_console(stderr=True)
    if not out.is_terminal:
        yield _lines(out, what)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=out) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int, message: str) -> None:
            bar.update(task, completed=done, total=total or None, description=f"{what}: {message}")

        yield report


def print_dataset(info: DatasetInfo, as_json: bool) -> None:
    """Print a dataset."""
    facts = info.model_dump(mode="json")
    if as_json:
        print_json(facts)
        return
    spec, warnings = facts.pop("spec"), facts.pop("warnings")
    facts |= {name: value for name, value in spec.items() if name not in ("classifiers", "features")}
    print_facts(f"dataset {info.name}", facts | {"members": spec.get("classifiers") or spec["features"]})
    print_warnings(warnings)


def print_artifact(record: ArtifactRecord, as_json: bool) -> None:
    """Print a version of an artifact and what its build found."""
    facts = record.model_dump(mode="json")
    if as_json:
        print_json(facts)
        return
    summary = {name: value for name, value in facts.pop("summary").items() if name not in _FOR_PROGRAMS}
    del facts["savings"]
    print_savings(record)
    print_warnings(summary.pop("warnings", []))
    print_facts(f"{record.kind} {record.name}, version {record.version}", facts)
    print_facts("summary", summary)


def print_warnings(warnings: Sequence[Mapping[str, Any]]) -> None:
    """Print what makes figures less certain than they look."""
    for one in warnings:
        get_console(stderr=True).print(f"warning: {one['message']}", soft_wrap=True)


def print_savings(record: ArtifactRecord) -> None:
    """Print the savings of an artifact and the simple baselines."""
    savings = record.savings
    if savings is None:
        return
    get_console().print(f"{record.kind} {record.name} {savings.headline}")
    if savings.advice is not None:
        get_console().print(f"What would help: {savings.advice}.")
    get_console().print()
    rows = [(one.name, f"{one.accuracy:.1%}", one.cost) for one in savings.baselines]
    own = (f"{record.kind} {record.name}, {savings.decision}", f"{savings.accuracy:.1%}", savings.cost)
    print_table(f"on {savings.rows} holdout rows", ["", "right", f"cost, {record.unit}"], [*rows, own])


def build(made: Build, as_json: bool) -> None:
    """Print what became of a build."""
    facts = made.model_dump(mode="json")
    if as_json:
        print_json(facts)
        return
    progress = facts.pop("progress")
    facts["progress"] = f"{progress['done']} of {progress['total']}: {progress['message']}"
    print_facts(f"build {made.id}", facts)


def print_versions(records: Sequence[ArtifactRecord], as_json: bool) -> None:
    """Print the active version of an artifact, and a row for each version."""
    if as_json:
        print_json({"items": [record.model_dump(mode="json") for record in records]})
        return
    print_artifact(next(record for record in records if record.active), False)
    rows = [(r.version, r.active, r.dataset, r.bytes, r.sha256[:8], r.created_at[:10]) for r in records]
    columns = ["version", "active", "dataset", "bytes", "sha256", "created"]
    print_table("versions", columns, rows, whole=("sha256", "created"))


def say_if_empty(listed: Sequence[object]) -> None:
    """Print where an empty store is: the command may have been run in another folder than the server."""
    settings = Settings()
    if not listed and settings.url is not None:
        get_console(stderr=True).print(f"nothing yet at {settings.url}", soft_wrap=True)
    elif not listed and settings.redis_url is None:
        here = (settings.data_dir / "redis").resolve()
        get_console(stderr=True).print(f"nothing yet in the store under {here}; try `parsimony demo`", soft_wrap=True)


def _lines(out: Console, what: str) -> Progress:
    last = ""

    def report(done: int, total: int, message: str) -> None:
        nonlocal last
        if message != last:
            last = message
            out.print(f"{what}: {message} ({done}/{total})" if total else f"{what}: {message}")

    return report


def _is_records(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, dict) for item in value)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def print_feedback(report: FeedbackReport, as_json: bool) -> None:
    """Show estimated against actual."""
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    ref = report.artifact
    counts = ", ".join(_counted(n, what) for n, what in ((report.outcomes, "outcome"), (report.rows, "row")))
    title = f"{ref.kind} {ref.name}, version {ref.version}: {counts}"
    compared = {name: getattr(report, name) for name in QUANTITIES}
    rows = [
        (name, c.outcomes, c.estimated, c.actual, None if c.low is None else f"{c.low:.4g} to {c.high:.4g}", c.drift)
        for name, c in compared.items()
        if c.outcomes
    ]
    if rows:
        print_table(title, ["", "outcomes", "estimated", "actual", "95 %", "drift"], rows)
    else:
        get_console().print(f"{title}; none reports correct, cost, or time", markup=False, highlight=False)
    if report.alarms:
        columns = ["quantity", "changed at", "outcome", "detected at", "before", "after"]
        alarms = [
            (a.classifier or a.quantity, a.changed_at, a.change_point, a.detected, a.before, a.after)
            for a in report.alarms
        ]
        print_table("drift alarms", columns, alarms)
    if report.classifiers:
        answers = [(each.classifier, each.outcomes, each.correct) for each in report.classifiers]
        print_table("answers taken", ["classifier", "outcomes", "correct"], answers)
