"""Formats of answers to chats: the interface, and OpenAI's chat completions."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

from models.chat import ChatRequest, OpenRequest


class ChatFormat(Protocol):
    """Writer of the answer to one chat in the format of an API."""

    def write_reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply for a completion."""

    def write_chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """Return the events of a chunk of the answer; finish reasons come later."""

    def write_end(self, completion: Mapping[str, Any], ends: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the last events.

        Args:
            completion: the complete answer.
            ends: a choice with its ``finish_reason`` for each choice of the answer.
        """

    def write_error(self, body: Mapping[str, Any]) -> bytes:
        """Return the events of an error that ends the answer.

        ``body`` is the body of an error reply.
        """


def write_event(content: Mapping[str, Any], name: str | None = None) -> bytes:
    """Return a server-sent event.

    >>> write_event({"a": 1}, "start")
    b'event: start\\ndata: {"a":1}\\n\\n'
    """
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + orjson.dumps(content) + b"\n\n"


def requests_usage(request: OpenRequest) -> bool:
    """Return whether a request requires the usage at the end of a stream."""
    options = (request.model_extra or {}).get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


class CompletionFormat:
    """Writer of OpenAI's chat completions."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        began: dict[str, Any] = {"id": f"chatcmpl-{time.time_ns():x}", "object": "chat.completion.chunk"}
        self._head = began | {"created": int(time.time()), "model": request.model}

    def write_reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """Return the completion."""
        return {**completion, **self._head, "object": "chat.completion"}

    def write_chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """Return the chunk as an event."""
        return write_event({**chunk, **self._head, "usage": None})

    def write_end(self, completion: Mapping[str, Any], ends: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the ends of the choices with the run, and, if requested, the usage."""
        events = write_event({**completion, **self._head, "choices": ends, "usage": None})
        if requests_usage(self._request):
            events += write_event({**self._head, "choices": [], "usage": completion["usage"]})
        return events + b"data: [DONE]\n\n"

    def write_error(self, body: Mapping[str, Any]) -> bytes:
        """Return the error as an event."""
        return write_event(body)
