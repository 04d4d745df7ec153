"""A first draft of a spec: what a table's columns are likely to mean, by their names and first rows."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from models.base import Items, Value

_PART = r"[ _.\-]"
"""What stands between the name of a classifier and what a column says of it."""
_SAYS = re.compile(rf"^(.*?){_PART}?(says|said|pred|prediction|predicted|answer|label)$", re.I)
_SURE = re.compile(rf"{_PART}(sure|conf|confidence|prob|probability|score|logprob)$", re.I)
_COST = re.compile(rf"{_PART}(ms|us|s|sec|seconds|time|usd|dollars|eur|cost|price)$", re.I)
_LABEL = re.compile(r"^(truth|true[ _]?label|ground[ _]?truth|label|target|class|outcome|y)$", re.I)
_UNITS = {"ms": "ms", "us": "us", "s": "s", "sec": "s", "seconds": "s", "usd": "USD", "dollars": "USD", "eur": "EUR"}


class SpecDraft(Value):
    """A draft to look at and to mend, with the rows that it was made from."""

    spec: dict[str, Any] = Field(description="the draft: look at costs and the unit")
    columns: Items[str] = Field(description="the table's columns")
    rows: Items[Items[str]] = Field(description="its first rows, as text")
    guesses: Items[str] = Field(description="what the draft could not know")


def draft_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Draft a spec from columns and some rows: a trace where columns come as answer, confidence and cost of somebody,
    else features; and say what was guessed.

    >>> draft_of(["GPT 4 answer", "GPT 4 confidence", "GPT 4 usd", "truth"], [])[0]["classifiers"][0]["name"]
    'GPT 4'
    """
    label = next((column for column in columns if _LABEL.match(column)), columns[-1])
    answers = [column for column in columns if column != label and _SAYS.match(column)]
    guesses = [] if _LABEL.match(label) else [f"the label is the last column, {label!r}: no other looks like one"]
    if answers:
        spec, more = _trace(columns, label, answers)
    else:
        spec, more = _features(columns, rows, label)
    return spec, (*guesses, *more)


def _trace(columns: Sequence[str], label: str, answers: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    classifiers, units, guesses = [], list[str](), []
    for prediction in answers:
        match = _SAYS.match(prediction)
        name = (match and match[1]) or prediction
        own = [one for one in columns if one != prediction and re.match(rf"{re.escape(name)}{_PART}", one)]
        confidence = next((one for one in own if _SURE.search(one)), None)
        cost = next((one for one in own if _COST.search(one)), None)
        said = {"name": name, "prediction": prediction} | ({"confidence": confidence} if confidence else {})
        classifiers.append(said | {"cost": {"column": cost} if cost else 1})
        if cost is None:
            guesses.append(f"{name!r} has no column of its cost: 1 stands for it")
        else:
            units += [_UNITS[word] for word in [re.split(_PART, cost)[-1].lower()] if word in _UNITS]
    unit = units[0] if units else "unit"
    if len(set(units)) > 1:
        guesses.append(f"costs seem to be in {' and '.join(sorted(set(units)))}: they must be in one unit")
    return {"kind": "trace", "label": label, "unit": unit, "classifiers": classifiers}, guesses


def _features(columns: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> tuple[dict[str, Any], list[str]]:
    names = [column for column in columns if column != label]
    cells = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    categorical = [name for name in names if any(cell and not _is_number(cell) for cell in cells[name])]
    missing = any(not cell for name in names for cell in cells[name])
    spec: dict[str, Any] = {"kind": "features", "label": label, "unit": "ms"}
    spec |= {"categorical": categorical} if categorical else {}
    spec |= {"missing": True} if missing else {}
    features = [{"name": name, "columns": [name], "cost": 1} for name in names]
    return spec | {"features": features}, ["what each feature costs: 1 stands for all"]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
