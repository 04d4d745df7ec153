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
from app.importing.log_formats import FORMATS, SAMPLE, CallPointers, FormatName, find_value, recognize_format
from app.importing.logged_calls import ImportReport, LoggedCall, read_calls
from app.importing.pivot import pivot_calls
from models.errors import Fault, InvalidRequest
from models.log_import import ImportedModel
from models.prices import Prices

_FIELD = re.compile(r"[A-Za-z0-9_. -]{1,40}")
"""Names of fields that may be shown; longer ones may be the first record of a table without a header."""
POINTED = tuple(each.name for each in fields(CallPointers))
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
    unit: str,
    prices: Mapping[str, Prices],
    feedback: Mapping[str, float],
) -> ImportedTrace:
    """Return the trace of the calls in log files; raises InvalidRequest if none can be used.

    Args:
        files: the files, with the pointers to the fields of their calls.
    """
    report, seen = ImportReport(), set[tuple[str, str]]()
    calls: list[LoggedCall] = []
    for path, pointers in files.items():
        calls += read_calls(read_records(path, report.skip_line), pointers, prices, feedback, report, seen)
    if not calls:
        counts = [f"{count:,} of {report.records:,}: {reason}" for reason, count in report.unused.most_common()]
        if feedback and not report.matched:
            counts.append(f"no record has the id of any of {len(feedback):,} feedback records")
        message = f"must have a usable call, got none ({'; '.join(counts) or 'no record'})"
        raise InvalidRequest.from_faults(Fault((next(iter(files)).name,), message))
    return ImportedTrace(*pivot_calls(calls, unit), calls, report)


def measure_models(imported: ImportedTrace) -> tuple[ImportedModel, ...]:
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
        first: the file by which a format is recognized.
        name: its format; None: it is recognized.
        own: pointers that replace those of the format.
    Raises:
        InvalidRequest: the format is unknown, and ``own`` lacks the classifier or the text.
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
    """Return a user's pointers by field; raises InvalidRequest for unknown fields and invalid pointers."""
    for field, place in given.items():
        if field not in POINTED or not place.startswith("/"):
            message = f"must be a JSON pointer to a field among {', '.join(POINTED)}, got {field}={place}"
            raise InvalidRequest.from_faults(Fault(("pointers", field), message))
    return {field: (place,) for field, place in given.items()}


def find_log_pointers(path: Path, *, needs_outcome: bool = True) -> CallPointers | None:
    """Return the pointers to the fields of calls if a file is a log with one call per record; else None.

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
