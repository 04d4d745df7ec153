"""Requests and replies of OpenAI's legacy completions API, for older clients."""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from models.chat import ChatExtras, ChatModelName, ChatUsage, OpenRequest


class CompletionRequest(OpenRequest):
    """A prompt, which is sent as a user message; all additional fields are forwarded."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "cascade/digits", "prompt": "[0, 1, 2]"}]})
    required: ClassVar[tuple[str, ...]] = ("model", "prompt")

    model: ChatModelName = Field(
        description="the artifact and limits, as in a chat", examples=["portfolio/chat@budget=30%"]
    )
    prompt: str = Field(min_length=1, description="the prompt, one text")
    stream: bool = Field(default=False, description="whether the answer is streamed as server-sent events")
    echo: Literal[False] = Field(default=False, description="must be false")
    best_of: Literal[1] = Field(default=1, description="must be 1")
    n: Literal[1] = Field(default=1, description="must be 1")
    suffix: None = Field(default=None, description="must be null: chat models do not insert text before a suffix")
    logprobs: None = Field(default=None, description="must be null; chats have log-probabilities")
    parsimony: ChatExtras = Field(default=ChatExtras(), description="Parsimony's extensions")


class CompletionReply(BaseModel):
    """A completion in OpenAI's legacy format; ``parsimony`` has the decision and run."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="the completion's id")
    object: Literal["text_completion"] = Field(default="text_completion", description="a constant")
    created: int = Field(description="time of the completion, in seconds since 1970")
    model: str = Field(description="the requested model")
    choices: list[dict[str, Any]] = Field(
        description="the answer: text, index, logprobs (null), and finish_reason; empty with route_only"
    )
    usage: ChatUsage = Field(description="tokens of the call that answered")
    parsimony: dict[str, Any] = Field(description="the run, as in the reply to a chat")
