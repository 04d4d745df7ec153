"""OpenAI's chat API as this service speaks it: an artifact is a model."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from models.base import ItemId, Value, has_finite_numbers


class ChatExtras(Value):
    """Parsimony's extensions of a chat request."""

    route_only: bool = Field(default=False, description="whether to decide only, and to call nothing")
    id: ItemId | None = Field(default=None, description="the item's id: the same one always takes the same path")
    timeout_s: float = Field(default=30.0, gt=0, le=600, description="seconds after which the best so far is given")


class ChatMessage(BaseModel):
    """A message; what else it has is passed on."""

    model_config = ConfigDict(extra="allow")

    role: Annotated[str, Field(min_length=1, max_length=40)] = Field(description="role of the author")
    content: str | list[dict[str, Any]] | None = Field(default=None, description="the text")


class ChatRequest(BaseModel):
    """A chat request. Further fields that shape an answer are passed on."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [{"model": "cascade/digits", "messages": [{"role": "user", "content": "[0, 1, 2]"}]}]
        },
    )

    model: Annotated[str, Field(min_length=3, max_length=300)] = Field(
        description="the artifact, as cascade/NAME, portfolio/NAME or policy/NAME; then limits: @budget= (a number or "
        "30%), @max_item_cost=, @deadline=, or @min_accuracy=",
        examples=["cascade/digits", "portfolio/chat@budget=30%"],
    )
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)] = Field(description="the messages")
    stream: bool = Field(default=False, description="whether the answer comes as server-sent events")
    n: Literal[1] | None = Field(default=None, description="one answer only")
    parsimony: ChatExtras = Field(default=ChatExtras(), description="Parsimony's extensions")

    @model_validator(mode="after")
    def _has_finite_numbers(self) -> "ChatRequest":
        contents = [part for message in self.messages for part in (message.content, message.model_extra)]
        if not has_finite_numbers([self.model_extra, contents]):
            raise ValueError("must hold finite numbers only, got NaN or an infinity")
        return self


class ChatAnswer(BaseModel):
    """The assistant's message."""

    role: Literal["assistant"] = Field(default="assistant", description="the assistant")
    content: str | None = Field(description="the answer; null: ``route_only`` was requested")


class ChatChoice(BaseModel):
    """The one answer."""

    index: int = Field(default=0, description="always 0")
    message: ChatAnswer = Field(description="the answer")
    finish_reason: Literal["stop"] = Field(default="stop", description="always stop")


class ChatUsage(BaseModel):
    """Tokens of all calls that were made."""

    prompt_tokens: int = Field(description="tokens sent")
    completion_tokens: int = Field(description="tokens that came back")
    total_tokens: int = Field(description="both")


class ChatCompletion(BaseModel):
    """A chat completion in OpenAI's form; ``parsimony`` has the decision and the run."""

    id: str = Field(description="the completion's id")
    object: Literal["chat.completion"] = Field(default="chat.completion", description="always this")
    created: int = Field(description="when, in seconds since 1970")
    model: str = Field(description="the requested model")
    choices: list[ChatChoice] = Field(description="the one answer; empty with route_only")
    usage: ChatUsage = Field(description="tokens of all calls that were made")
    parsimony: dict[str, Any] = Field(description="the run as of .../runs; with route_only the decision")


class ChatModel(BaseModel):
    """An artifact as a model."""

    id: str = Field(description="what to send as model")
    object: Literal["model"] = Field(default="model", description="always this")
    created: int = Field(description="when it was built, in seconds since 1970")
    owned_by: str = Field(default="parsimony", description="always this")


class ChatModels(BaseModel):
    """All artifacts that can answer chats."""

    object: Literal["list"] = Field(default="list", description="always this")
    data: list[ChatModel] = Field(description="the artifacts, by name")
