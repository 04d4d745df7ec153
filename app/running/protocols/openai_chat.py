"""OpenAI's chat API: a text or messages in, an answer out, from which the label is read."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import re2

from app.running.protocols.message import (
    ParsedResponse,
    Request,
    read_confidence,
    read_count,
    read_number,
    read_text_label,
)
from app.running.templates import WrongShape, as_text, part_of
from models.endpoint import ChatAnswer, ChatEndpoint, Choice, JsonField, Pattern, WholeText

_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Chat:
    """An item that is a chat request as it came in front: its messages, and how they are to be answered."""

    messages: list[dict[str, Any]]
    how: dict[str, Any]


def build_request(endpoint: ChatEndpoint, item: Any) -> Request:
    """Ask for the answer to an item: a text, a list of messages, anything else as JSON; or a chat request, of whose
    answer the endpoint's own limit of tokens bounds the length."""
    messages, how = _asked(item)
    if endpoint.system is not None:
        messages = [{"role": "system", "content": endpoint.system}, *messages]
    tokens = "max_completion_tokens" if "max_completion_tokens" in how else "max_tokens"
    limit = how.get(tokens)
    is_shorter = isinstance(limit, int) and not isinstance(limit, bool) and limit < endpoint.max_tokens
    body: dict[str, Any] = {"temperature": endpoint.temperature, **how}
    body |= {tokens: limit if is_shorter else endpoint.max_tokens, "model": endpoint.model, "messages": messages}
    if endpoint.logprobs:
        body["logprobs"] = True
    return Request("POST", f"{endpoint.url.rstrip('/')}/chat/completions", body)


def with_stream(endpoint: ChatEndpoint, request: Request, on_text: Callable[[str], None]) -> Request:
    """Stream the answer, if the endpoint's label is the answer's text without a judge."""
    if not isinstance(endpoint.answer, WholeText) or endpoint.judge is not None:
        return request
    body = {**(request.body or {}), "stream": True, "stream_options": {"include_usage": True}}
    return replace(request, body=body, on_text=on_text)


@dataclass(slots=True)
class Pieces:
    """An answer that comes as server-sent events, put together again."""

    text: str = ""
    logprobs: list[Any] = field(default_factory=list)
    usage: Any = None

    def take(self, line: bytes) -> str:
        """Parse a line of the stream, and return its text; raises WrongShape for a malformed chunk."""
        if not line.startswith(b"data:") or line[5:].strip() in (b"", b"[DONE]"):
            return ""
        try:
            chunk = orjson.loads(line[5:])
        except orjson.JSONDecodeError as error:
            raise WrongShape("a chunk of the answer must be JSON") from error
        if not isinstance(chunk, dict) or "error" in chunk:
            raise WrongShape("the answer broke off with an error")
        self.usage = chunk.get("usage") or self.usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
            self.logprobs += logprobs["content"]
        delta = choice.get("delta")
        piece = delta.get("content") if isinstance(delta, dict) else None
        self.text += piece if isinstance(piece, str) else ""
        return piece if isinstance(piece, str) else ""

    def assemble_reply(self) -> dict[str, Any]:
        """Give the reply as if it had come as a whole."""
        choice = {"message": {"content": self.text}, "logprobs": {"content": self.logprobs}}
        return {"choices": [choice], "usage": self.usage}


def last_text(item: Any) -> Any:
    """Give the text of a chat request's last message from the user, for who knows no chats; any other item as it is."""
    if not isinstance(item, Chat):
        return item
    response = [each.get("content") for each in item.messages if each.get("role") == "user"]
    parts = response[-1] if response else ""
    if isinstance(parts, list):
        return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
    return parts


def item_in(text: Any) -> Any:
    """Give the item that a text is: a list or an object where it is JSON of one, else the text.

    >>> item_in("[1, 2]"), item_in("7 of 9")
    ([1, 2], '7 of 9')
    """
    try:
        content = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return text
    return content if isinstance(content, list | dict) else text


def _asked(item: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if isinstance(item, Chat):
        return item.messages, item.how
    if isinstance(item, list) and item and all(isinstance(each, dict) and "role" in each for each in item):
        return item, {}
    return [{"role": "user", "content": as_text(item)}], {}


def read(endpoint: ChatEndpoint, reply: Any) -> ParsedResponse:
    """Read label, confidence and usage."""
    choice = part_of(reply, "/choices/0")
    text = part_of(choice, "/message/content")
    if not isinstance(text, str):
        raise WrongShape("the answer must be a text")
    label, confidence = read_label(endpoint.answer, text)
    sure = _mean_probability(choice) if confidence is None else confidence
    return replace(usage_of(reply), label=label, confidence=sure, text=text)


def usage_of(reply: Any) -> ParsedResponse:
    """Read how many tokens were sent and came back."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    return ParsedResponse(
        input_tokens=read_count(usage.get("prompt_tokens")), output_tokens=read_count(usage.get("completion_tokens"))
    )


def read_label(answer: ChatAnswer, text: str) -> tuple[str, float | None]:
    """Read the label from an answer, and the confidence that it gives itself; raises WrongShape if it has none."""
    match answer:
        case Choice():
            response = _plain(text)
            known = next((name for name in answer.labels if _plain(name) == response), None)
            if known is None:
                raise WrongShape("the answer must be one of the labels")
            return known, None
        case JsonField():
            try:
                document = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise WrongShape("the answer must be JSON") from error
            answered = read_text_label(part_of(document, answer.label))
            if answer.confidence is None:
                return answered, None
            stated = read_number(part_of(document, answer.confidence), "the confidence")
            return answered, read_confidence(stated, answer.confidence_scale)
        case Pattern():
            match = re2.search(answer.pattern, text)
            if match is None:
                raise WrongShape("the answer does not match the pattern")
            return read_text_label(match[1] if match.re.groups else match[0]), None
        case _:
            if not text:
                raise WrongShape("the answer is empty")
            return text, None


def _plain(text: str) -> str:
    return _SPACES.sub(" ", text).strip().rstrip(".").casefold()


def _mean_probability(choice: Any) -> float | None:
    """Return the exponential of the mean log-probability of the answer's tokens; None without log-probabilities."""
    logprobs = choice.get("logprobs") if isinstance(choice, dict) else None
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    response = [token.get("logprob") for token in tokens if isinstance(token, dict)]
    numbers = [read_number(each, "a log-probability") for each in response]
    return math.exp(min(sum(numbers) / len(numbers), 0.0)) if numbers else None
