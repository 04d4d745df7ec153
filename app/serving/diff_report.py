"""Text tables of the differences between two versions, for the page and the command line."""

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from models.savings import Interval
from models.version_diff import DescribedVersion, ItemDecision, LoggedDiff, VersionDiff
from models.version_evaluation import PairedDifference, RuleFigures

MISSING_CELL = "-"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a report.

    Attributes:
        title: heading.
        columns: column headings.
        rows: cells of each row.
        note: a sentence below the table; empty for none.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def make_report(diff: VersionDiff) -> list[ReportTable]:
    """Return the tables of a report about two versions."""
    tables = [_versions(diff), _expected(diff), _changes(diff)]
    if diff.logged is not None:
        tables += [_figures(diff.logged, diff.unit), _shares(diff.logged), _examples(diff.logged)]
    return [table for table in tables if table.rows or table.note]


def _versions(diff: VersionDiff) -> ReportTable:
    rows = [
        (
            "version",
            *(f"{one.artifact.version}{' (active)' if one.active else ''}" for one in (diff.before, diff.after)),
        ),
        ("built from", diff.before.dataset, diff.after.dataset),
        ("published", diff.before.created_at[:16], diff.after.created_at[:16]),
    ]
    return ReportTable("Versions", ("", "before", "after"), tuple(rows))


def _expected(diff: VersionDiff) -> ReportTable:
    rows = (
        (
            f"{name}, {diff.unit}" if name != "accuracy" else name,
            _outcome(diff.before, name),
            _outcome(diff.after, name),
        )
        for name in ("accuracy", "loss", "cost")
    )
    known = tuple(row for row in rows if row[1:] != (MISSING_CELL, MISSING_CELL))
    return ReportTable("Expected by the builds, at measured operating points", ("", "before", "after"), known)


def _outcome(version: DescribedVersion, name: str) -> str:
    value = getattr(version.expected, name, None)
    return MISSING_CELL if value is None else format_figure(value, getattr(version.expected, f"{name}_interval"))


def _changes(diff: VersionDiff) -> ReportTable:
    rows = tuple((one.what, format_cell(one.before), format_cell(one.after)) for one in diff.changes)
    note = f"{diff.other_changes} further facts of the builds differ." if diff.other_changes else ""
    return ReportTable("Changes", ("what", "before", "after"), rows, note or ("" if rows else "The records agree."))


def _figures(logged: LoggedDiff, unit: str) -> ReportTable:
    source = logged.dataset if logged.recording is None else f"recording {logged.recording.name}"
    title, columns = f"On {logged.rows:,} rows of {source}", ("", "before", "after", "difference")
    if logged.before is None or logged.after is None or logged.differences is None:
        return ReportTable(title, columns, (), f"No figures: {logged.refusal}.")
    rows = [
        (
            name if name == "accuracy" else f"{name}, {unit}",
            _estimate(logged.before, name),
            _estimate(logged.after, name),
            _difference(getattr(logged.differences, name)),
        )
        for name in ("accuracy", "loss", "cost")
        if getattr(logged.after, name) is not None
    ]
    methods = sorted({one.accuracy.method.replace("_", " ") for one in (logged.before, logged.after)})
    note = f"95 % intervals; estimated by {' and '.join(methods)}. {logged.changed_rows:,} of {logged.compared_rows:,} "
    return ReportTable(title, columns, tuple(rows), f"{note}comparable rows are decided differently.")


def _estimate(figures: RuleFigures, name: str) -> str:
    one = getattr(figures, name)
    return format_figure(one.value, one.interval)


def _difference(one: PairedDifference) -> str:
    low, high = one.interval
    if low == high == 0:
        return "none"
    return f"{one.value:+.3g} ({low:+.3g} to {high:+.3g})"


def _shares(logged: LoggedDiff) -> ReportTable:
    has_answers = any(one.answers_before is not None or one.answers_after is not None for one in logged.shares)
    columns = ("", "calls before", "calls after", *(("answers before", "answers after") if has_answers else ()))
    rows = (
        (one.name, *map(_share, (one.called_before, one.called_after, one.answers_before, one.answers_after)))
        for one in logged.shares
    )
    return ReportTable("Share of items", columns, tuple(row[: len(columns)] for row in rows))


def _share(value: float | None) -> str:
    return MISSING_CELL if value is None else f"{value:.1%}"


def _examples(logged: LoggedDiff) -> ReportTable:
    rows = tuple((one.id, _decision(one.before), _decision(one.after)) for one in logged.examples)
    return ReportTable("Items that are decided differently", ("item", "before", "after"), rows)


def _decision(one: ItemDecision) -> str:
    path = " > ".join(one.path) or "nothing"
    ending = one.label if one.classifier is None else one.classifier if one.classifier not in one.path[-1:] else None
    return path if ending is None else f"{path}: {ending}"


def format_figure(value: float, interval: Interval | None) -> str:
    """Format a figure with its interval.

    >>> format_figure(0.91234, (0.9, 0.92)), format_figure(3.0, None)
    ('0.912 (0.9 to 0.92)', '3')
    """
    return f"{value:.3g}" if interval is None else f"{value:.3g} ({interval[0]:.3g} to {interval[1]:.3g})"


def format_cell(value: Any) -> str:
    """Format a value of a record.

    >>> format_cell(["a", "b"]), format_cell(None), format_cell(0.123456), format_cell(True)
    ('a > b', '-', '0.1235', 'yes')
    """
    if value is None:
        return MISSING_CELL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " > ".join(map(format_cell, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def list_lines(diff: VersionDiff, width: int = 80) -> Iterator[str]:
    """Yield the lines of the report as Markdown, at most ``width`` columns wide; longer cells are wrapped."""
    ref = diff.after.artifact
    yield f"# {ref.kind} {ref.name}: version {diff.before.artifact.version} to {ref.version}"
    for table in make_report(diff):
        yield from ("", f"## {table.title}", "")
        if table.rows:
            yield from _table_lines(table, width)
        if table.note:
            yield from ("", *_wrap(table.note, width))


def _table_lines(table: ReportTable, width: int) -> Iterator[str]:
    cells = [table.columns, *table.rows]
    widths = _column_widths([max(len(row[k]) for row in cells) for k in range(len(table.columns))], width)
    for place, row in enumerate(cells):
        wrapped = [_wrap(cell, room) for cell, room in zip(row, widths, strict=True)]
        for line in range(max(map(len, wrapped))):
            own = [lines[line] if line < len(lines) else "" for lines in wrapped]
            yield "| " + " | ".join(cell.ljust(room) for cell, room in zip(own, widths, strict=True)) + " |"
        if place == 0:
            yield "|" + "|".join("-" * (room + 2) for room in widths) + "|"


def _column_widths(wanted: list[int], width: int) -> list[int]:
    """Return column widths that fit into a line; the widest columns are narrowed."""
    room = width - 3 * len(wanted) - 1
    widths = list(wanted)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _wrap(text: str, width: int) -> list[str]:
    return wrap(text, width) or [""]
