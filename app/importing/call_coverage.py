"""Coverage: the share of rows that each classifier answered, by group of rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from app.importing.logged_calls import extract_prompt
from app.recording.segments import ROWS, TRUTHS, iterate_newest, iterate_tables
from models.arrays import Int64s
from models.recording import CallCoverage, CoverageGroup, Grouping

MAX_ROWS = 50_000
"""The newest rows that are counted."""
MAX_LABELS, PARTS = 20, 4
"""Labels with the most rows that are groups, and the number of groups by length."""
SECONDS_PER_HOUR = 3600
_COLUMNS: Mapping[Grouping, str] = {"label": "id", "length": "item", "hour": "time"}


@dataclass(slots=True)
class _Answers:
    """The group key of each row, and the rows that each classifier answered."""

    keys: list[Any] = field(default_factory=list)
    rows: dict[str, list[int]] = field(default_factory=dict)


def measure_coverage(folder: Path, by: Grouping, reference: str | None) -> CallCoverage:
    """Return the coverage of the newest rows of a recording.

    Args:
        reference: classifier whose answer is the label of rows without a posted truth; None for none.
    """
    truths = _read_labels(folder / "truths") if by == "label" else {}
    answers = _Answers()
    for table in iterate_newest(folder / "rows", ROWS, [_COLUMNS[by], "calls"], MAX_ROWS):
        start = len(answers.keys)
        calls = table["calls"].combine_chunks()
        answers.keys += _list_keys(table, by, truths)
        places, flat = pc.list_parent_indices(calls), pc.list_flatten(calls)
        for place, call in zip(places.to_pylist(), flat.to_pylist(), strict=True):
            if call["error"] is not None:
                continue
            answers.rows.setdefault(call["classifier"], []).append(start + place)
            if by == "label" and call["classifier"] == reference and answers.keys[start + place] is None:
                answers.keys[start + place] = call["label"]
    return _describe(answers, by)


def measure_trace_coverage(table: pa.Table, prompt: str, outcomes: Mapping[str, str]) -> CallCoverage:
    """Return the coverage of a trace, by length of the prompt.

    Args:
        table: the trace.
        prompt: name of the column of prompts.
        outcomes: by classifier, the name of the column of its outcomes.
    """
    rows = {name: np.flatnonzero(table[column].is_valid()).tolist() for name, column in outcomes.items()}
    return _describe(_Answers(pc.utf8_length(table[prompt]).to_pylist(), rows), "length")


def _describe(answers: _Answers, by: Grouping) -> CallCoverage:
    groups, codes = _make_groups(answers.keys, by)
    return CallCoverage(
        by=by,
        rows=len(answers.keys),
        classifiers=tuple(sorted(answers.rows)),
        groups=tuple(_describe_groups(answers, groups, codes)),
    )


def _read_labels(folder: Path) -> dict[str, str]:
    """Return the latest class of each item that has one."""
    found = dict[str, str]()
    for table in iterate_tables(folder, TRUTHS, ["id", "truth"]):
        known = table.filter(pc.is_valid(table["truth"]))
        found.update(zip(known["id"].to_pylist(), known["truth"].to_pylist(), strict=True))
    return found


def _list_keys(table: pa.Table, by: Grouping, truths: Mapping[str, str]) -> list[Any]:
    """Return the group key of each row: its label, prompt length, or hour.

    It is None if it is unknown.
    """
    values = table[_COLUMNS[by]].to_pylist()
    if by == "label":
        return [truths.get(one) for one in values]
    if by == "hour":
        return [int(one // SECONDS_PER_HOUR) % 24 for one in values]
    return [None if one is None else len(extract_prompt(orjson.loads(one))) or None for one in values]


def _make_groups(keys: Sequence[Any], by: Grouping) -> tuple[list[str | None], Int64s]:
    """Return the names of the groups, and the group of each row; -1 for rows without a listed group."""
    counts = Counter(keys)
    unknown = counts.pop(None, 0)
    if by == "length":
        names, code_of = _cut_lengths(counts)
    else:
        listed = [key for key, _ in counts.most_common(MAX_LABELS if by == "label" else 24)]
        listed.sort()
        names = [f"{key:02}" if by == "hour" else key for key in listed]
        code_of = {key: code for code, key in enumerate(listed)}
    groups: list[str | None] = [*names, *([None] if unknown else [])]
    codes: dict[Any, int] = {**code_of, None: len(names)} if unknown else code_of
    return groups, np.array([codes.get(key, -1) for key in keys], dtype=np.int64)


def _cut_lengths(counts: Mapping[int, int]) -> tuple[list[str], dict[int, int]]:
    """Return ranges of lengths with about equally many rows, and each length's range."""
    lengths = sorted(counts)
    if not lengths:
        return [], {}
    every = np.repeat(lengths, [counts[one] for one in lengths])
    edges = np.unique(np.quantile(every, np.arange(1, PARTS) / PARTS, method="lower"))
    parts = np.searchsorted(edges, lengths, side="left")
    used = np.unique(parts)
    ranges = [np.array(lengths)[parts == part] for part in used]
    names = [f"{one[0]}-{one[-1]}" for one in ranges]
    return names, {one: int(np.searchsorted(used, part)) for one, part in zip(lengths, parts, strict=True)}


def _describe_groups(answers: _Answers, groups: Sequence[str | None], codes: Int64s) -> list[CoverageGroup]:
    rows = np.bincount(codes[codes >= 0], minlength=len(groups))
    answered: dict[str, Int64s] = {}
    for name, places in sorted(answers.rows.items()):
        own = codes[places]
        answered[name] = np.bincount(own[own >= 0], minlength=len(groups))
    return [
        CoverageGroup(
            group=group,
            rows=int(rows[at]),
            answered={name: float(counts[at] / rows[at]) for name, counts in answered.items()},
        )
        for at, group in enumerate(groups)
    ]
