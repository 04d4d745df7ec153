"""OpenAI's Responses API as a server: writes answers to chats as responses.

Answers are whole responses or server-sent events.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from models.responses import ResponsesRequest

_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why an answer is incomplete, by ``finish_reason``."""
_PARTS = {
    "reasoning": ("reasoning_text", "text", "response.reasoning_text"),
    "text": ("output_text", "text", "response.output_text"),
    "refusal": ("refusal", "refusal", "response.refusal"),
}
"""Of each kind of text: the type of its part, the field of the part with the text, and the events' names."""
_CALL_EVENTS = "response.function_call_arguments"
DONE, RUNNING = "completed", "in_progress"
_ECHOED = ("temperature", "top_p", "metadata", "user", "safety_identifier", "prompt_cache_key", "service_tier")
"""Fields of the request that are passed on, and that the reply has, too."""


class ResponseFormat:
    """Writer of OpenAI's responses."""

    def __init__(self, request: ResponsesRequest) -> None:
        self._request, self._id, self._created = request, make_id("resp"), int(time.time())
        self._events = 0
        self._items: list[dict[str, Any]] = []
        self._open = OpenBlock()
        self._texts: list[str] = []

    def write_reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response for a completion."""
        choice = get_first_choice(completion)
        items = [
            _item(piece, self._item_id(place)) for place, piece in enumerate(list_pieces(get_choice_message(choice)))
        ]
        return self._ended(completion, choice, items)

    def write_chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """Return the events of a chunk: items start, continue, and end in turn."""
        events = [*self._begin()]
        for piece in list_pieces(get_choice_message(get_first_choice(chunk))):
            events += self._take(piece)
        return b"".join(events)

    def write_end(self, completion: Mapping[str, Any], ends: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the end of the last item, and the complete response."""
        events = [*self._begin(), *self._close()]
        response = self._ended(completion, get_first_choice({"choices": ends}), self._items)
        return b"".join(events) + self._event(f"response.{response['status']}", response=response)

    def write_error(self, body: Mapping[str, Any]) -> bytes:
        """Return the events of the error and of the failed response."""
        error = body["error"]
        stated = {name: error[name] for name in ("code", "message", "param")}
        failed = self._response("failed", self._items) | {"error": {**stated, "code": "server_error"}}
        return self._event("error", **stated) + self._event("response.failed", response=failed)

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = write_event({"type": kind, "sequence_number": self._events, **fields}, kind)
        self._events += 1
        return event

    def _begin(self) -> Iterator[bytes]:
        if not self._events:
            response = self._response(RUNNING, [])
            yield self._event("response.created", response=response)
            yield self._event("response.in_progress", response=response)

    def _take(self, piece: AnswerPiece) -> Iterator[bytes]:
        if not self._open.is_continued_by(piece):
            yield from self._close()
            yield from self._open_item(piece)
        self._texts.append(piece.text)
        if piece.text:
            name = _CALL_EVENTS if piece.kind == "call" else _PARTS[piece.kind][2]
            logprobs: dict[str, Any] = {"logprobs": []} if piece.kind == "text" else {}
            yield self._event(f"{name}.delta", **self._place(piece), delta=piece.text, **logprobs)

    def _open_item(self, piece: AnswerPiece) -> Iterator[bytes]:
        self._open.piece, self._texts = piece, []
        item = _item(AnswerPiece(piece.kind, "", piece.index, piece.name, piece.call_id), self._item_id(), RUNNING)
        if piece.kind == "call":
            yield self._event("response.output_item.added", output_index=len(self._items), item=item)
            return
        (part,) = item["content"]
        added = {**item, "content": []}
        yield self._event("response.output_item.added", output_index=len(self._items), item=added)
        yield self._event("response.content_part.added", **self._place(piece), part=part)

    def _close(self) -> Iterator[bytes]:
        """Yield the final events of the open item, whose text is complete."""
        piece = self._open.close_block()
        if piece is None:
            return
        text, place = "".join(self._texts), self._place(piece)
        item = _item(AnswerPiece(piece.kind, text, piece.index, piece.name, piece.call_id), self._item_id())
        if piece.kind == "call":
            yield self._event(f"{_CALL_EVENTS}.done", **place, arguments=text, name=piece.name)
        else:
            (part,) = item["content"]
            _, field, name = _PARTS[piece.kind]
            logprobs: dict[str, Any] = {"logprobs": []} if piece.kind == "text" else {}
            yield self._event(f"{name}.done", **place, **{field: text}, **logprobs)
            yield self._event("response.content_part.done", **place, part=part)
        yield self._event("response.output_item.done", output_index=len(self._items), item=item)
        self._items.append(item)

    def _place(self, piece: AnswerPiece) -> dict[str, Any]:
        place = {"item_id": self._item_id(), "output_index": len(self._items)}
        return place if piece.kind == "call" else {**place, "content_index": 0}

    def _item_id(self, place: int | None = None) -> str:
        return f"{self._id.replace('resp', 'item', 1)}-{len(self._items) if place is None else place}"

    def _ended(
        self, completion: Mapping[str, Any], choice: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        reason = _REASONS.get(choice.get("finish_reason") or "")
        response = self._response("incomplete" if reason else DONE, items)
        details = {"reason": reason} if reason else None
        usage, run = _usage(completion), completion.get("parsimony")
        return response | {"incomplete_details": details, "usage": usage, "parsimony": run}

    def _response(self, status: str, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return an unfinished response; OpenAI's clients expect the request's fields in it."""
        request, extra = self._request, self._request.model_extra or {}
        asked = request.model_dump(exclude_none=True, include={"text", "reasoning", "tools", "tool_choice"})
        fields: dict[str, Any] = {
            "text": {"format": {"type": "text"}},
            "reasoning": {"effort": None, "summary": None},
            "tool_choice": "auto",
            "tools": [],
            "parallel_tool_calls": extra.get("parallel_tool_calls", True),
            **{name: extra.get(name) for name in _ECHOED},
        }
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "model": request.model,
            "output": list(items),
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            "usage": None,
            **fields,
            **asked,
        }


def _item(piece: AnswerPiece, item_id: str, status: str = DONE) -> dict[str, Any]:
    """Return the item of a complete piece."""
    head = {"id": item_id, "status": status}
    if piece.kind == "call":
        call_id = piece.call_id or f"call_{item_id}"
        return {**head, "type": "function_call", "call_id": call_id, "name": piece.name, "arguments": piece.text}
    kind, field, _ = _PARTS[piece.kind]
    part: dict[str, Any] = {"type": kind, field: piece.text}
    if piece.kind == "reasoning":
        return {**head, "type": "reasoning", "summary": [], "content": [part]}
    if piece.kind == "text":
        part |= {"annotations": [], "logprobs": []}
    return {**head, "type": "message", "role": "assistant", "content": [part]}


def _usage(completion: Mapping[str, Any]) -> dict[str, Any]:
    """Return the token counts in the form of responses.

    >>> _usage({"usage": {"prompt_tokens": 9, "completion_tokens": 2}})["total_tokens"]
    11
    """
    usage = completion.get("usage") or {}
    sent, came = get_token_count(usage, "prompt_tokens"), get_token_count(usage, "completion_tokens")
    cached = get_token_count(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = get_token_count(usage, "completion_tokens_details", "reasoning_tokens")
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": came,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": sent + came,
    }
