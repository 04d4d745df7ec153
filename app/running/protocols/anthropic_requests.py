"""Anthropic's Messages API as a server: translates requests to OpenAI chat requests."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from math import ceil
from typing import Any

import orjson

from models import Fault, InvalidRequest
from models.chat import ChatRequest
from models.messages import (
    AnyMessage,
    AssistantMessage,
    Base64Source,
    CountRequest,
    DocumentBlock,
    ImageBlock,
    MessagesRequest,
    ShownBlock,
    TextBlock,
    TextSource,
    Thinking,
    Tool,
    ToolChoice,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    UserMessage,
)

MAX_USER_LETTERS = 64
"""Characters of a ``user``; longer ids are sent as their SHA-256."""
MEDIUM_BUDGET, HIGH_BUDGET = 2048, 8192
"""Tokens of reasoning from which the effort is medium, or high."""
BYTES_PER_TOKEN, TOKENS_PER_MESSAGE, TOKENS_PER_FILE = 4, 4, 1600
ESTIMATE = "a token per 4 bytes of UTF-8, 4 tokens per message, and 1,600 per image or file"
"""How tokens are counted: no endpoint has a common way to count them."""
_PLAIN_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def to_chat_request(request: MessagesRequest) -> ChatRequest:
    """Return a chat request for a message; raises InvalidRequest."""
    fields: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "stop": request.stop_sequences or None,
        "tools": [_tool(one) for one in request.tools] or None,
        "tool_choice": _tool_choice(request.tool_choice),
        "parallel_tool_calls": False if request.tool_choice and request.tool_choice.disable_parallel_tool_use else None,
        "service_tier": "default" if request.service_tier == "standard_only" else request.service_tier,
        "thinking": request.thinking.model_dump(exclude_none=True) if request.thinking else None,
        "reasoning_effort": _effort(request),
        "response_format": _response_format(request),
        **_metadata(request.metadata or {}),
        **(request.model_extra or {}),
    }
    messages = list_chat_messages(request)
    return ChatRequest.from_parts(request.model, messages, fields, stream=request.stream, extras=request.parsimony)


def list_chat_messages(request: CountRequest) -> list[dict[str, Any]]:
    """Return the messages in OpenAI's format, with the system prompt first."""
    system = request.system if isinstance(request.system, str) else _join(request.system or ())
    found = [{"role": "system", "content": system}] if system else []
    return found + [one for message in request.messages for one in _chat_messages(message)]


def _join(blocks: Sequence[TextBlock]) -> str:
    return "\n\n".join(block.text for block in blocks)


def _chat_messages(message: AnyMessage) -> Iterator[dict[str, Any]]:
    """Yield the chat messages for one message.

    Tool results become separate messages, before the text of the same turn.
    """
    if isinstance(message.content, str):
        yield {"role": message.role, "content": message.content}
    elif isinstance(message, AssistantMessage):
        yield _assistant_message(message.content)
    elif isinstance(message, UserMessage):
        yield from _user_messages(message.content)
    else:
        yield {"role": message.role, "content": _join(message.content)}


def _assistant_message(blocks: Sequence[Any]) -> dict[str, Any]:
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    calls = [_tool_call(block) for block in blocks if isinstance(block, ToolUseBlock)]
    return {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})


def _tool_call(block: ToolUseBlock) -> dict[str, Any]:
    function = {"name": block.name, "arguments": orjson.dumps(block.input).decode()}
    return {"id": block.id, "type": "function", "function": function}


def _user_messages(blocks: Sequence[Any]) -> Iterator[dict[str, Any]]:
    shown: list[ShownBlock] = []
    for block in blocks:
        if not isinstance(block, ToolResultBlock):
            shown.append(block)
            continue
        content = block.content if isinstance(block.content, list) else []
        text = block.content if isinstance(block.content, str) else "".join(map(_plain_text, content))
        yield {
            "role": "tool",
            "tool_call_id": block.tool_use_id,
            "content": f"Error: {text}" if block.is_error else text,
        }
        shown += [one for one in content if not isinstance(one, TextBlock)]  # messages of tools have texts only
    if len(shown) == 1 and isinstance(shown[0], TextBlock):
        yield {"role": "user", "content": shown[0].text}
    elif shown:
        yield {"role": "user", "content": [part for block in shown for part in _parts(block)]}


