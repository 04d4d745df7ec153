"""Validation of language models' tool calls: known functions, valid arguments."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import orjson

from app.running.request_templates import TemplateMismatch
from models.chat import INDEX

MAX_SCHEMAS = 256
"""Compiled schemas that are kept."""


def list_tool_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message, including the legacy form ``function_call``."""
    calls = message.get("tool_calls")
    older = message.get("function_call")
    listed = [one for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    return listed or ([{"type": "function", "function": older}] if isinstance(older, dict) else [])


def canonicalize_tool_calls(calls: Iterable[Mapping[str, Any]]) -> str:
    """Return tool calls as a canonical text, which does not depend on their ids.

    >>> canonicalize_tool_calls([{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}])
    '[{"function":{"arguments":"{}","name":"add"},"type":"function"}]'
    """
    without_ids = [{name: value for name, value in call.items() if name not in ("id", INDEX)} for call in calls]
    return orjson.dumps(without_ids, option=orjson.OPT_SORT_KEYS).decode()


def are_valid_calls(calls: Iterable[Mapping[str, Any]], options: Mapping[str, Any]) -> bool:
    """Return whether each call has a requested function and arguments that fit its schema.

    Arguments are not checked if the schema is invalid, or refers to other documents.
    """
    tools = options.get("tools")
    functions = [one.get("function") for one in tools if isinstance(one, dict)] if isinstance(tools, list) else []
    functions += options["functions"] if isinstance(options.get("functions"), list) else []
    schemas = {one.get("name"): one.get("parameters") for one in functions if isinstance(one, dict)}
    return all(_is_valid(call, schemas) for call in calls)


def _is_valid(call: Mapping[str, Any], schemas: Mapping[Any, Any]) -> bool:
    function = call.get("function")
    if call.get("type", "function") != "function":
        return True
    if not isinstance(function, dict) or function.get("name") not in schemas:
        return False
    try:
        arguments = orjson.loads(function.get("arguments") or "{}")
    except (orjson.JSONDecodeError, TypeError):
        return False
    schema = schemas[function["name"]]
    return not isinstance(schema, dict) or _fits(orjson.dumps(schema), arguments)


def _fits(schema: bytes, arguments: Any) -> bool:
    validator = _compile_schema(schema)
    return validator is None or bool(validator.is_valid(arguments))


@lru_cache(maxsize=MAX_SCHEMAS)
def _compile_schema(schema: bytes) -> Any:
    """Return the validator of a JSON schema; None if the schema cannot be used.

    Its patterns are matched in linear time.
    """
    try:
        return jsonschema_rs.validator_for(
            orjson.loads(schema), pattern_options=jsonschema_rs.RegexOptions(), retriever=_refuse_reference
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return None


def _refuse_reference(uri: str) -> Any:
    raise TemplateMismatch("a schema must not refer to another document")
