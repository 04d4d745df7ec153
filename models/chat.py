"""Requests and replies of the OpenAI-compatible chat API."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from models.base import ItemId, Value, has_finite_numbers
from models.errors import Fault, InvalidRequest


class ChatExtras(Value):
    """Parsimony's extensions of a chat request."""

    route_only: bool = Field(
        default=False, description="whether to return only the decision, without calling a classifier"
    )
    id: ItemId | None = Field(default=None, description="the item's id; the same id always gets the same decision")
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        le=600,
        description="time limit of the whole answer in seconds; after it, the best answer so far is returned. null: "
        "600 seconds until the first chunk of the answer, and the timeouts of the endpoints",
    )
    tools: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="which classifier answers a turn with tools: ``decide`` (chosen as for any other turn; "
        "invalid calls are escalated), ``strongest`` (the most expensive classifier), or the name of a "
        "classifier; null: the setting in ``model``, else that of the artifact",
        examples=["strongest"],
    )
    escalate_refusals: bool = Field(
        default=False, description="whether another model may be called after a refusal or a content filter"
    )


class ChangedField(Value):
    """A request field that an endpoint received with another value, or not at all."""

    endpoint: str = Field(description="the called endpoint")
    field: str = Field(description="the field of the request", examples=["max_tokens"])
    requested: Any = Field(description="the value in the request")
    sent: Any = Field(description="the value that the endpoint received; null: the endpoint drops the field")


class ChatMessage(BaseModel):
    """A chat message; additional fields are forwarded."""

    model_config = ConfigDict(extra="allow")

    role: Annotated[str, Field(min_length=1, max_length=40)] = Field(description="role of the author")
    content: str | list[dict[str, Any]] | None = Field(default=None, description="the text, or its parts")


INDEX = "index"
"""The field that numbers choices, and the tool calls of a streamed answer."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})
ChatModelName = Annotated[str, Field(min_length=3, max_length=300)]


class OpenRequest(BaseModel):
    """A request of another API; additional fields are kept.

    Null and empty fields count as absent.
    """

    model_config = ConfigDict(extra="allow")
    required: ClassVar[tuple[str, ...]] = ()
    """Fields that are not absent if they are empty."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_fields(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        if not has_finite_numbers(given):
            raise ValueError("must hold finite numbers only, got NaN or an infinity")
        return {name: value for name, value in given.items() if value not in _EMPTY or name in cls.required}


class ChatRequest(OpenRequest):
    """A chat request; all additional fields are forwarded.

    Null and empty fields count as absent.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "cascade/digits", "messages": [{"role": "user", "content": "[0, 1, 2]"}]}]
        },
    )
    required = ("model", "messages")

    model: ChatModelName = Field(
        description="the artifact, as cascade/NAME, portfolio/NAME, or policy/NAME, followed by limits: @budget= "
        "(a number or 30%), @max_item_cost=, @deadline=, @min_accuracy=, or by @tools=",
        examples=["cascade/digits", "portfolio/chat@budget=30%"],
    )
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)] = Field(description="the messages")
    stream: bool = Field(default=False, description="whether the answer is streamed as server-sent events")
    n: int = Field(
        default=1, ge=1, le=128, description="number of answers; must be 1 if the first answer may be escalated"
    )
    parsimony: ChatExtras = Field(default=ChatExtras(), description="Parsimony's extensions")

    @classmethod
    def from_parts(
        cls,
        model: str,
        messages: Iterable[Mapping[str, Any]],
        options: Mapping[str, Any],
        *,
        stream: bool,
        extras: ChatExtras,
    ) -> "ChatRequest":
        """Return a chat request for a request of another API, which is already validated.

        Args:
            options: additional fields; fields that are None are left out.
        Raises:
            InvalidRequest: several answers are requested; other APIs do not support this.
        """
        if "n" in options:
            raise InvalidRequest.from_faults(Fault(("n",), "is not supported"))
        written: list[Any] = [ChatMessage.model_construct(None, **one) for one in messages]
        given: Any = {name: value for name, value in options.items() if value is not None}
        return cls.model_construct(None, model=model, messages=written, stream=stream, parsimony=extras, **given)


class ChatAnswer(BaseModel):
    """The assistant's message, with all fields that the answering model returned.

    An example of such a field is tool calls.
    """

    model_config = ConfigDict(extra="allow")

    role: Literal["assistant"] = Field(default="assistant", description="the assistant")
    content: str | list[dict[str, Any]] | None = Field(description="the text; null: there is none")


class ChatChoice(BaseModel):
    """A choice of a completion, with all fields that the answering model returned."""

    model_config = ConfigDict(extra="allow")

    index: int = Field(default=0, description="number of the choice")
    message: ChatAnswer = Field(description="the answer")
    finish_reason: str = Field(default="stop", description="stop, length, tool_calls, or content_filter")


class ChatUsage(BaseModel):
    """Token counts of the call that answered, as its provider reports them.

    The steps list the tokens of each call.
    """

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int = Field(description="number of prompt tokens")
    completion_tokens: int = Field(description="number of completion tokens")
    total_tokens: int = Field(description="total number of tokens")


class ChatCompletion(BaseModel):
    """A chat completion in OpenAI's format; ``parsimony`` has the decision and run."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="the completion's id")
    object: Literal["chat.completion"] = Field(default="chat.completion", description="a constant")
    created: int = Field(description="time of the completion, in seconds since 1970")
    model: str = Field(description="the requested model")
    choices: list[ChatChoice] = Field(description="the answers; empty with route_only")
    usage: ChatUsage = Field(description="tokens of the call that answered")
    parsimony: dict[str, Any] = Field(
        description="the run, as in the reply of .../runs, and ``changed``: request fields that an endpoint received "
        "with another value, or not at all. With route_only, the decision"
    )


class ChatModel(BaseModel):
    """An artifact, in OpenAI's model format."""

    id: str = Field(description="the value of ``model`` in requests")
    object: Literal["model"] = Field(default="model", description="a constant")
    created: int = Field(description="time of publication, in seconds since 1970")
    owned_by: str = Field(default="parsimony", description="a constant")


class ChatModels(BaseModel):
    """The artifacts that answer chats."""

    object: Literal["list"] = Field(default="list", description="a constant")
    data: list[ChatModel] = Field(description="the artifacts, by name")
