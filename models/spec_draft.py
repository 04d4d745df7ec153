"""Drafts of specs, made from a table's column names and first rows."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from models.base import Items, Value
from models.confidence_scale import ConfidenceScale

_PART = r"[ _.\-]"
"""Separators between the name of a classifier and the suffix of a column."""
_SAYS = re.compile(rf"^(.*?){_PART}?(says|said|pred|prediction|predicted|answer|label)$", re.I)
_RIGHT = re.compile(rf"^(.+?){_PART}(correct|is[ _]?correct|passed)$", re.I)
_GRADE = re.compile(rf"^(.+?){_PART}(quality|grade|judge|reward|pass[ _]?rate)$", re.I)
_PERCENT = rf"({_PART}*(%|\(%\)|percent|pct))?"
_SURE = re.compile(rf"{_PART}(sure|conf|confidence|prob|probability|score|logprob|logit){_PERCENT}$", re.I)
_COST = re.compile(rf"{_PART}(ms|us|s|sec|seconds|time|usd|dollars|eur|cost|price)$", re.I)
_TOKENS = re.compile(rf"{_PART}(tokens|tokens[ _]?(in|out)|(input|output|prompt|completion)[ _]tokens)$", re.I)
_TEXT = re.compile(r"^(prompt|text|question|query|instruction|message|ticket)$", re.I)
_LABELS = (
    re.compile(r"^(truth|label|target|ground[ _]?truth|gold|(true|correct|gold)[ _](label|class|answer))$", re.I),
    re.compile(r"^(class|outcome)$", re.I),
    re.compile(r"^(true|correct|gold|actual)[ _].+$", re.I),
    re.compile(r"^y$", re.I),
)
"""Names of the column of the truth, the plainest first."""
NO_UNIT = "cost unit"
"""Unit of a draft whose columns name none."""
_UNITS = {"ms": "ms", "us": "us", "s": "s", "sec": "s", "seconds": "s", "usd": "USD", "dollars": "USD", "eur": "EUR"}


class SpecDraft(Value):
    """A draft of a spec to review, and the rows from which it was made."""

    spec: dict[str, Any] = Field(description="the draft; check costs and unit")
    columns: Items[str] = Field(description="the table's columns")
    rows: Items[Items[str]] = Field(description="the first rows of the table, as text")
    guesses: Items[str] = Field(description="guesses and unknown values to check")


def make_spec_draft(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a draft of a spec from columns and some rows, and the guesses made.

    A table with columns of answers, confidences, and costs becomes a trace. With only the correctness or quality of
    answers, it becomes a trace without a label. Any other table becomes a feature table.

    >>> make_spec_draft(["GPT 4 answer", "GPT 4 confidence", "GPT 4 usd", "truth"], [])[0]["classifiers"][0]["name"]
    'GPT 4'
    >>> make_spec_draft(["prompt", "small_correct", "small_usd", "large_correct", "large_usd"], [])[0]["classifiers"][0]
    {'name': 'small', 'correct': 'small_correct', 'cost': {'column': 'small_usd'}}
    """
    label = _label_of(columns)
    answers = [column for column in columns if column != label and _SAYS.match(column)]
    graded = [column for column in columns if _RIGHT.match(column) or _GRADE.match(column)]
    if len(graded) > 1 and (label is None or not answers):
        spec, more = _trace(columns, rows, None, graded)
        return spec, tuple(more)
    free = [column for column in columns if not _told_of_somebody(column)]
    last = label or (free or list(columns))[-1]
    guesses = [] if label else [f"the label is {last!r}: no column's name suggests one"]
    if answers:
        spec, more = _trace(columns, rows, last, answers)
    else:
        spec, more = _features(columns, rows, last)
    return spec, (*guesses, *more)


def _label_of(columns: Sequence[str]) -> str | None:
    """Return the column whose name most likely denotes the true label.

    >>> _label_of(["x", "y", "label"]), _label_of(["true letter", "A answer"]), _label_of(["A answer", "B ms"])
    ('label', 'true letter', None)
    """
    free = [column for column in columns if _LABELS[0].match(column) or not _told_of_somebody(column)]
    return next((column for names in _LABELS for column in free if names.match(column)), None)


