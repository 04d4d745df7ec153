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
    """Read a query, in the same way as one that comes over HTTP."""
    kind = SOLVERS[solver].query
    try:
        return kind.model_validate_strings(read_pairs(words))
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
