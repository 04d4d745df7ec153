"""Requests and replies of OpenAI's Responses API, without stored state."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from models.chat import ChatExtras, ChatModelName, OpenRequest
from models.messages import Name, RequestPart


class TextPart(RequestPart):
    """A text."""

    type: Literal["input_text", "output_text", "text"] = Field(description="kind of the part")
    text: str = Field(description="the text")


class RefusalPart(RequestPart):
    """A refusal of an earlier turn."""

    type: Literal["refusal"] = Field(description="a constant")
    refusal: str = Field(description="the text")


class ImagePart(RequestPart):
    """An image."""

    type: Literal["input_image"] = Field(description="a constant")
    image_url: str = Field(description="the address, or a data URL")
    detail: str | None = Field(default=None, description="low, high, or auto")


class FilePart(RequestPart):
    """A file."""

    type: Literal["input_file"] = Field(description="a constant")
    file_data: str = Field(description="a data URL")
    filename: str | None = Field(default=None, description="name of the file")


ContentPart = Annotated[TextPart | RefusalPart | ImagePart | FilePart, Field(discriminator="type")]


class MessageItem(RequestPart):
    """A message."""

    type: Literal["message"] = Field(default="message", description="a constant")
    role: Literal["user", "assistant", "system", "developer"] = Field(description="role of the author")
    content: str | list[ContentPart] = Field(description="the text, or its parts")


class CallItem(RequestPart):
    """A function call by the model."""

    type: Literal["function_call"] = Field(description="a constant")
    call_id: Name = Field(description="id of the call")
    name: Name = Field(description="name of the function")
    arguments: str = Field(description="arguments as JSON")


class OutputItem(RequestPart):
    """The result of a function call."""

    type: Literal["function_call_output"] = Field(description="a constant")
    call_id: Name = Field(description="id of the call")
    output: str | list[ContentPart] = Field(description="the result")


class ReasoningItem(RequestPart):
    """Reasoning of an earlier turn, which is not sent to models."""

    type: Literal["reasoning"] = Field(description="a constant")


def _kind_of(item: Any) -> str:
    """Return the type of an item; an item without a type is a message."""
    kind = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return str(kind)


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[OutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind_of),
]


class FunctionTool(RequestPart):
    """A function that the caller executes."""

    type: Literal["function"] = Field(description="function; tools that OpenAI executes are not supported")
    name: Name = Field(description="name of the function")
    description: str | None = Field(default=None, description="what the function does")
    parameters: dict[str, Any] | None = Field(default=None, description="JSON schema of the arguments")
    strict: bool | None = Field(default=None, description="whether the arguments must fit the schema")


class FunctionChoice(RequestPart):
    """The function that must be called."""

    type: Literal["function"] = Field(description="a constant")
    name: Name = Field(description="name of the function")


class TextFormat(RequestPart):
    """Format of the answer."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text", "json_object", "json_schema"] = Field(description="kind of the answer")


class TextConfig(RequestPart):
    """Format and length of the answer."""

    format: TextFormat | None = Field(default=None, description="the form of the answer; null: text")
    verbosity: str | None = Field(default=None, description="low, medium, or high")


class Reasoning(RequestPart):
    """Reasoning effort; summaries of the reasoning are not supported."""

    effort: str | None = Field(default=None, description="effort of the reasoning, as the model's provider names it")


class ResponsesRequest(OpenRequest):
    """A request for a response.

    Fields are forwarded unchanged, unless OpenAI's chat API has another name for them.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "cascade/digits", "input": "[0, 1, 2]"}]})
    required: ClassVar[tuple[str, ...]] = ("model", "input")

    model: ChatModelName = Field(
        description="the artifact and limits, as in a chat", examples=["portfolio/chat@budget=30%"]
    )
    input: Annotated[str, Field(min_length=1)] | Annotated[list[InputItem], Field(min_length=1, max_length=10_000)] = (
        Field(description="the text, or the items of the conversation")
    )
    instructions: str | None = Field(default=None, description="the system prompt")
    tools: list[FunctionTool] = Field(default=[], description="the functions")
    tool_choice: Literal["none", "auto", "required"] | FunctionChoice | None = Field(
        default=None, description="whether functions must be called"
    )
    text: TextConfig | None = Field(default=None, description="form and length of the answer")
    reasoning: Reasoning | None = Field(default=None, description="how much the model reasons")
    max_output_tokens: int | None = Field(default=None, ge=1, description="maximum number of tokens of the answer")
    stream: bool = Field(default=False, description="whether the answer is streamed as server-sent events")
    stream_options: dict[str, Any] | None = Field(default=None, description="ignored")
    include: list[str] = Field(default=[], description="reasoning.encrypted_content, which has no effect")
    truncation: Literal["disabled"] | None = Field(default=None, description="disabled, or null")
    store: bool = Field(default=False, description="must be false: responses are not stored")
    background: bool = Field(default=False, description="must be false: responses are not stored")
    previous_response_id: str | None = Field(default=None, description="must be null: responses are not stored")
    conversation: Any = Field(default=None, description="must be null: conversations are not stored")
    prompt: Any = Field(default=None, description="must be null: prompts are not stored")
    parsimony: ChatExtras = Field(default=ChatExtras(), description="Parsimony's extensions")


class ResponsesReply(BaseModel):
    """A response in OpenAI's format; ``parsimony`` has the decision and run."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="the response's id")
    object: Literal["response"] = Field(default="response", description="a constant")
    created_at: int = Field(description="time of the response, in seconds since 1970")
    status: str = Field(description="completed, or incomplete")
    model: str = Field(description="the requested model")
    output: list[dict[str, Any]] = Field(
        description="items: reasoning, message, and function_call; empty with route_only"
    )
    usage: dict[str, Any] = Field(description="tokens of the call that answered, as its provider counts them")
    parsimony: dict[str, Any] = Field(description="the run, as in the reply to a chat")
