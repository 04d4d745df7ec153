"""Parsing of ``key=value`` arguments."""

import json
from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic import ValidationError

from models import Fault, InvalidRequest, Value
from models.columns import find_duplicate_name
from solvers import KINDS


def read_query(kind: str, pairs: Sequence[str]) -> Value:
    """Parse a query as in HTTP requests; keys of list fields may be repeated."""
    artifact_kind = KINDS[kind].query
    forms = {name: _forms(field.annotation) for name, field in artifact_kind.model_fields.items()}
    values: dict[str, Any] = {}
    for key, text in map(_pair, pairs):
        many = tuple in forms.get(key, ())
        if key in values and not many:
            raise InvalidRequest.from_faults(Fault((key,), "is repeated; send it once"))
        is_text = forms.get(key, {None}) <= {str, type(None)}
        value = parse_text(text) if is_text else parse_json_or_text(text)
        values[key] = [*values.get(key, []), value] if many else value
    for key, value in values.items():
        alone = isinstance(value, list) and len(value) == 1
        if alone and (float in forms.get(key, ()) or isinstance(value[0], list)):
            values[key] = value[0]
    try:
        return artifact_kind.model_validate_json(json.dumps(values))
    except ValidationError as error:
        message = f"is not a query parameter; available: {', '.join(artifact_kind.model_fields)}"
        raise InvalidRequest.from_validation(error).listing_known(message) from error


def _forms(annotation: Any) -> set[Any]:
    """List the types that a field may have.

    >>> _forms(float | tuple[float, ...] | None) == {float, tuple, type(None)}
    True
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        return _forms(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return {form for part in get_args(annotation) for form in _forms(part)}
    return {origin or annotation}


def parse_repeated_keys(pairs: Sequence[str]) -> list[tuple[str, str]]:
    """Parse key=value arguments; keys may be repeated."""
    return list(map(_pair, pairs))


def parse_key_values(pairs: Sequence[str]) -> dict[str, str]:
    """Parse key=value arguments; raises an error for duplicate keys."""
    items = list(map(_pair, pairs))
    repeated = find_duplicate_name(key for key, _ in items)
    if repeated is not None:
        raise InvalidRequest.from_faults(Fault((repeated,), "is repeated; send it once"))
    return dict(items)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise typer.BadParameter(f"{text!r} must be key=value")
    return key, value


def parse_text(text: str) -> Any:
    """Parse a text or null; JSON strings are unquoted.

    >>> parse_text("[1, 2]"), parse_text('"[1, 2]"'), parse_text("null")
    ('[1, 2]', '[1, 2]', None)
    """
    value = parse_json_or_text(text)
    return value if value is None or isinstance(value, str) else text


def parse_json_or_text(text: str) -> Any:
    """Parse JSON; return anything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
