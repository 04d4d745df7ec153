"""Errors in the formats of other APIs: OpenAI's, Anthropic's, and the Open Inference Protocol's."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field

_OPENAI = ("/v1/chat/", "/v1/models", "/v1/responses", "/v1/embeddings", "/v1/completions")
_ANTHROPIC, _OPEN_INFERENCE = "/v1/messages", "/v2"
"""Where the paths of other APIs begin."""
OPENAI_INVALID = "invalid_request_error"
"""The type of the errors of invalid requests, of OpenAI and Anthropic."""
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Anthropic's types of errors by status; those of other statuses are invalid requests, or errors of the API."""
INVALID, SERVER_FAULT = 400, 500


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """The facts of an error reply, in every format.

    Attributes:
        status: the HTTP status; OpenAI's and Anthropic's formats have 400 instead of 422.
        code: the provider's code, or Parsimony's.
        type: OpenAI's type of the error; None to use the code.
        param: path of the invalid field.
        is_invalid: whether the request is invalid.
        budget: the numbers of the budget that refuses the request.
    """

    status: int
    code: str
    message: str
    type: str | None = None
    param: str | None = None
    is_invalid: bool = False
    budget: dict[str, Any] | None = None


def format_protocol_error(path: str, error: ErrorFacts, request_id: str) -> tuple[int, Any] | None:
    """Return the status and body of an error in the format of the path's API.

    Return None for Parsimony's own API.
    """
    if path.startswith(_OPEN_INFERENCE):
        return error.status, {"error": error.message}
    if not path.startswith((*_OPENAI, _ANTHROPIC)):
        return None
    status = INVALID if error.is_invalid else error.status
    fault: dict[str, Any] = {"message": error.message, "param": error.param, "code": error.code}
    if error.budget is not None:
        fault["budget"] = error.budget
    if path.startswith(_ANTHROPIC):
        return status, {"type": "error", "error": {**fault, "type": _anthropic_type(status)}, "request_id": request_id}
    return status, {"error": {**fault, "type": error.type or error.code}}


def _anthropic_type(status: int) -> str:
    """Return Anthropic's type of an error.

    >>> [_anthropic_type(status) for status in (409, 429, 502)]
    ['invalid_request_error', 'rate_limit_error', 'api_error']
    """
    return _ANTHROPIC_TYPES.get(status) or (OPENAI_INVALID if status < SERVER_FAULT else "api_error")


class ProblemBudget(BaseModel):
    """The budget that rejects an item, and its numbers."""

    budget: str = Field(description="name of the budget", examples=["search"])
    quantity: str = Field(description="what the budget bounds", examples=["cost"])
    unit: str = Field(description="unit of the numbers", examples=["USD"])
    amount: float = Field(description="upper bound of a period", examples=[500.0])
    spent: float = Field(description="what ended items have used in this period", examples=[499.99])
    reserved: float = Field(description="planned maximum of the items in flight", examples=[0.0])
    released: float = Field(
        description="part of the amount that may be spent by now; all of it, unless the budget is paced",
        examples=[500.0],
    )
    planned: float = Field(description="planned maximum of the refused item", examples=[0.04])
    resets_at: str | None = Field(description="end of the period, UTC, ISO 8601; null: never")


class OpenAIFault(BaseModel):
    """An error in OpenAI's format."""

    message: str = Field(description="the reason in a sentence, with bounds and values")
    type: str = Field(
        description="invalid_request_error, the provider's own type, or the error code", examples=["infeasible"]
    )
    param: str | None = Field(description="path of the invalid field; null: none")
    code: str = Field(description="the provider's code, or the error code, as in the errors of Parsimony's API")
    budget: ProblemBudget | None = Field(default=None, description="the budget that refuses the request")


class OpenAIError(BaseModel):
    """An error reply in OpenAI's format."""

    error: OpenAIFault = Field(description="the error")


class AnthropicFault(BaseModel):
    """An error in Anthropic's format, with additional fields from OpenAI's format."""

    type: str = Field(description="Anthropic's type of the error", examples=["rate_limit_error"])
    message: str = Field(description="the reason in a sentence, with bounds and values")
    code: str = Field(description="the provider's code, or the error code, as in the errors of Parsimony's API")
    param: str | None = Field(description="path of the invalid field; null: none")


class AnthropicError(BaseModel):
    """An error reply in Anthropic's format."""

    type: Literal["error"] = Field(default="error", description="always the same value")
    error: AnthropicFault = Field(description="the error")
    request_id: str = Field(description="id of the request, as in the log")


class InferenceErrorReply(BaseModel):
    """An error reply in the format of the Open Inference Protocol."""

    error: str = Field(description="the reason in a sentence, with bounds and values")
