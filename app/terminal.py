"""Output of the command line: tables of 80 columns, or the API's JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from app.settings import Settings
from models import ArtifactRecord, Build
from models.feedback import QUANTITIES, FeedbackReport
from models.stored_dataset import DatasetInfo
from solvers import Progress

_MAX_COLUMNS = 5
_SIDE_BY_SIDE = 3
_MAX_ITEMS = 12
_MAX_RECORDS = 24
_FOR_PROGRAMS = ("traffic", "savings", "guarantees")
"""What of a summary is shown otherwise: ``--json`` has it."""
_FIRST = ("name", "strategy", "classifier", "deadline", "cascade")
"""Columns that identify records come first."""


def get_console(*, stderr: bool = False) -> Console:
    """Return the terminal or, if there is none, a plain console of 80 columns."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = 80
    return made


def print_json(value: Any) -> None:
    """Print a value as the API's JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))  # noqa: T201


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: Sequence[str] = ()) -> None:
    """Print a table; numbers are right-aligned.

    Args:
        whole: columns whose cells are not wrapped if there is room.
    """
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
    """Print names and values, one per row; lists of records become tables."""
    nested = {name: value for name, value in facts.items() if _is_records(value)}
    print_table(title, ["", ""], [(name, value) for name, value in facts.items() if name not in nested])
    for name, records in nested.items():
        more = f" (the first {_MAX_RECORDS} of {len(records)}; all with --json)" if len(records) > _MAX_RECORDS else ""
        _print_records(f"{name}{more}", records[:_MAX_RECORDS])


def _print_records(title: str, records: Sequence[dict[str, Any]]) -> None:
    """Print records one per row, or side by side if they do not fit into 80 columns."""
    different = dict.fromkeys(column for record in records for column in record)
    columns = sorted(different, key=lambda name: name not in _FIRST)
    if len(columns) <= _MAX_COLUMNS and not any(isinstance(value, dict) for r in records for value in r.values()):
        print_table(title, columns, [[record.get(column) for column in columns] for record in records])
        return
    flat = [_flat(record) for record in records]
    names = sorted(dict.fromkeys(name for record in flat for name in record), key=lambda name: name not in _FIRST)
    for start in range(0, len(flat), _SIDE_BY_SIDE):
        some = flat[start : start + _SIDE_BY_SIDE]
        heads = [f"#{start + position}" for position in range(1, len(some) + 1)]
        print_table(title, ["", *heads], [[name, *[record.get(name) for record in some]] for name in names])


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested records to one level.

    >>> _flat({"a": {"b": 1}})
    {'a.b': 1}
    """
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def format_value(value: Any) -> str:
    """Format a value for a table.

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
        more = f", … ({len(value)} in all)" if len(value) > _MAX_ITEMS else ""
        return ", ".join(map(format_value, value[:_MAX_ITEMS])) + more or "-"
    if isinstance(value, dict):
        return "\n".join(f"{name}: {format_value(item)}" for name, item in value.items()) or "-"
    return str(value)


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Show progress: a bar on a terminal, else one line per tenth of the steps."""
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
    if info.source is not None:
        facts["source"]["files"] = len(info.source.files)
    print_facts(f"dataset {info.name}", facts | {"members": spec.get("classifiers") or spec["features"]})
    print_warnings(warnings)


def print_artifact(record: ArtifactRecord, as_json: bool) -> None:
    """Print a version of an artifact and its build summary."""
    facts = record.model_dump(mode="json")
    if as_json:
        print_json(facts)
        return
    summary = {name: value for name, value in facts.pop("summary").items() if name not in _FOR_PROGRAMS}
    del facts["savings"], facts["guarantees"]
    print_savings(record)
    print_guarantees(record)
    print_warnings(summary.pop("warnings", []))
    print_facts(f"{record.kind} {record.name}, version {record.version}", facts)
    print_facts("summary", summary)


def print_warnings(warnings: Sequence[Mapping[str, Any]]) -> None:
    """Print warnings about a dataset's figures."""
    for one in warnings:
        get_console(stderr=True).print(f"warning: {one['message']}", soft_wrap=True)


