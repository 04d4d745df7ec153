"""OpenAI's legacy completions API as a server: a prompt is a chat of one message."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.running.protocols.answer_pieces import get_choice_message, list_pieces, make_id
from app.running.protocols.openai_replies import requests_usage, write_event
from models.chat import INDEX, ChatRequest
from models.completions import CompletionRequest


def to_chat_request(request: CompletionRequest) -> ChatRequest:
    """Return a chat request with the prompt as a user message."""
    messages = [{"role": "user", "content": request.prompt}]
    options = request.model_extra or {}
    return ChatRequest.from_parts(request.model, messages, options, stream=request.stream, extras=request.parsimony)


class PromptFormat:
    """Writer of OpenAI's legacy completions, which contain only texts."""

    def __init__(self, request: CompletionRequest) -> None:
        self._request = request
        began: dict[str, Any] = {"id": make_id("cmpl"), "object": "text_completion"}
        self._head = began | {"created": int(time.time()), "model": request.model}

    def write_reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """Return the completion."""
        choices = [_choice(one) for one in completion["choices"]]
        return {
            **self._head,
            "choices": choices,
            "usage": completion["usage"],
            "parsimony": completion.get("parsimony"),
        }

    def write_chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """Return the texts of the chunk as an event; empty without a text."""
        choices = [one for one in map(_choice, chunk["choices"]) if one["text"]]
        return write_event({**self._head, "choices": choices}) if choices else b""

    def write_end(self, completion: Mapping[str, Any], ends: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the ends of the choices with the run, and, if requested, the usage."""
        choices, run = [_choice(one) for one in ends], completion.get("parsimony")
        events = write_event({**self._head, "choices": choices, "parsimony": run})
        if requests_usage(self._request):
            events += write_event({**self._head, "choices": [], "usage": completion["usage"]})
        return events + b"data: [DONE]\n\n"

    def write_error(self, body: Mapping[str, Any]) -> bytes:
        """Return the error as an event."""
        return write_event(body)


def _choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a choice of a chat to a choice of a completion: its text or refusal."""
    text = "".join(piece.text for piece in list_pieces(get_choice_message(choice)) if piece.kind in ("text", "refusal"))
    finish = choice.get("finish_reason")
    return {"text": text, INDEX: choice.get(INDEX, 0), "logprobs": None, "finish_reason": finish}
