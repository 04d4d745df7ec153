"""The key=value words of the command line."""

import json
from collections.abc import Sequence
from typing import Any

import typer
from pydantic import ValidationError

from models import Fault, InvalidRequest, Value
from models.columns import first_repeated
from solvers import SOLVERS


def read_query(solver: str, words: Sequence[str]) -> Value:
    """Read a query, in the same way as one that comes over HTTP: what holds several may be repeated."""
    kind = SOLVERS[solver].query
    values: dict[str, Any] = {}
    for key, text in map(_pair, words):
        many = key in kind.model_fields and "tuple" in str(kind.model_fields[key].annotation)
        if key in values and not many:
            raise InvalidRequest.at(Fault((key,), "is given twice"))
        values[key] = [*values.get(key, []), json_or_text(text)] if many else json_or_text(text)
    for key, value in values.items():
        alone = isinstance(value, list) and len(value) == 1
        if alone and ("float |" in str(kind.model_fields[key].annotation) or isinstance(value[0], list)):
            values[key] = value[0]
    try:
        return kind.model_validate_json(json.dumps(values))
    except ValidationError as error:
        said = f"is no query parameter; there are {', '.join(kind.model_fields)}"
        faults = InvalidRequest.of(error).faults
        raise InvalidRequest.at(*(Fault(f.loc, said) if f.msg == "is not known here" else f for f in faults)) from error


def read_pairs(words: Sequence[str]) -> dict[str, str]:
    """Read key=value words, each key once."""
    pairs = list(map(_pair, words))
    repeated = first_repeated(key for key, _ in pairs)
    if repeated is not None:
        raise InvalidRequest.at(Fault((repeated,), "is given twice"))
    return dict(pairs)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise typer.BadParameter(f"{text!r} must be key=value")
    return key, value


def json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
