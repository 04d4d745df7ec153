"""Pivot of calls: a trace with one row per prompt, and empty cells for models that were not called."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import pyarrow as pa

from app.importing.logged_calls import LoggedCall

PROMPT, ITEM = "prompt", "item"


def pivot_calls(calls: Sequence[LoggedCall], unit: str) -> tuple[pa.Table, dict[str, Any]]:
    """Return the table of a trace, and its spec.

    A prompt that a model answered several times has several rows, which count as one item.

    Complexity: O(calls).
    """
    rows: dict[tuple[str, int], dict[str, LoggedCall]] = defaultdict(dict)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for call in calls:
        place = counts[call.text, call.classifier]
        counts[call.text, call.classifier] += 1
        rows[call.text, place][call.classifier] = call
    repeats = any(place for _, place in rows)
    columns: dict[str, list[Any]] = {PROMPT: [text for text, _ in rows]}
    if repeats:
        numbers = {text: number for number, text in enumerate(dict.fromkeys(text for text, _ in rows), start=1)}
        columns[ITEM] = [str(numbers[text]) for text, _ in rows]
    names = sorted({call.classifier for call in calls})
    graded = any(call.outcome not in (0.0, 1.0) for call in calls)
    outcome: Literal["correct", "quality"] = "quality" if graded else "correct"
    classifiers = [add_classifier(columns, name, [row.get(name) for row in rows.values()], outcome) for name in names]
    spec: dict[str, Any] = {"kind": "trace", "unit": unit, "text": PROMPT, "classifiers": classifiers}
    return pa.table(columns), {**spec, **({"item": ITEM} if repeats else {})}


class PivotedCall(Protocol):
    """A call as a cell of a trace; unknown numbers are None."""

    @property
    def outcome(self) -> float | str | None:
        """Whether the answer was correct, its quality, or the answer itself."""

    @property
    def cost(self) -> float | None:
        """The cost of the call."""

    @property
    def confidence(self) -> float | None:
        """The confidence, from 0 to 1."""

    @property
    def propensity(self) -> float | None:
        """The probability of the call, given the item."""


def add_classifier(
    columns: dict[str, list[Any]],
    name: str,
    calls: Sequence[PivotedCall | None],
    outcome: Literal["correct", "quality", "prediction"],
) -> dict[str, Any]:
    """Add the columns of a classifier, and return its spec.

    Args:
        calls: the call of each row; None if the classifier was not called.
        outcome: the type of the outcomes: ``correct``, ``quality``, or an answer.
    """
    spec: dict[str, Any] = {"name": name, outcome: f"{name}.{outcome}", "cost": {"column": f"{name}.cost"}}
    columns[f"{name}.{outcome}"] = [None if call is None else call.outcome for call in calls]
    columns[f"{name}.cost"] = [None if call is None else call.cost for call in calls]
    for field, needs_all in (("confidence", True), ("propensity", False)):
        values = [None if call is None else getattr(call, field) for call in calls]
        known = [value is not None for value, call in zip(values, calls, strict=True) if call is not None]
        if all(known) if needs_all else any(known):
            columns[f"{name}.{field}"] = values
            spec[field] = f"{name}.{field}"
    return spec
