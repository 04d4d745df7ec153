"""Requests and replies of Anthropic's Messages API."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from models.chat import ChatExtras, ChatModelName, OpenRequest

Name = Annotated[str, Field(min_length=1, max_length=256)]


class RequestPart(BaseModel):
    """Part of a request; additional fields, such as ``cache_control``, are ignored."""

    model_config = ConfigDict(extra="ignore")


class TextBlock(RequestPart):
    """A text."""

    type: Literal["text"] = Field(description="a constant")
    text: str = Field(description="the text")


class Base64Source(RequestPart):
    """Data of an image or a PDF document."""

    type: Literal["base64"] = Field(description="a constant")
    media_type: Annotated[str, Field(pattern=r"^[a-z]+/[a-z0-9.+-]+$")] = Field(description="the media type")
    data: str = Field(description="the data in base64")


class UrlSource(RequestPart):
    """The URL of an image."""

    type: Literal["url"] = Field(description="a constant")
    url: str = Field(description="the address")


class TextSource(RequestPart):
    """A plain text as a document."""

    type: Literal["text"] = Field(description="a constant")
    data: str = Field(description="the text")


class ImageBlock(RequestPart):
    """An image."""

    type: Literal["image"] = Field(description="a constant")
    source: Annotated[Base64Source | UrlSource, Field(discriminator="type")] = Field(description="the image")


class DocumentBlock(RequestPart):
    """A document: a PDF file or a text."""

    type: Literal["document"] = Field(description="a constant")
    source: Annotated[Base64Source | TextSource, Field(discriminator="type")] = Field(description="the document")
    title: str | None = Field(default=None, description="the title")
    context: str | None = Field(default=None, description="further text about the document")


class ThinkingBlock(RequestPart):
    """Reasoning of an earlier turn, which is not sent to models."""

    type: Literal["thinking", "redacted_thinking"] = Field(description="kind of the block")


class ToolUseBlock(RequestPart):
    """A tool call by the model."""

    type: Literal["tool_use"] = Field(description="a constant")
    id: Name = Field(description="id of the call")
    name: Name = Field(description="name of the tool")
    input: dict[str, Any] = Field(description="arguments of the call")


ShownBlock = Annotated[TextBlock | ImageBlock | DocumentBlock, Field(discriminator="type")]


class ToolResultBlock(RequestPart):
    """The result of a tool call."""

    type: Literal["tool_result"] = Field(description="a constant")
    tool_use_id: Name = Field(description="id of the call")
    content: str | list[ShownBlock] | None = Field(default=None, description="the result")
    is_error: bool | None = Field(default=None, description="whether the tool failed")


UserBlock = Annotated[TextBlock | ImageBlock | DocumentBlock | ToolResultBlock, Field(discriminator="type")]
AssistantBlock = Annotated[TextBlock | ToolUseBlock | ThinkingBlock, Field(discriminator="type")]


class UserMessage(RequestPart):
    """A user message, which may contain tool results."""

    role: Literal["user"] = Field(description="a constant")
    content: str | list[UserBlock] = Field(description="the text, or its blocks")


class AssistantMessage(RequestPart):
    """An assistant message, which may contain tool calls."""

    role: Literal["assistant"] = Field(description="a constant")
    content: str | list[AssistantBlock] = Field(description="the text, or its blocks")


class SystemMessage(RequestPart):
    """A system instruction between the turns."""

    role: Literal["system"] = Field(description="a constant")
    content: str | list[TextBlock] = Field(description="the text, or its blocks")


AnyMessage = Annotated[UserMessage | AssistantMessage | SystemMessage, Field(discriminator="role")]


class Tool(RequestPart):
    """A tool that the caller executes."""

    type: Literal["custom"] | None = Field(
        default=None, description="custom, or null; tools that Anthropic defines or executes are not supported"
    )
    name: Name = Field(description="name of the tool")
    description: str | None = Field(default=None, description="what the tool does")
    input_schema: dict[str, Any] = Field(description="JSON schema of the arguments")
    strict: bool | None = Field(default=None, description="whether the arguments must fit the schema")


class ToolChoice(RequestPart):
    """Whether the model must call tools, or which one."""

    type: Literal["auto", "any", "tool", "none"] = Field(description="kind of the choice")
    name: Name | None = Field(default=None, description="the tool that must be called, for the type ``tool``")
    disable_parallel_tool_use: bool | None = Field(default=None, description="whether one tool at most is called")


class Thinking(RequestPart):
    """Whether the model reasons before it answers."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(min_length=1, max_length=40)] = Field(
        description="enabled, adaptive, between_tools, or disabled"
    )
    budget_tokens: int | None = Field(default=None, ge=1, description="maximum number of tokens of the reasoning")


