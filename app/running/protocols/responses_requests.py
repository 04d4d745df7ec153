"""OpenAI's Responses API as a server: translates its requests to chat requests."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from models import Fault, InvalidRequest
from models.chat import ChatRequest
from models.responses import (
    CallItem,
    FilePart,
    FunctionChoice,
    FunctionTool,
    ImagePart,
    InputItem,
    MessageItem,
    OutputItem,
    ResponsesRequest,
    TextConfig,
    TextPart,
)

_STATE = ("store", "background", "previous_response_id", "conversation", "prompt")
"""Fields that need stored responses, conversations, or prompts."""
_ENCRYPTED = "reasoning.encrypted_content"


def to_chat_request(request: ResponsesRequest) -> ChatRequest:
    """Return a chat request for a response; raises InvalidRequest if it needs stored state."""
    _refuse_unsupported(request)
    text = request.text or TextConfig()
    fields: dict[str, Any] = {
        "max_completion_tokens": request.max_output_tokens,
        "tools": [_tool(one) for one in request.tools] or None,
        "tool_choice": _tool_choice(request.tool_choice),
        "response_format": _response_format(text),
        "verbosity": text.verbosity,
        "reasoning_effort": request.reasoning.effort if request.reasoning else None,
        **(request.model_extra or {}),
    }
    messages = list_chat_messages(request)
    return ChatRequest.from_parts(request.model, messages, fields, stream=request.stream, extras=request.parsimony)


def _refuse_unsupported(request: ResponsesRequest) -> None:
    needed = [name for name in _STATE if getattr(request, name)]
    if needed:
        reason = "is not supported, because nothing is stored; send the whole conversation as input, with store false"
        raise InvalidRequest.from_faults(*(Fault((name,), reason) for name in needed))
    other = next((name for name in request.include if name != _ENCRYPTED), None)
    if other is not None:
        raise InvalidRequest.from_faults(Fault(("include",), f"must have {_ENCRYPTED} at most, got {other!r}"))


def list_chat_messages(request: ResponsesRequest) -> list[dict[str, Any]]:
    """Return the messages of a chat.

    The calls of one turn are combined in one message, as the chat API requires.
    """
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    waiting: list[dict[str, Any]] = []  # images of results, which messages of tools cannot have
    for item in request.input:
        if waiting and not isinstance(item, OutputItem):
            messages.append({"role": "user", "content": waiting})
            waiting = []
        waiting += _add_item(messages, item)
    return messages + ([{"role": "user", "content": waiting}] if waiting else [])


def _add_item(messages: list[dict[str, Any]], item: InputItem) -> list[dict[str, Any]]:
    """Add an item to the messages; return the parts of a result that are not text."""
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    match item:
        case MessageItem():
            content = _content(item)
            if last is not None and item.role == "assistant" and last["content"] is None:
                last["content"] = content
            else:
                messages.append({"role": item.role, "content": content})
        case CallItem():
            if last is None:
                last = {"role": "assistant", "content": None}
                messages.append(last)
            function = {"name": item.name, "arguments": item.arguments}
            last.setdefault("tool_calls", []).append({"id": item.call_id, "type": "function", "function": function})
        case OutputItem(output=str() as output):
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": output})
        case OutputItem():
            parts = list(_parts(item.output))
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": _join(parts)})
            return [part for part in parts if part["type"] != "text"]
    return []


def _content(item: MessageItem) -> Any:
    """Return the content of a message; as a plain text if possible, for all servers."""
    if isinstance(item.content, str):
        return item.content
    parts = list(_parts(item.content))
    is_text = item.role != "user" or len(parts) == 1
    return _join(parts) if is_text and all(part["type"] == "text" for part in parts) else parts


def _join(parts: Iterable[dict[str, Any]]) -> str:
    return "".join(part["text"] for part in parts if part["type"] == "text")


def _parts(parts: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for part in parts:
        match part:
            case TextPart():
                yield {"type": "text", "text": part.text}
            case ImagePart():
                detail = {} if part.detail is None else {"detail": part.detail}
                yield {"type": "image_url", "image_url": {"url": part.image_url, **detail}}
            case FilePart():
                yield {"type": "file", "file": {"filename": part.filename or "file", "file_data": part.file_data}}
            case _:
                yield {"type": "text", "text": part.refusal}


def _tool(tool: FunctionTool) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump(exclude={"type"}, exclude_none=True)}


def _tool_choice(choice: str | FunctionChoice | None) -> Any:
    """Return the choice in the form of chats.

    >>> _tool_choice("auto"), _tool_choice(FunctionChoice(type="function", name="add"))
    ('auto', {'type': 'function', 'function': {'name': 'add'}})
    """
    if isinstance(choice, FunctionChoice):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _response_format(text: TextConfig) -> dict[str, Any] | None:
    if text.format is None or text.format.type == "text":
        return None
    if text.format.type == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": text.format.model_extra}
