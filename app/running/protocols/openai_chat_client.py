"""OpenAI's chat API as a client; the label is parsed from the answer."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import re2

from app.running.protocols.message import (
    Chat,
    EndpointRequest,
    OnChunk,
    ParsedResponse,
    read_confidence,
    read_count,
    read_number,
    read_text_label,
)
from app.running.protocols.tool_calls import are_valid_calls, canonicalize_tool_calls, list_tool_calls
from app.running.request_templates import TemplateMismatch, as_text, resolve_pointer
from models.chat import ChangedField
from models.endpoint import ChatAnswer, ChatEndpoint, Choice, JsonAnswer, Pattern, WholeText
from models.errors import ProviderError
from parsimony.runs.steps import Verdict

_SPACES = re.compile(r"\s+")
TOKEN_LIMITS = ("max_completion_tokens", "max_tokens")
MAX_MESSAGE = 2000
"""Characters of a provider's error message that are passed on."""


def build_request(endpoint: ChatEndpoint, item: Any) -> EndpointRequest:
    """Return a chat request for an item: a text, messages, a chat request, or JSON.

    Every field of a chat request is sent, except those that the endpoint drops; the endpoint's token limit applies.
    """
    chat = item if isinstance(item, Chat) else None
    messages, options = (chat.messages, chat.options) if chat is not None else (_messages_of(item), {})
    if endpoint.system is not None:
        messages = [{"role": "system", "content": endpoint.system}, *messages]
    body = {**_default_options(endpoint, chat), **options, **_limit_tokens(endpoint, options)}
    if endpoint.logprobs and endpoint.samples == 1:
        body["logprobs"] = True
    body = _adapt_fields(endpoint, body) | {"model": endpoint.model, "messages": messages}
    return EndpointRequest("POST", _completions_url(endpoint.url), body, chat=chat)


def _default_options(endpoint: ChatEndpoint, chat: Chat | None) -> dict[str, Any]:
    if endpoint.temperature is not None:
        return {"temperature": endpoint.temperature}
    return {"temperature": 0.0} if chat is None and endpoint.samples == 1 else {}