class JsonFormat(RequestPart):
    """JSON schema of the answer."""

    type: Literal["json_schema"] = Field(description="a constant")
    schema_: dict[str, Any] = Field(alias="schema", description="JSON schema of the answer")


class OutputConfig(RequestPart):
    """Reasoning effort and format of the answer."""

    effort: Annotated[str, Field(min_length=1, max_length=20)] | None = Field(
        default=None, description="low, medium, high, xhigh, or max"
    )
    format: JsonFormat | None = Field(default=None, description="the form of the answer; null: text")


class CountRequest(OpenRequest):
    """A request whose tokens are counted."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "cascade/digits", "messages": [{"role": "user", "content": "Hi"}]}]}
    )
    required: ClassVar[tuple[str, ...]] = ("model", "messages")

    model: ChatModelName = Field(
        description="the artifact and limits, as in a chat", examples=["portfolio/chat@budget=30%"]
    )
    messages: Annotated[list[AnyMessage], Field(min_length=1, max_length=100_000)] = Field(description="the messages")
    system: str | list[TextBlock] | None = Field(default=None, description="the system prompt")
    tools: list[Tool] = Field(default=[], description="the tools")
    tool_choice: ToolChoice | None = Field(default=None, description="whether tools must be called")
    thinking: Thinking | None = Field(default=None, description="whether the model reasons first")
    output_config: OutputConfig | None = Field(default=None, description="effort and form of the answer")


class MessagesRequest(CountRequest):
    """A request for a message.

    Fields without a counterpart in OpenAI's chat API are forwarded unchanged.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "cascade/digits",
                    "max_tokens": 1000,
                    "messages": [{"role": "user", "content": "[0, 1, 2]"}],
                }
            ]
        }
    )
    required = ("model", "messages", "max_tokens")

    max_tokens: int = Field(ge=1, description="maximum number of tokens of the answer")
    stop_sequences: Annotated[list[str], Field(max_length=8191)] = Field(
        default=[], description="texts at which the answer ends"
    )
    metadata: dict[str, Any] | None = Field(default=None, description="``user_id`` is sent as ``user``")
    service_tier: str | None = Field(default=None, description="auto, or standard_only")
    stream: bool = Field(default=False, description="whether the answer is streamed as server-sent events")
    parsimony: ChatExtras = Field(default=ChatExtras(), description="Parsimony's extensions")


class Message(BaseModel):
    """A message in Anthropic's format; ``parsimony`` has the decision and run."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="the message's id")
    type: Literal["message"] = Field(default="message", description="a constant")
    role: Literal["assistant"] = Field(default="assistant", description="a constant")
    model: str = Field(description="the requested model")
    content: list[dict[str, Any]] = Field(description="blocks: text, thinking, and tool_use; empty with route_only")
    stop_reason: str | None = Field(
        description="end_turn, max_tokens, stop_sequence, tool_use, or refusal; null with route_only"
    )
    stop_sequence: str | None = Field(description="the text at which the answer ended, if the model's server states it")
    usage: dict[str, Any] = Field(
        description="tokens of the call that answered, as its provider counts them: input_tokens without cached "
        "ones, cache_read_input_tokens, cache_creation_input_tokens, and output_tokens"
    )
    parsimony: dict[str, Any] = Field(description="the run, as in the reply to a chat")


class TokenCount(BaseModel):
    """An estimate of the tokens of a request."""

    input_tokens: int = Field(description="estimated number of tokens")
    parsimony: dict[str, Any] = Field(description="``is_estimate``, and ``method``: how the number was estimated")
