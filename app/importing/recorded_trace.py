"""Recorded rows as a partial trace, with truths by item id and call propensities.

In every row that is used, each classifier had a known probability above 0 of being called. So if a recording explores,
rows that could not be explored are omitted, for example after the budget of the day was spent. Whether a row is omitted
depends only on earlier items.

If the truth is the answer of a reference classifier, a row has a truth only if this classifier was called. If it was
called by exploration, the row also represents similar rows without exploration. So the row's weight is the inverse of
the reference's propensity. Given that the row was explored, all its calls have the propensity 1.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa

from app.importing.logged_calls import extract_prompt
from app.importing.pivot import ITEM, PROMPT, add_classifier
from app.recording.row_lines import decode_embedding
from models.arrays import Singles

TRUTH, WEIGHT = "truth", "weight"
Outcome = Literal["correct", "quality", "prediction"]


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """A call with its outcome."""

    outcome: float | str | None
    cost: float
    confidence: float | None
    propensity: float | None


@dataclass(frozen=True, slots=True)
class KnownTruth:
    """The known truth of an item: its class, or grades of answers by classifier."""

    label: str | None
    grades: Mapping[str, float]


@dataclass(slots=True, eq=False)
class _Row:
    """A row with truth, and its usable calls by classifier."""

    columns: Mapping[str, Any]
    truth: KnownTruth
    calls: dict[str, Mapping[str, Any]]
    weight: float = 1.0
    is_referenced: bool = False
    """Whether the truth is the answer of the reference."""
    is_selected: bool = False
    """Whether the row has a truth only because it was explored."""

    def grade_call(self, name: str, call: Mapping[str, Any]) -> float | None:
        """Return the quality of an answer; None if it is unknown."""
        if self.truth.label is None:
            return self.truth.grades.get(name)
        return None if call["label"] is None else float(call["label"] == self.truth.label)

    def propensity_of(self, call: Mapping[str, Any]) -> float | None:
        return 1.0 if self.is_selected else call["propensity"]

    def propensity_of_exploring(self, name: str) -> float | None:
        """Return the probability that an uncalled classifier would have been called.

        Return None if it is unknown.
        """
        made = {call["classifier"] for call in self.columns["calls"]}
        is_known = name in (self.columns["candidates"] or ()) and name not in made and not self.is_selected
        return self.columns["explore"] or None if is_known else None


@dataclass(frozen=True, slots=True, eq=False)
class FrozenTrace:
    """A partial trace of recorded rows.

    Attributes:
        embeddings: (n, d); None without any.
        unused: number of rows or calls that were not used, by reason.
    """

    table: pa.Table
    spec: dict[str, Any]
    embeddings: Singles | None
    unused: Counter[str] = field(default_factory=Counter)


def join_truths(truths: Iterable[Mapping[str, Any]]) -> dict[str, KnownTruth]:
    """Return the truth of each item: its latest class, or latest grade per classifier."""
    known: dict[str, KnownTruth] = {}
    for one in truths:
        grades = {each["classifier"]: each["value"] for each in one["grades"] or ()}
        before = known.get(one["id"])
        if one["truth"] is None and before is not None and before.label is None:
            grades = {**before.grades, **grades}
        known[one["id"]] = KnownTruth(one["truth"], grades)
    return known


def build_recorded_trace(
    rows: Sequence[Mapping[str, Any]], truths: Mapping[str, KnownTruth], reference: str | None, unit: str
) -> FrozenTrace:
    """Return the trace of recorded rows; its table has no rows if none can be used.

    Args:
        rows: rows as in ``segments.ROWS``, oldest first.
        reference: classifier whose answer is the truth of rows without another truth.
    """
    unused: Counter[str] = Counter()
    supported = _take_supported(rows, unused)
    known = [one for one in (_read_row(row, truths, reference, unused) for row in supported) if one is not None]
    is_classified = all(row.truth.label is not None for row in known)
    with_outcome = [row for row in known if _keep_graded(row, unused)]
    used, embeddings = _take_embedded(with_outcome, unused)
    columns: dict[str, list[Any]] = {}
    spec = _add_columns(columns, used, is_classified, reference, unit, has_embeddings=embeddings is not None)
    return FrozenTrace(pa.table(columns), spec, embeddings, +unused)


def _take_supported(rows: Sequence[Mapping[str, Any]], unused: Counter[str]) -> list[Mapping[str, Any]]:
    """Return the rows that support all estimates, if any row was explored.

    In these rows, every classifier of the newest version could be called.
    """
    explores = any(row["explore"] for row in rows)
    newest = next((frozenset(row["candidates"]) for row in reversed(rows) if row["candidates"]), frozenset())
    taken = []
    for row in rows:
        if row["candidates"] and not newest <= frozenset(row["candidates"]):
            unused["rows of versions without one of the newest version's classifiers"] += 1
        elif explores and row["explore"] == 0:
            unused["rows that could not be explored: the budget was spent, or calls waited"] += 1
        else:
            taken.append(row)
    return taken


def _read_row(
    row: Mapping[str, Any], truths: Mapping[str, KnownTruth], reference: str | None, unused: Counter[str]
) -> _Row | None:
    calls = {call["classifier"]: call for call in row["calls"] if call["error"] is None}
    unused["calls that failed"] += len(row["calls"]) - len(calls)
    truth = truths.get(row["id"])
    if truth is not None:
        return _Row(row, truth, calls)
    answer = None if reference is None else calls.get(reference)
    if answer is None or answer["label"] is None:
        unused["rows without truth"] += 1
        return None
    truth = KnownTruth(answer["label"], {})
    weight = 1 / (answer["propensity"] or 1.0)
    return _Row(row, truth, calls, weight, is_referenced=True, is_selected=bool(answer["is_explored"]))


def _keep_graded(row: _Row, unused: Counter[str]) -> bool:
    """Remove calls without an outcome, and return whether any call is left."""
    graded = {name: call for name, call in row.calls.items() if row.grade_call(name, call) is not None}
    unused["calls without an outcome"] += len(row.calls) - len(graded)
    unused["rows without a call that can be used"] += not graded
    row.calls = graded
    return bool(graded)


def _take_embedded(rows: list[_Row], unused: Counter[str]) -> tuple[list[_Row], Singles | None]:
    """Return the rows whose embeddings have the most frequent length, and these embeddings.

    Without embeddings, return all rows.
    """
    vectors = [decode_embedding(row.columns["embedding"]) for row in rows]
    lengths = Counter(len(one) for one in vectors if one is not None)
    if not lengths:
        return rows, None
    length = lengths.most_common(1)[0][0]
    taken = [(row, one) for row, one in zip(rows, vectors, strict=True) if one is not None and len(one) == length]
    unused[f"rows without an embedding of {length} numbers"] += len(rows) - len(taken)
    return [row for row, _ in taken], np.stack([one for _, one in taken])


def _add_columns(
    columns: dict[str, list[Any]],
    rows: Sequence[_Row],
    is_classified: bool,
    reference: str | None,
    unit: str,
    *,
    has_embeddings: bool,
) -> dict[str, Any]:
    """Add the columns of all rows, and return the spec."""
    spec: dict[str, Any] = {"kind": "trace", "unit": unit}
    if is_classified:
        columns[TRUTH], spec["label"] = [row.truth.label for row in rows], TRUTH
    if any(row.weight != 1 for row in rows):
        columns[WEIGHT], spec["weights"] = [row.weight for row in rows], WEIGHT
    if any(row.columns["explore"] for row in rows):
        spec["joint_propensity"] = "smallest"  # all other classifiers are explored at once
    if any(row.is_referenced for row in rows):
        spec["label_source"] = reference
    ids = [row.columns["id"] for row in rows]
    if len(set(ids)) < len(ids):
        columns[ITEM], spec["item"] = ids, ITEM
    spec |= _add_inputs(columns, rows, has_embeddings)
    names = sorted({name for row in rows for name in row.calls})
    outcome = _choose_outcome(rows, is_classified)
    spec["classifiers"] = [_add_calls(columns, name, rows, outcome) for name in names]
    return spec


def _add_inputs(columns: dict[str, list[Any]], rows: Sequence[_Row], has_embeddings: bool) -> dict[str, Any]:
    """Add sizes; without embeddings, also texts, if all rows have them.

    Return the corresponding part of the spec.
    """
    spec: dict[str, Any] = {}
    sizes = [row.columns["size"] or () for row in rows]
    if len({len(one) for one in sizes}) == 1 and sizes[0]:
        names = [f"size_{place}" for place in range(1, len(sizes[0]) + 1)]
        columns.update(zip(names, map(list, zip(*sizes, strict=True)), strict=True))
        spec["size"] = names
    if not has_embeddings:
        texts = [extract_prompt(orjson.loads(row.columns["item"] or "null")) for row in rows]
        if texts and all(texts):
            columns[PROMPT], spec["text"] = texts, PROMPT
    return spec


def _choose_outcome(rows: Sequence[_Row], is_classified: bool) -> Outcome:
    if is_classified:
        return "prediction"
    grades = {row.grade_call(name, call) for row in rows for name, call in row.calls.items()}
    return "correct" if grades <= {0.0, 1.0} else "quality"


def _add_calls(columns: dict[str, list[Any]], name: str, rows: Sequence[_Row], outcome: Outcome) -> dict[str, Any]:
    def read(row: _Row) -> RecordedOutcome | None:
        call = row.calls.get(name)
        if call is None:
            return None
        value = call["label"] if outcome == "prediction" else row.grade_call(name, call)
        return RecordedOutcome(value, call["cost"], call["confidence"], row.propensity_of(call))

    spec = add_classifier(columns, name, [read(row) for row in rows], outcome)
    if "propensity" in spec:
        known = zip(columns[spec["propensity"]], rows, strict=True)
        columns[spec["propensity"]] = [row.propensity_of_exploring(name) if one is None else one for one, row in known]
    return spec
