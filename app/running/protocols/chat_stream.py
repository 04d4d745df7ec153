"""Chat completions that are streamed as server-sent events: parses chunks, and assembles the complete reply."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.running.request_templates import TemplateMismatch
from models.chat import INDEX

_WHOLE = frozenset((INDEX, "type", "role", "id", "name"))
"""Texts of a delta that replace the text before; all others continue it."""


@dataclass(slots=True)
class StreamParser:
    """Parser of a streamed chat completion; it keeps unknown fields, too."""

    head: dict[str, Any] = field(default_factory=dict)
    choices: dict[int, dict[str, Any]] = field(default_factory=dict)
    is_complete: bool = False

    def take(self, line: bytes) -> Mapping[str, Any] | None:
        """Parse a line of the stream; return its chunk, if any; raises TemplateMismatch."""
        content = line[5:].strip() if line.startswith(b"data:") else b""
        if content in (b"", b"[DONE]"):
            self.is_complete = self.is_complete or content == b"[DONE]"
            return None
        try:
            chunk = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise TemplateMismatch("a chunk of the answer must be JSON") from error
        if not isinstance(chunk, dict) or chunk.get("error") is not None:
            raise TemplateMismatch("the stream ended with an error")
        self.head |= {name: value for name, value in chunk.items() if name != "choices" and value is not None}
        for place, choice in enumerate(_objects(chunk.get("choices"))):
            self._take_choice(_index(choice, place), choice)
        return chunk

    def assemble_reply(self) -> dict[str, Any]:
        """Return the complete reply, as if it had not been streamed."""
        choices = [{INDEX: index, **choice} for index, choice in sorted(self.choices.items())]
        return {**self.head, "object": "chat.completion", "choices": choices}

    def _take_choice(self, index: int, choice: Mapping[str, Any]) -> None:
        own = self.choices.setdefault(index, {"message": {"role": "assistant", "content": None}, "finish_reason": None})
        delta = choice.get("delta")
        extend_fields(own["message"], delta if isinstance(delta, dict) else {})
        extend_fields(own, {name: value for name, value in choice.items() if name not in ("delta", INDEX)})
        self.is_complete = self.is_complete or choice.get("finish_reason") is not None


def extend_fields(known: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to the accumulated fields.

    Texts and lists are appended. Members with an ``index`` are merged by index.

    >>> message = {"content": "a"}
    >>> extend_fields(message, {"content": "b", "tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})
    >>> extend_fields(message, {"tool_calls": [{INDEX: 0, "function": {"arguments": "}"}}]})
    >>> message
    {'content': 'ab', 'tool_calls': [{'function': {'arguments': '{}'}}]}
    """
    for name, value in delta.items():
        known[name] = value if name in _WHOLE and value is not None else _extended(known.get(name), value)


def _extended(known: Any, value: Any) -> Any:
    match value:
        case None:
            return known
        case str() if isinstance(known, str):
            return known + value
        case dict():
            fields = known if isinstance(known, dict) else {}
            extend_fields(fields, value)
            return fields
        case list():
            members = known if isinstance(known, list) else []
            for one in value:
                _extend_member(members, one)
            return members
        case _:
            return value


def _extend_member(members: list[Any], one: Any) -> None:
    """Add a member to a list: to the member at its ``index``, or at the end."""
    index = one.get(INDEX) if isinstance(one, dict) else None
    if not isinstance(one, dict) or isinstance(index, bool) or not isinstance(index, int):
        members.append(one)
        return
    if not 0 <= index <= len(members):
        raise TemplateMismatch(f"index in a chunk must be from 0 to {len(members)}, got {index}")
    if index == len(members):
        members.append({})
    if isinstance(members[index], dict):
        extend_fields(members[index], {name: value for name, value in one.items() if name != INDEX})


def to_deltas(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the choices of a complete reply as two chunks: one with the messages, one with the finish reasons."""
    begun: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []
    for place, choice in enumerate(_objects(reply.get("choices"))):
        rest = {name: value for name, value in choice.items() if name not in ("message", "finish_reason", INDEX)}
        index, message = _index(choice, place), choice.get("message")
        delta = _with_indices(message) if isinstance(message, dict) else {}
        begun.append({INDEX: index, "delta": delta, "finish_reason": None, **rest})
        ended.append({INDEX: index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"})
    return [{"choices": begun}, {"choices": ended}]


def _with_indices(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a delta; its tool calls get an index."""
    calls = _objects(message.get("tool_calls"))
    if not calls:
        return {name: value for name, value in message.items() if name != "tool_calls"}
    return {**message, "tool_calls": [{INDEX: place, **call} for place, call in enumerate(calls)]}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _index(choice: Mapping[str, Any], place: int) -> int:
    index = choice.get(INDEX)
    return index if isinstance(index, int) and not isinstance(index, bool) else place