def _plain_text(block: ShownBlock) -> str:
    return block.text if isinstance(block, TextBlock) else ""


def _parts(block: ShownBlock) -> Iterator[dict[str, Any]]:
    """Yield the content parts for a block."""
    match block:
        case TextBlock():
            yield {"type": "text", "text": block.text}
        case ImageBlock(source=Base64Source() as source):
            yield {"type": "image_url", "image_url": {"url": _data_url(source)}}
        case ImageBlock(source=UrlSource() as source):
            yield {"type": "image_url", "image_url": {"url": source.url}}
        case DocumentBlock(source=Base64Source() as source):
            about = [text for text in (block.title, block.context) if text]
            yield from ({"type": "text", "text": text} for text in about)
            yield {"type": "file", "file": {"filename": block.title or "document", "file_data": _data_url(source)}}
        case DocumentBlock(source=TextSource() as source):
            texts = [text for text in (block.title, block.context, source.data) if text]
            yield {"type": "text", "text": "\n\n".join(texts)}


def _data_url(source: Base64Source) -> str:
    return f"data:{source.media_type};base64,{source.data}"


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    function["strict"] = tool.strict
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _tool_choice(choice: ToolChoice | None) -> Any:
    """Return OpenAI's choice of tools.

    >>> _tool_choice(ToolChoice(type="any")), _tool_choice(ToolChoice(type="tool", name="add"))
    ('required', {'type': 'function', 'function': {'name': 'add'}})
    """
    if choice is None:
        return None
    if choice.type != "tool":
        return _PLAIN_CHOICES[choice.type]
    if choice.name is None:
        raise InvalidRequest.from_faults(Fault(("tool_choice", "name"), "is required for the type tool"))
    return {"type": "function", "function": {"name": choice.name}}


def _effort(request: MessagesRequest) -> str | None:
    """Return the reasoning effort: as requested, or derived from the thinking budget."""
    stated = request.output_config.effort if request.output_config else None
    return stated or (None if request.thinking is None else _effort_of_budget(request.thinking))


def _effort_of_budget(thinking: Thinking) -> str | None:
    """Return the reasoning effort for a budget of thinking tokens.

    >>> [_effort_of_budget(Thinking(type="enabled", budget_tokens=tokens)) for tokens in (1024, 2048, 20_000)]
    ['low', 'medium', 'high']
    """
    if thinking.budget_tokens is None:
        return None
    efforts = ((HIGH_BUDGET, "high"), (MEDIUM_BUDGET, "medium"), (1, "low"))
    return next(effort for least, effort in efforts if thinking.budget_tokens >= least)


def _response_format(request: CountRequest) -> dict[str, Any] | None:
    form = request.output_config.format if request.output_config else None
    schema = None if form is None else {"name": "answer", "schema": form.schema_, "strict": True}
    return None if schema is None else {"type": "json_schema", "json_schema": schema}


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata, with ``user_id`` as ``user`` of at most 64 characters."""
    user = metadata.get("user_id")
    rest = {name: value for name, value in metadata.items() if name != "user_id"}
    found: dict[str, Any] = {"metadata": rest} if rest else {}
    if user is not None:
        text = str(user)
        found["user"] = text if len(text) <= MAX_USER_LETTERS else sha256(text.encode()).hexdigest()
    return found


def estimate_tokens(request: CountRequest) -> int:
    """Return an estimate of a request's tokens, by the length of its texts."""
    total = 0
    for message in list_chat_messages(request):
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        total += TOKENS_PER_MESSAGE + _count_bytes(message.get("tool_calls"))
        for part in parts:
            total += TOKENS_PER_FILE if part["type"] != "text" else ceil(len(part["text"].encode()) / BYTES_PER_TOKEN)
    return total + sum(_count_bytes(_tool(one)) for one in request.tools)


def _count_bytes(value: Any) -> int:
    return 0 if value is None else ceil(len(orjson.dumps(value)) / BYTES_PER_TOKEN)