def _limit_tokens(endpoint: ChatEndpoint, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the endpoint's token limit if it is below the requested one.

    >>> endpoint = ChatEndpoint(protocol="openai-chat", url="http://a/v1", model="m", max_tokens=9)
    >>> [_limit_tokens(endpoint, options) for options in ({"max_tokens": 20}, {"max_tokens": 5}, {})]
    [{'max_tokens': 9}, {}, {'max_tokens': 9}]
    """
    limit = endpoint.max_tokens
    if limit is None:
        return {}
    requested = {name: options[name] for name in TOKEN_LIMITS if name in options}
    if not requested:
        return {"max_tokens": limit}
    return {name: limit for name, count in requested.items() if isinstance(count, int) and count > limit}


def _adapt_fields(endpoint: ChatEndpoint, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request with dropped and renamed fields, as the endpoint requires."""
    kept = {name: value for name, value in body.items() if name not in endpoint.drops}
    renamed = {new: kept.pop(old) for old, new in endpoint.renames.items() if old in kept}
    return {**renamed, **kept}


def _completions_url(url: str) -> str:
    """Return the URL of chat completions; a query string is kept at the end.

    >>> _completions_url("https://a.example/v1/?api-version=1")
    'https://a.example/v1/chat/completions?api-version=1'
    """
    path, mark, query = url.partition("?")
    return f"{path.rstrip('/')}/chat/completions{mark}{query}"


def list_changes(name: str, endpoint: ChatEndpoint, chat: Chat) -> list[ChangedField]:
    """Return the requested fields that an endpoint receives changed or not at all."""
    limited = _limit_tokens(endpoint, chat.options)
    dropped = [field for field in chat.options if field in endpoint.drops]
    sent = {field: limited[field] for field in chat.options if field in limited} | dict.fromkeys(dropped)
    return [ChangedField(endpoint=name, field=field, requested=chat.options[field], sent=sent[field]) for field in sent]


def with_stream(endpoint: ChatEndpoint, request: EndpointRequest, on_chunk: OnChunk) -> EndpointRequest:
    """Return a streaming request if the label is the answer's plain text."""
    if not isinstance(endpoint.answer, WholeText) or endpoint.judge is not None or endpoint.samples > 1:
        return request
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    return replace(request, body={**(request.body or {}), **stream}, on_chunk=on_chunk)


def get_last_user_text(item: Any) -> Any:
    """Return the text of a chat's last user message; return other items unchanged.

    This text is the item for classifiers that do not use the chat protocol. Images and other parts are ignored.
    """
    if not isinstance(item, Chat):
        return item
    response = [each.get("content") for each in item.messages if each.get("role") == "user"]
    return join_text(response[-1] if response else "")


def join_text(content: Any) -> Any:
    """Return the text of a message's content, which may have several parts.

    >>> join_text([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}])
    'a'
    """
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content


def parse_item(text: Any) -> Any:
    """Parse a text that is a JSON list or object; return other texts unchanged.

    >>> parse_item("[1, 2]"), parse_item("7 of 9")
    ([1, 2], '7 of 9')
    """
    try:
        content = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return text
    return content if isinstance(content, list | dict) else text


def _messages_of(item: Any) -> list[dict[str, Any]]:
    if isinstance(item, list) and item and all(isinstance(each, dict) and "role" in each for each in item):
        return item
    return [{"role": "user", "content": as_text(item)}]


def read(endpoint: ChatEndpoint, reply: Any, chat: Chat | None = None) -> ParsedResponse:
    """Parse label, confidence, and token usage of the first answer.

    Args:
        chat: the chat request; its reply is kept, and an answer may also be a refusal, tool calls, or audio.
    """
    choice = resolve_pointer(reply, "/choices/0")
    message = resolve_pointer(choice, "/message")
    if not isinstance(message, dict):
        raise TemplateMismatch("the message must be an object")
    found = _read_tool_calls(choice, message, chat) or _read_refusal(choice, message, chat)
    found = found or _read_text(endpoint, choice, message, chat)
    if found.confidence is None:
        found = replace(found, confidence=_mean_probability(choice))
    if found.verdict == "escalate":
        found = replace(found, confidence=0.0)
    usage = parse_usage(reply)
    counts = {name: getattr(usage, name) for name in ("input_tokens", "output_tokens", "cached_tokens")}
    return replace(found, reply=None if chat is None else reply, **counts)


def _read_tool_calls(choice: Any, message: Mapping[str, Any], chat: Chat | None) -> ParsedResponse | None:
    """Parse tool calls that a chat requested; invalid or truncated ones are escalated."""
    calls = list_tool_calls(message)
    if chat is None or not calls:
        return None
    is_valid = choice.get("finish_reason") != "length" and are_valid_calls(calls, chat.options)
    text = join_text(message.get("content"))
    return ParsedResponse(label=canonicalize_tool_calls(calls), text=text, verdict=None if is_valid else "escalate")


def _read_refusal(choice: Any, message: Mapping[str, Any], chat: Chat | None) -> ParsedResponse | None:
    """Parse a refusal.

    It answers a chat, unless the chat requests another model. In runs, it is not an answer.
    """
    refusal = message.get("refusal")
    if not refusal and choice.get("finish_reason") != "content_filter":
        return None
    if chat is None:
        raise TemplateMismatch("the model refused to answer")
    text = refusal if isinstance(refusal, str) else join_text(message.get("content")) or ""
    verdict: Verdict = "escalate" if chat.escalates_refusals else "accept"
    return ParsedResponse(label=text, text=text, verdict=verdict)


def _read_text(endpoint: ChatEndpoint, choice: Any, message: Mapping[str, Any], chat: Chat | None) -> ParsedResponse:
    text = join_text(message.get("content"))
    is_truncated = choice.get("finish_reason") == "length"
    if not text and chat is not None and (is_truncated or _has_other_content(message)):
        return ParsedResponse(label="", text="", verdict="escalate" if is_truncated else None)
    if not isinstance(text, str):
        raise TemplateMismatch("the answer must be a text")
    label, confidence = read_label(endpoint.answer, text)
    lacks_call = chat is not None and _requires_tool_call(chat)
    verdict: Verdict | None = "escalate" if is_truncated or lacks_call else None
    return ParsedResponse(label=label, confidence=confidence, text=text, verdict=verdict)


def _has_other_content(message: Mapping[str, Any]) -> bool:
    """Return whether a message without text has other content, such as audio."""
    return any(value for name, value in message.items() if name not in ("role", "content", "reasoning_content"))


def _requires_tool_call(chat: Chat) -> bool:
    choice = chat.options.get("tool_choice")
    return choice == "required" or isinstance(choice, dict)


def parse_usage(reply: Any) -> ParsedResponse:
    """Parse the token counts: prompt, cached prompt, and completion."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = read_count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return ParsedResponse(
        input_tokens=read_count(usage.get("prompt_tokens")),
        output_tokens=read_count(usage.get("completion_tokens")),
        cached_tokens=cached or 0,
    )


def read_error(status: int, body: bytes) -> ProviderError:
    """Parse an error reply in OpenAI's format; parts may be missing."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    error = content.get("error", content) if isinstance(content, dict) else None
    fields = error if isinstance(error, dict) else {"message": error}
    texts = {name: _short_text(fields.get(name)) for name in ("message", "type", "param", "code")}
    return ProviderError(status, **texts)


def _short_text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = "".join(letter if letter.isprintable() else " " for letter in str(value)).strip()
    return text[:MAX_MESSAGE] or None


def read_label(answer: ChatAnswer, text: str) -> tuple[str, float | None]:
    """Parse the label from an answer, and its stated confidence, if any.

    Raises TemplateMismatch if the answer has no label.
    """
    match answer:
        case Choice():
            response = normalize_answer(text)
            known = next((name for name in answer.labels if normalize_answer(name) == response), None)
            if known is None:
                raise TemplateMismatch("the answer must be one of the labels")
            return known, None
        case JsonAnswer():
            try:
                document = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise TemplateMismatch("the answer must be JSON") from error
            answered = read_text_label(resolve_pointer(document, answer.label))
            if answer.confidence is None:
                return answered, None
            stated = read_number(resolve_pointer(document, answer.confidence), "the confidence")
            return answered, read_confidence(stated, answer.confidence_scale)
        case Pattern():
            match = re2.search(answer.pattern, text)
            if match is None:
                raise TemplateMismatch("the answer does not match the pattern")
            return read_text_label(match[1] if match.re.groups else match[0]), None
        case _:
            if not text:
                raise TemplateMismatch("the answer is empty")
            return text, None


def normalize_answer(text: str) -> str:
    """Return an answer for comparison: without case, final period, and repeated spaces."""
    return _SPACES.sub(" ", text).strip().rstrip(".").casefold()


def _mean_probability(choice: Any) -> float | None:
    """Return the exponential of the answer's mean token log-probability; None if unknown."""
    logprobs = choice.get("logprobs") if isinstance(choice, dict) else None
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    response = [token.get("logprob") for token in tokens if isinstance(token, dict)]
    numbers = [read_number(each, "a log-probability") for each in response]
    return math.exp(min(sum(numbers) / len(numbers), 0.0)) if numbers else None