def _told_of_somebody(column: str) -> bool:
    """Return whether a column's name denotes an answer, grade, confidence, or cost of a classifier."""
    begin, end = (_SAYS, _RIGHT, _GRADE), (_SURE, _COST, _TOKENS)
    return any(names.match(column) for names in begin) or any(names.search(column) for names in end)


def _trace(
    columns: Sequence[str], rows: Sequence[Sequence[str]], label: str | None, answering: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Draft a trace from the columns of classifiers."""
    classifiers, units, guesses = dict[str, dict[str, Any]](), list[str](), []
    for column in answering:
        what, match = _told(column)
        name = (match and match[1]) or column
        if name in classifiers:
            guesses.append(f"{column!r} is excluded: {name!r} has its answers in another column")
            continue
        own = [one for one in columns if one != column and re.match(rf"{re.escape(name)}{_PART}", one)]
        confidence = next((one for one in own if _SURE.search(one)), None)
        cost = next((one for one in own if _COST.search(one)), None)
        tokens = [one for one in own if _TOKENS.search(one)]
        message = {"name": name, what: column} | ({"confidence": confidence} if confidence else {})
        scale = None if confidence is None else _scale_of(confidence, _numbers(columns, rows, confidence))
        if scale is not None:
            message["confidence_scale"] = scale
            guesses.append(f"{confidence!r} is read as {scale}, and converted to probabilities")
        classifiers[name] = message | {"cost": {"column": cost} if cost else 1}
        if cost is not None:
            units += [_UNITS[word] for word in [re.split(_PART, cost)[-1].lower()] if word in _UNITS]
        elif tokens:
            price = f"tokens in {tokens[0]!r} times their price, as a column of its own, would be its cost"
            guesses.append(f"{name!r} has no column of its cost: set to 1; {price}")
        else:
            guesses.append(f"{name!r} has no column of its cost: set to 1")
    unit = units[0] if units else NO_UNIT
    if len(set(units)) > 1:
        guesses.append(f"costs seem to be in {' and '.join(sorted(set(units)))}: they must be in one unit")
    label_of = {} if label is None else {"label": label}
    texts = [one for one in columns if _TEXT.match(one)]
    if texts:
        label_of["text"] = texts[0]
        guesses.append(f"{texts[0]!r} has the items' texts, by whose words they are embedded if you send no embeddings")
    return {"kind": "trace", **label_of, "unit": unit, "classifiers": list(classifiers.values())}, guesses


def _scale_of(column: str, values: Sequence[float]) -> ConfidenceScale | None:
    """Return the scale of confidences, from the column's name or its first values.

    Return None for probabilities.

    >>> _scale_of("a_logprob", []), _scale_of("a_sure", [97.0, 3.0]), _scale_of("a_sure", [0.9])
    ('logprob', 'percent', None)
    """
    match = _SURE.search(column)
    word, percent = (match[1].lower(), match[2]) if match else ("", None)
    named: dict[str, ConfidenceScale] = {"logprob": "logprob", "logit": "logit"}
    if percent or word in named:
        return "percent" if percent else named[word]
    if not values or (min(values) >= 0 and max(values) <= 1):
        return None
    if max(values) <= 0:
        return "logprob"
    return "percent" if min(values) >= 0 and max(values) <= 100 else "logit"


def _numbers(columns: Sequence[str], rows: Sequence[Sequence[str]], column: str) -> list[float]:
    """Return the numbers of a column in the first rows."""
    place = list(columns).index(column)
    return [float(row[place]) for row in rows if place < len(row) and _is_number(row[place])]


def _told(column: str) -> tuple[str, re.Match[str] | None]:
    """Return the spec field that a column fills, and how its name was recognized."""
    kinds = {"correct": _RIGHT, "quality": _GRADE, "prediction": _SAYS}
    return next(((what, match) for what, how in kinds.items() if (match := how.match(column))), ("prediction", None))


def _features(columns: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> tuple[dict[str, Any], list[str]]:
    names = [column for column in columns if column != label]
    cells = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    categorical = [name for name in names if any(cell and not _is_number(cell) for cell in cells[name])]
    missing = any(not cell for name in names for cell in cells[name])
    spec: dict[str, Any] = {"kind": "features", "label": label, "unit": NO_UNIT}
    spec |= {"categorical": categorical} if categorical else {}
    spec |= {"missing": True} if missing else {}
    features = [{"name": name, "columns": [name], "cost": 1} for name in names]
    return spec | {"features": features}, ["the costs of features: all set to 1"]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