def print_guarantees(record: ArtifactRecord) -> None:
    """Print the guarantees of an artifact, and the measured values."""
    report = record.guarantees
    if report is None:
        return
    rows = [(one.limit, one.label, one.value, one.measured, one.bound, one.rows, one.factor) for one in report.kept]
    title = f"guaranteed without limits, confidence {report.request.confidence:g}"
    print_table(title, ["guarantee", "class", "requested", "measured", "proven", "rows", "losses times"], rows)


def print_savings(record: ArtifactRecord) -> None:
    """Print the savings of an artifact and its baselines."""
    savings = record.savings
    if savings is None:
        return
    get_console().print(f"{record.kind} {record.name} {savings.headline}")
    if savings.advice is not None:
        get_console().print(f"What would help: {savings.advice}.")
    get_console().print()
    rows = [(one.name, format_quality(one), one.cost) for one in savings.baselines]
    own = (f"{record.kind} {record.name}, {savings.decision}", format_quality(savings), savings.cost)
    columns = ["", quality_title(savings, record.unit), f"cost, {record.unit}"]
    print_table(f"on {savings.rows} holdout rows", columns, [*rows, own])


class HasQuality(Protocol):
    """Figures with an accuracy, or a loss if the dataset has losses."""

    @property
    def accuracy(self) -> float | None: ...
    @property
    def loss(self) -> float | None: ...


def format_quality(figures: HasQuality) -> str | float:
    """Return the accuracy in percent, or the loss if the dataset has losses."""
    return f"{figures.accuracy:.1%}" if figures.loss is None else figures.loss


def quality_title(figures: HasQuality, unit: str) -> str:
    """Return the title of a column of ``format_quality``."""
    return "correct" if figures.loss is None else f"loss, {unit}"


def print_build(made: Build, as_json: bool) -> None:
    """Print the result of a build."""
    facts = made.model_dump(mode="json")
    if as_json:
        print_json(facts)
        return
    progress = facts.pop("progress")
    facts["progress"] = f"{progress['done']} of {progress['total']}: {progress['message']}"
    print_facts(f"build {made.id}", facts)


def print_versions(records: Sequence[ArtifactRecord], as_json: bool) -> None:
    """Print the active version, and a row for each version."""
    if as_json:
        print_json({"items": [record.model_dump(mode="json") for record in records]})
        return
    print_artifact(next(record for record in records if record.active), False)
    rows = [(r.version, r.active, r.dataset, r.bytes, r.sha256[:8], r.created_at[:10]) for r in records]
    columns = ["version", "active", "dataset", "bytes", "sha256", "created"]
    print_table("versions", columns, rows, whole=("sha256", "created"))


def explain_empty_list(listed: Sequence[object]) -> None:
    """If a list is empty, print which server or store was read.

    It may not be the one that the server uses.
    """
    settings = Settings()
    if not listed and settings.url is not None:
        get_console(stderr=True).print(f"nothing yet at {settings.url}", soft_wrap=True)
    elif not listed and settings.redis_url is None:
        here = (settings.data_dir / "redis").resolve()
        get_console(stderr=True).print(f"nothing yet in the store under {here}; try `parsimony demo`", soft_wrap=True)


def _lines(out: Console, what: str) -> Progress:
    """Print a line for a new message after each tenth of the steps, to keep logs short."""
    last, completed = "", -1

    def report(done: int, total: int, message: str) -> None:
        nonlocal last, completed
        tenths = done * 10 // total if total else done
        if message != last and (tenths != completed or not total):
            last, completed = message, tenths
            out.print(f"{what}: {message} ({done}/{total})" if total else f"{what}: {message}")

    return report


def _is_records(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, dict) for item in value)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def print_feedback(report: FeedbackReport, as_json: bool) -> None:
    """Print estimated and actual outcomes."""
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    ref = report.artifact
    counts = ", ".join(_counted(n, what) for n, what in ((report.outcomes, "outcome"), (report.rows, "row")))
    title = f"{ref.kind} {ref.name}, version {ref.version}: {counts}"
    quantities = QUANTITIES if report.loss is None else ("loss", *QUANTITIES[1:])
    compared = {name: getattr(report, name) for name in quantities}
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
