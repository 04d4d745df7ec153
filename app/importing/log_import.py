"""Imports of log files as a trace."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from app.importing.log_files import read_records
from app.importing.log_formats import FORMATS, SAMPLE, CallPointers, find_value, recognize_format
from app.importing.logged_calls import ImportReport, LoggedCall, read_calls
from app.importing.pivot import pivot_calls
from models.errors import Fault, InvalidRequest
from models.log_import import FormatName, ImportedModel, ImportOptions
from models.prices import Prices

_FIELD = re.compile(r"[A-Za-z0-9_. -]{1,40}")
"""Names of fields that may be shown; longer ones may be the first record of a table without a header."""
POINTER_FIELDS = tuple(each.name for each in fields(CallPointers))
"""The fields of a call that pointers may be set for."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedTrace:
    """A trace of imported calls: its table, its spec, the calls, and the numbers of unused records."""

    table: pa.Table
    spec: dict[str, Any]
    calls: list[LoggedCall]
    report: ImportReport


def import_calls(
    files: Mapping[Path, CallPointers],
    options: ImportOptions,
    prices: Mapping[str, Prices],
    feedback: Mapping[str, float],
) -> ImportedTrace:
    """Return the trace of the calls in log files; raises InvalidRequest if none can be used.

    Args:
        files: the files, with the pointers to the fields of their calls.
        options: unit, embedder, and conversation; the pointers are those of ``files``.
    """
    report, seen = ImportReport(), set[tuple[str, str]]()
    calls: list[LoggedCall] = []
    for path, pointers in files.items():
        records = read_records(path, report.skip_line)
        calls += read_calls(
            records, pointers, prices, feedback, report, seen, whole_chats=options.conversation is not None
        )
    if not calls:
        counts = [f"{count:,} of {report.records:,}: {reason}" for reason, count in report.unused.most_common()]
        if feedback and not report.matched:
            counts.append(f"no record has the id of any of {len(feedback):,} feedback records")
        message = f"must have a usable call, got none ({'; '.join(counts) or 'no record'})"
        raise InvalidRequest.from_faults(Fault((next(iter(files)).name,), message))
    table, spec = pivot_calls(calls, options.unit)
    embedded = options.model_dump(mode="json", include={"embedder", "conversation"}, exclude_none=True)
    return ImportedTrace(table, {**spec, **embedded}, calls, report)


def summarize_models(imported: ImportedTrace) -> tuple[ImportedModel, ...]:
    """Return for each model its calls, their mean outcome, and their mean cost."""
    by_name: dict[str, list[LoggedCall]] = {}
    for call in imported.calls:
        by_name.setdefault(call.classifier, []).append(call)
    return tuple(
        ImportedModel(
            name=name,
            calls=len(own),
            mean_outcome=fmean(call.outcome or 0.0 for call in own),
            mean_cost=fmean(call.cost or 0.0 for call in own),
        )
        for name, own in sorted(by_name.items())
    )


def choose_pointers(first: Path, name: FormatName | None, own: Mapping[str, tuple[str, ...]]) -> CallPointers:
    """Return the pointers to the fields of calls in a log.

    Args:
        first: the file from which the format is recognized.
        name: name of the format; None to recognize it.
        own: pointers that replace those of the format.
    Raises:
        InvalidRequest: the format is unknown, and ``own`` has no pointer to the classifier or to the text.
    """
    sample = list(islice(read_records(first, lambda: None), SAMPLE))
    known = recognize_format(sample, own) if name is None else name
    if known is None and not {"classifier", "text"} <= set(own):
        names = list(map(str, sample[0]))[:12] if sample else ["no record"]
        keys = ", ".join(name for name in names if _FIELD.fullmatch(name)) or "no names"
        message = f"must have a known format, got the fields {keys}; set pointers to classifier and text"
        raise InvalidRequest.from_faults(Fault((first.name,), message))
    return replace(CallPointers((), ()) if known is None else FORMATS[known], **own)


def parse_pointers(given: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Validate a user's JSON pointers, by field; raises InvalidRequest for unknown fields and invalid pointers."""
    for field, place in given.items():
        if field not in POINTER_FIELDS or not place.startswith("/"):
            message = f"must be a JSON pointer to a field among {', '.join(POINTER_FIELDS)}, got {field}={place}"
            raise InvalidRequest.from_faults(Fault(("pointers", field), message))
    return {field: (place,) for field, place in given.items()}


def find_log_pointers(path: Path, *, needs_outcome: bool = True) -> CallPointers | None:
    """Return the pointers to the fields of calls if a file is a log; else None.

    A log has one call per record.

    Args:
        needs_outcome: whether records must have an outcome.
    """
    try:
        sample = list(islice(read_records(path, lambda: None), SAMPLE))
    except InvalidRequest:
        return None
    known = recognize_format(sample)
    if known is None or (needs_outcome and all(find_value(each, FORMATS[known].outcome) is None for each in sample)):
        return None
    return FORMATS[known]
