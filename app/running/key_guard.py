"""Removes endpoints' API keys from replies.

An endpoint receives its key and could return it: verbatim, escaped in JSON, or in pieces of a streamed answer. Replies
with the key are rejected.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from app.running.protocols.message import OnChunk, ParsedResponse
from models.chat import INDEX

_GROWING = frozenset(("content", "refusal", "reasoning", "reasoning_content", "arguments"))
"""Fields of a delta whose texts are continued by later ones."""


class SecretLeaked(Exception):
    """Raised for a reply that contains the key that was sent."""


class KeyGuard:
    """Searches replies for one key; methods raise SecretLeaked if they find it."""

    def __init__(self, key: str) -> None:
        self._key, self._held = key, dict[tuple[Any, ...], str]()
        self._forms = {key.encode(), _in_json(key)}

    def check_body(self, body: bytes) -> None:
        """Check the bytes of a reply."""
        if any(form in body for form in self._forms):
            raise SecretLeaked

    def check_content(self, body: bytes) -> None:
        """Check a reply that may be JSON, in which escaped keys are decoded."""
        with suppress(orjson.JSONDecodeError):
            self.check_body(orjson.dumps(orjson.loads(body)))

    def check_response(self, response: ParsedResponse) -> None:
        """Check a parsed reply, in which escaped keys are decoded."""
        if _in_json(self._key) in orjson.dumps(response):
            raise SecretLeaked

    def guard_chunks(self, pass_on: OnChunk) -> OnChunk:
        """Return a filter of chunks that holds back a possible start of the key.

        The start may be at the end of any text.
        """

        def take(chunk: Mapping[str, Any]) -> None:
            choices = chunk.get("choices")
            listed = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
            guarded = [
                {**one, "delta": self._guard(one.get("delta"), (_place_of(one, place),))}
                for place, one in enumerate(listed)
            ]
            if self._held and any(one.get("finish_reason") is not None for one in listed):
                pass_on({**chunk, "choices": [{**one, "finish_reason": None} for one in guarded]})
                self.release_held(pass_on)
                guarded = [{**one, "delta": {}} for one in guarded]
            pass_on({**chunk, "choices": guarded})

        return take

    def release_held(self, pass_on: OnChunk) -> None:
        """Emit the held-back texts at the end of the answer."""
        held, self._held = self._held, {}
        for (choice, *path), text in held.items():
            pass_on({"choices": [{INDEX: choice, "delta": _nest(path, text), "finish_reason": None}]})

    def _guard(self, value: Any, path: tuple[Any, ...]) -> Any:
        """Return a part of a delta without the held-back end of its text."""
        if isinstance(value, dict):
            return {name: self._guard(each, (*path, name)) for name, each in value.items()}
        if isinstance(value, list):
            return [self._guard(each, (*path, _place_of(each, place))) for place, each in enumerate(value)]
        if not isinstance(value, str):
            return value
        text = self._held.pop(path, "") + value
        if self._key in text:
            raise SecretLeaked
        held = self._count_overlap(text) if path[-1] in _GROWING else 0
        if held:
            self._held[path] = text[len(text) - held :]
        return text[: len(text) - held]

    def _count_overlap(self, text: str) -> int:
        """Return the number of characters at the end of a text that could begin the key."""
        longest = min(len(self._key) - 1, len(text))
        return next((size for size in range(longest, 0, -1) if text.endswith(self._key[:size])), 0)


def _place_of(member: Any, place: int) -> int:
    index = member.get(INDEX) if isinstance(member, dict) else None
    return index if isinstance(index, int) else place


def _nest(path: Sequence[Any], text: str) -> Any:
    """Return a delta with one text, at a path of names and places.

    >>> _nest(["tool_calls", 1, "function", "arguments"], "{")
    {'tool_calls': [{'index': 1, 'function': {'arguments': '{'}}]}
    """
    value: Any = text
    for part in reversed(path):
        value = [{INDEX: part, **value}] if isinstance(part, int) else {part: value}
    return value


def _in_json(text: str) -> bytes:
    return orjson.dumps(text)[1:-1]
