"""Plain messages for Pydantic validation errors."""

import json
import re
from collections.abc import Mapping
from typing import Any

from models.base import LIMITS, NAME_PATTERN

UNKNOWN = "is not a known field"
NO_LIMIT = "is not supported for this kind of artifact"
_MEMBER = re.compile(r"^(constrained-\w+|(literal|tuple|dict|list|function-\w+)\[.*\])$")
MAX_SHOWN_CHARACTERS = 60
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_TYPES = {
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
}
"""Messages of pydantic's common faults."""
MAX_DIGITS = 1e15
"""Larger bounds are written as a power of ten."""


def drop_union_parts(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Remove the parts of a location that name the tried member of a union.

    >>> drop_union_parts(("params", "samples", "literal['auto']")), drop_union_parts(("budget", "constrained-float"))
    (('params', 'samples'), ('budget',))
    """
    return tuple(part for part in loc if not (isinstance(part, str) and _MEMBER.match(part)))


def describe_fault(fault: Mapping[str, Any]) -> str:
    """Return a plain message for a fault found by Pydantic."""
    context = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return NO_LIMIT if fault["loc"][-1] in LIMITS else UNKNOWN
        case "tuple_type":
            return "must be a list"
        case "model_type" | "model_attributes_type":
            return "must be an object"
        case "too_short":
            return f"must have at least {context.get('min_length', 1)} items, got {context.get('actual_length', 0)}"
        case "union_tag_not_found":
            return f"{context.get('discriminator')} is missing"
        case "less_than_equal" if context.get("le", 0) > MAX_DIGITS:
            return f"must be at most {context['le']:g}"
        case "json_invalid":
            return f"must be JSON: {context.get('error', fault['msg'])}"
        case "string_pattern_mismatch" if context.get("pattern") == NAME_PATTERN:
            return "must be lower-case letters, digits, '.', '_' or '-', at most 63, the first a letter or digit"
        case kind if kind in _BOUNDS:
            word, key = _BOUNDS[kind]
            return f"must be {word} {_format_bound(context[key])}{_got(fault)}"
        case kind if kind in _TYPES:
            return f"must be {_TYPES[kind]}{_got(fault)}"
        case "literal_error":
            return f"must be {context['expected']}{_got(fault)}"
        case "string_too_long" | "too_long":
            what = "characters" if fault["type"] == "string_too_long" else "items"
            length = f", got {len(fault['input'])}" if isinstance(fault.get("input"), str | list | tuple | dict) else ""
            return f"must have at most {context['max_length']} {what}{length}"
        case _:
            return str(fault["msg"]).removeprefix("Value error, ")


def _format_bound(bound: Any) -> str:
    """Format a bound without trailing zeros.

    >>> _format_bound(0.0), _format_bound(100_000), _format_bound(0.05)
    ('0', '100000', '0.05')
    """
    return f"{bound:.15g}" if isinstance(bound, float) else str(bound)


def _got(fault: Mapping[str, Any]) -> str:
    """Return the invalid value of a fault as text, if it is short."""
    value = fault.get("input")
    text = json.dumps(value) if isinstance(value, str | int | float | bool | None) and "input" in fault else ""
    return f", got {text}" if text and len(text) <= MAX_SHOWN_CHARACTERS else ""
