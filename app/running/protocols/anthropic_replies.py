"""Anthropic's Messages API as a server: writes answers to chats as messages.

Answers are whole messages or server-sent events.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import orjson

from app.running.protocols.answer_pieces import (
    AnswerPiece,
    OpenBlock,
    get_choice_message,
    get_first_choice,
    get_token_count,
    list_pieces,
    make_id,
)
from app.running.protocols.openai_replies import write_event
from models.chat import INDEX
from models.messages import MessagesRequest

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
NOT_JSON = "INVALID_JSON"
"""The name under which arguments of a tool call that are not a JSON object are passed on, as Anthropic recommends."""


class MessageFormat:
    """Writer of Anthropic's messages."""

    def __init__(self, request: MessagesRequest) -> None:
        self._request, self._id = request, make_id("msg")
        self._open = OpenBlock()
        self._blocks = 0
        self._has_begun = False
        self._kinds: set[str] = set()

    def write_reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message for a completion."""
        choice = get_first_choice(completion)
        pieces = list(list_pieces(get_choice_message(choice)))
        content = [_block(piece, place) for place, piece in enumerate(pieces)]
        ending = self._ending(choice, {piece.kind for piece in pieces})
        usage, run = _usage(completion), completion.get("parsimony")
        return {**self._head(), "content": content, **ending, "usage": usage, "parsimony": run}

    def write_chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """Return the events of a chunk: blocks start, continue, and stop in turn."""
        return b"".join(self._begin()) + b"".join(
            event for piece in list_pieces(get_choice_message(get_first_choice(chunk))) for event in self._take(piece)
        )

    def write_end(self, completion: Mapping[str, Any], ends: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the end of the last block, then of the message, with its usage and the run."""
        ending = self._ending(get_first_choice({"choices": ends}), self._kinds)
        delta = {"type": "message_delta", "delta": ending, "usage": _usage(completion)}
        events = (*self._begin(), *self._close(), _event(delta | {"parsimony": completion.get("parsimony")}))
        return b"".join(events) + _event({"type": "message_stop"})

    def write_error(self, body: Mapping[str, Any]) -> bytes:
        """Return the error as an event."""
        return write_event(body, "error")

    def _head(self) -> dict[str, Any]:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._request.model}

    def _ending(self, choice: Mapping[str, Any], kinds: Set[str]) -> dict[str, Any]:
        """Return the stop reason, and the stop sequence if the model's server reports it."""
        finish, sequence = choice.get("finish_reason"), choice.get("stop_reason")
        if finish == "stop" and isinstance(sequence, str) and sequence in self._request.stop_sequences:
            return {"stop_reason": "stop_sequence", "stop_sequence": sequence}
        if finish == "stop" and kinds & {"refusal", "call"}:
            finish = "content_filter" if "refusal" in kinds else "tool_calls"
        return {"stop_reason": finish and _STOP_REASONS.get(finish, "end_turn"), "stop_sequence": None}

    def _begin(self) -> Iterator[bytes]:
        """Yield the start of the message; its token counts are known only at its end."""
        if not self._has_begun:
            self._has_begun = True
            message = {**self._head(), "content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage({})}
            yield _event({"type": "message_start", "message": message})

    def _take(self, piece: AnswerPiece) -> Iterator[bytes]:
        self._kinds.add(piece.kind)
        if not self._open.is_continued_by(piece):
            yield from self._close()
            self._open.piece = piece
            begun = _empty_block(piece, self._blocks)
            yield _event({"type": "content_block_start", INDEX: self._blocks, "content_block": begun})
        if piece.text:
            yield _event({"type": "content_block_delta", INDEX: self._blocks, "delta": _delta(piece)})

    def _close(self) -> Iterator[bytes]:
        if self._open.close_block() is not None:
            yield _event({"type": "content_block_stop", INDEX: self._blocks})
            self._blocks += 1


def _event(content: Mapping[str, Any]) -> bytes:
    return write_event(content, content["type"])


def _empty_block(piece: AnswerPiece, place: int) -> dict[str, Any]:
    match piece.kind:
        case "reasoning":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "call":
            call_id = piece.call_id or make_id("toolu", place)
            return {"type": "tool_use", "id": call_id, "name": piece.name, "input": {}}
        case _:
            return {"type": "text", "text": ""}


def _delta(piece: AnswerPiece) -> dict[str, Any]:
    match piece.kind:
        case "reasoning":
            return {"type": "thinking_delta", "thinking": piece.text}
        case "call":
            return {"type": "input_json_delta", "partial_json": piece.text}
        case _:
            return {"type": "text_delta", "text": piece.text}


def _block(piece: AnswerPiece, place: int) -> dict[str, Any]:
    block = _empty_block(piece, place)
    match piece.kind:
        case "reasoning":
            return block | {"thinking": piece.text}
        case "call":
            return block | {"input": read_arguments(piece.text)}
        case _:
            return block | {"text": piece.text}


def read_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments of a tool call; invalid JSON objects are returned as a text.

    >>> read_arguments('{"x": 1}'), read_arguments(""), read_arguments('{"x"')
    ({'x': 1}, {}, {'INVALID_JSON': '{"x"'})
    """
    try:
        found = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {NOT_JSON: text}


def _usage(completion: Mapping[str, Any]) -> dict[str, int]:
    """Return the token counts in Anthropic's form.

    Input tokens are those that were not read from the cache.

    >>> _usage({"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}})
    {'input_tokens': 5, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': 4, 'output_tokens': 2}
    """
    usage = completion.get("usage") or {}
    cached = get_token_count(usage, "prompt_tokens_details", "cached_tokens")
    return {
        "input_tokens": max(get_token_count(usage, "prompt_tokens") - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": get_token_count(usage, "completion_tokens"),
    }
