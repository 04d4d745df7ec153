"""Endpoints of classifiers, sensors, and embedders, by protocol.

An endpoint has the name of its classifier in traces and artifacts, so that artifacts find their endpoints.
"""

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, TypeAdapter, field_validator, model_validator

from models.base import Items, Json, Label, RequestBody, Value
from models.confidence_scale import ConfidenceScale
from models.endpoint_presets import PRESETS, PresetName
from models.prices import Prices

MAX_LABELS, MAX_SAMPLES = 1000, 20
MAX_NESTING = 32
"""How deep a template may be nested."""
SECRET_PREFIX = "PARSIMONY_SECRET_"
_HEADER = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$"
_RESERVED_HEADERS = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade", "content-length", "content-encoding", "content-type"),
        *("accept", "accept-encoding", "expect", "host", "http2-settings", "user-agent"),
    )
)
"""Headers that frame a request, are meant for one hop, or are set by the service."""
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def _can_stand_in_a_path(name: str) -> str:
    if "/" in name or name in (".", ".."):
        raise ValueError("must not contain '/' or be '.' or '..', because it is part of a path")
    return name


EndpointName = Annotated[Label, AfterValidator(_can_stand_in_a_path)]
"""What an endpoint is called: as its classifier is in traces and artifacts."""


def _is_plain_url(url: str) -> str:
    if not url.isascii():
        raise ValueError("must be ASCII; use percent-encoding, or punycode for hosts")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address like https://models.example/v1")
    if _CONTROL.search(url):
        raise ValueError("must not have spaces or control characters")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not have a user or password; set secret to the environment variable with the key")
    if parts.fragment or "{" in parts.netloc:
        raise ValueError("must not have a fragment, or a placeholder in the host")
    _ = parts.port  # raises ValueError if it is none
    return url


Url = Annotated[str, Field(min_length=8, max_length=2000), AfterValidator(_is_plain_url)]


def _can_carry_a_key(header: str) -> str:
    if header.lower() in _RESERVED_HEADERS:
        raise ValueError("must not be a header that frames the request or is set by the service")
    return header


def _is_pointer(text: str) -> str:
    if text and not text.startswith("/"):
        raise ValueError("must be a JSON pointer like /answer/label")
    return text


def normalize_url(url: str, operation: str) -> str:
    """Return the base URL of an OpenAI-compatible API.

    The operation is removed. ``/v1`` is appended to a URL without a path.

    >>> normalize_url("https://a.example/v1/chat/completions?api-version=1", "/chat/completions")
    'https://a.example/v1?api-version=1'
    >>> normalize_url("https://a.example", "/embeddings")
    'https://a.example/v1'
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix(operation)
    return urlunsplit(parts._replace(path=path or "/v1"))


Pointer = Annotated[str, Field(max_length=300), AfterValidator(_is_pointer)]
"""A JSON pointer (RFC 6901) into a reply; empty: the whole reply."""


class Retries(Value):
    """Retries of failed calls that the provider cannot have charged for."""

    attempts: int = Field(default=2, ge=1, le=10, description="maximum number of attempts; 1: no retries")
    statuses: Items[Annotated[int, Field(ge=400, le=599)]] = Field(
        default=(429, 503),
        description="HTTP statuses after which the call is retried. A failed connection is also retried. A missing "
        "reply is never retried, because the call may have been charged",
    )
    backoff_s: float = Field(
        default=0.1,
        ge=0,
        le=60,
        description="seconds before the second attempt, doubled for each further one, with jitter; at least the "
        "Retry-After of the reply",
    )
    max_retry_after_s: float = Field(
        default=1.0,
        ge=0,
        le=60,
        description="longest Retry-After, in seconds, for which a call waits. After a longer one, the call fails, and "
        "the endpoint is not called until that time has passed",
    )


class EndpointBase(RequestBody):
    """Fields of endpoints of every protocol."""

    url: Url = Field(description="URL of the endpoint", examples=["https://models.example/classify"])
    timeout_s: float = Field(
        default=10.0, gt=0, le=600, description="time limit of a call in seconds, including retries"
    )
    concurrency: int = Field(
        default=16, ge=1, le=1000, description="maximum number of concurrent calls of each server process"
    )
    retries: Retries = Field(default=Retries(), description="when a failed call is retried")
    prices: Prices | None = Field(
        default=None,
        description="prices of a call. null: the cost is that of the reply; else the duration, if the artifact's unit "
        "is a unit of time; else the planned cost",
    )
    secret: Annotated[str, Field(pattern=rf"^{SECRET_PREFIX}[A-Z0-9_]{{1,64}}$")] | None = Field(
        default=None,
        description=f"the name of the environment variable, {SECRET_PREFIX}…, whose value is sent as the key",
        examples=[None],
    )
    secret_header: Annotated[str, Field(pattern=_HEADER), AfterValidator(_can_carry_a_key)] = Field(
        default="Authorization",
        description="the header for the key; in Authorization, the key follows the word Bearer. Headers that "
        "frame the request, are meant for one hop, or are set by the service are refused",
    )
    max_reply_bytes: int = Field(default=2**20, ge=64, le=2**26, description="maximum size of a reply's body in bytes")


class JsonEndpoint(EndpointBase):
    """An HTTP service that exchanges JSON."""

    protocol: Literal["json"] = Field(description="an HTTP service that exchanges JSON")
    method: Literal["GET", "POST", "PUT"] = Field(default="POST", description="HTTP method of requests")
    body: Json = Field(
        default="{{item}}",
        description="template of the request's body; {{item}} is replaced by the item, {{item/pointer}} by a part "
        "of it; GET requests have no body",
    )
    label: Pointer | None = Field(default=None, description="pointer to the label")
    labels: Annotated[Items[Label], Field(max_length=MAX_LABELS)] = Field(
        default=(), description="the allowed labels; any other label counts as no answer; empty: all labels"
    )
    confidence: Pointer | None = Field(default=None, description="pointer to the confidence")
    confidence_scale: ConfidenceScale = Field(
        default="probability",
        description="scale of the confidences: probability, logprob, percent, or logit; they are converted to "
        "probabilities, and a reply outside of the scale is a failed call",
    )
    scores: Pointer | None = Field(
        default=None,
        description="pointer to an object of labels and scores; the label with the highest score is the answer",
    )
    values: Pointer | None = Field(
        default=None,
        description="for a feature: pointer to a number or a list of numbers, null for missing cells",
    )
    cost: Pointer | None = Field(default=None, description="pointer to the cost of the call, in the artifact's unit")

    @field_validator("body")
    @classmethod
    def _is_shallow(cls, body: JsonValue) -> JsonValue:
        level: list[JsonValue] = [body]
        for _ in range(MAX_NESTING):
            inner = [each for each in level if isinstance(each, list | dict)]
            level = [part for each in inner for part in (each.values() if isinstance(each, dict) else each)]
        if level:
            raise ValueError(f"must be nested at most {MAX_NESTING} levels deep")
        return body

    @model_validator(mode="after")
    def _says_something(self) -> "JsonEndpoint":
        if self.label is None and self.scores is None and self.values is None:
            raise ValueError("label, scores, or values is required: the location of the answer in the reply")
        return self


class OpenInferenceEndpoint(EndpointBase):
    """A server with the Open Inference Protocol (KServe v2)."""

    protocol: Literal["open-inference"] = Field(description="POST {url}/v2/models/{model}/infer")
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")] = Field(description="the model")
    input: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="input-0", description="the name of the input tensor"
    )
    datatype: Literal["FP32", "FP64", "INT32", "INT64", "BYTES"] = Field(
        default="FP64", description="data type of the input tensor"
    )
    label_output: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="the tensor with the label, or with its index in ``labels``"
    )
    probabilities_output: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="the tensor with a probability for each of ``labels``"
    )
    labels: Annotated[Items[Label], Field(max_length=MAX_LABELS)] = Field(
        default=(), description="the classes, in the order of the probabilities"
    )
    confidence_scale: ConfidenceScale = Field(
        default="probability",
        description="scale of the confidences: probability, logprob, percent, or logit; they are converted to "
        "probabilities, and a reply outside of the scale is a failed call",
    )

    @model_validator(mode="after")
    def _says_something(self) -> "OpenInferenceEndpoint":
        if self.label_output is None and self.probabilities_output is None:
            raise ValueError("label_output or probabilities_output is required: the tensor with the answer")
        if self.probabilities_output is not None and not self.labels:
            raise ValueError("probabilities_output requires labels: the class of each probability")
        return self


class Choice(Value):
    """The label is the choice that equals the answer.

    Case, spaces, and a final period are ignored.
    """

    kind: Literal["choice"] = Field(default="choice", description="the answer is one of a few labels")
    labels: Annotated[Items[Label], Field(min_length=1, max_length=MAX_LABELS)] = Field(description="the labels")


class JsonAnswer(Value):
    """The answer is JSON, and one of its fields is the label."""

    kind: Literal["json"] = Field(default="json", description="the label is a field of a JSON answer")
    label: Pointer = Field(default="/label", description="pointer to the label")
    confidence: Pointer | None = Field(default=None, description="pointer to a confidence, if the answer has one")
    confidence_scale: ConfidenceScale = Field(
        default="probability",
        description="scale of the confidences: probability, logprob, percent, or logit; they are converted to "
        "probabilities, and a reply outside of the scale is a failed call",
    )


class Pattern(Value):
    """The label is the first group of a regular expression, or its whole match."""

    kind: Literal["pattern"] = Field(default="pattern", description="the label is matched by a pattern")
    pattern: Annotated[str, Field(min_length=1, max_length=500)] = Field(description="an RE2 pattern")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, text: str) -> str:
        import re2

        options = re2.Options()
        options.log_errors = False
        try:
            re2.compile(text, options)
        except re2.error as error:
            raise ValueError(f"must be an RE2 pattern: {error}") from error
        return text


class WholeText(Value):
    """The label is the complete text of the answer."""

    kind: Literal["text"] = Field(default="text", description="the label is the whole text")


ChatAnswer = Annotated[Choice | JsonAnswer | Pattern | WholeText, Field(discriminator="kind")]


_SENT_ALWAYS = frozenset(("model", "messages", "stream", "stream_options"))


def _can_be_left_out(name: str) -> str:
    if name in _SENT_ALWAYS:
        raise ValueError(f"must not be {', '.join(sorted(_SENT_ALWAYS))}, which every request needs")
    return name


RequestField = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$"), AfterValidator(_can_be_left_out)]
"""The name of a field of a chat request that an endpoint may drop or rename."""


class ChatEndpoint(EndpointBase):
    """A language model with OpenAI's chat API."""

    protocol: Literal["openai-chat"] = Field(description="POST {url}/chat/completions")
    preset: PresetName | None = Field(
        default=None,
        description="the provider whose url, secret_header, drops, renames, and logprobs are used unless they "
        "are set; null: none",
    )
    model: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="the model")
    system: Annotated[str, Field(max_length=20_000)] | None = Field(
        default=None, description="the system prompt; null: none, or the one in the item's messages"
    )
    answer: ChatAnswer = Field(default=WholeText(), description="how the label is parsed from the answer")
    timeout_s: float = Field(
        default=60.0,
        gt=0,
        le=600,
        description="time limit of a call in seconds, including retries; for a streamed answer, the time to its "
        "first chunk",
    )
    piece_timeout_s: float = Field(
        default=30.0, gt=0, le=600, description="time limit in seconds between the chunks of a streamed answer"
    )
    total_timeout_s: float | None = Field(
        default=None, gt=0, le=3600, description="time limit in seconds of a whole streamed answer; null: none"
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=2**20,
        description="maximum number of tokens of an answer, even if a chat requests more; null: no limit",
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="sampling temperature, unless a chat sets it; null: 0 for items of runs and batches, the "
        "model's default for chats, and with samples",
    )
    drops: Annotated[Items[RequestField], Field(max_length=100)] = Field(
        default=(), description="request fields that the model does not support; they are not sent", examples=[[]]
    )
    renames: Annotated[dict[RequestField, RequestField], Field(max_length=100)] = Field(
        default={},
        description="request fields that have another name at the model",
        examples=[{"max_tokens": "max_completion_tokens"}],
    )
    logprobs: bool = Field(
        default=True,
        description="whether to request the tokens' log-probabilities: the confidence is the exponential of their mean",
    )
    judge: EndpointName | None = Field(
        default=None,
        description="the endpoint that rates the answer's confidence if there are no log-probabilities. Its item is "
        "{item, answer}; its confidence is used, and its cost is added",
    )
    samples: int = Field(
        default=1,
        ge=1,
        le=MAX_SAMPLES,
        description="number of concurrent calls for an answer. The most frequent label is the answer, and its share is "
        "the confidence, instead of log-probabilities. All calls are paid. 1: one call",
    )

    @model_validator(mode="after")
    def _can_disagree(self) -> "ChatEndpoint":
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(f"temperature must be above 0 with samples: {self.samples}, or all answers are the same")
        if self.samples > 1 and self.judge is not None:
            raise ValueError(f"judge must be null with samples: {self.samples}, which are the confidence")
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, given: Any) -> Any:
        preset = given.get("preset") if isinstance(given, dict) else None
        return {**PRESETS[preset], **given} if isinstance(preset, str) and preset in PRESETS else given

    @field_validator("url")
    @classmethod
    def _has_no_operation(cls, url: str) -> str:
        return normalize_url(url, "/chat/completions")


class EmbeddingsEndpoint(EndpointBase):
    """A model with OpenAI's embeddings API."""

    protocol: Literal["openai-embeddings"] = Field(description="POST {url}/embeddings")
    model: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="the model")
    dimensions: int | None = Field(
        default=None, ge=1, le=100_000, description="number of dimensions to request; null: the model's default"
    )
    max_texts: int = Field(
        default=32,
        ge=1,
        le=2048,
        description="maximum number of texts per request; the reply may have ``max_reply_bytes`` for each text",
    )
    fallback: EndpointName | None = Field(
        default=None,
        description="the classifier that answers chats and runs of single items whose text could not be embedded; "
        "null: they fail",
    )

    @field_validator("url")
    @classmethod
    def _has_no_operation(cls, url: str) -> str:
        return normalize_url(url, "/embeddings")


Endpoint = Annotated[
    JsonEndpoint | OpenInferenceEndpoint | ChatEndpoint | EmbeddingsEndpoint, Field(discriminator="protocol")
]
ENDPOINT: TypeAdapter[Endpoint] = TypeAdapter(Endpoint)
CircuitState = Literal["closed", "open", "half-open"]


class ShownEndpoint(Value):
    """A registered endpoint, and the state of its calls."""

    name: str = Field(description="name of the endpoint, which is the classifier's name in traces and artifacts")
    endpoint: Endpoint = Field(description="the endpoint, without keys")
    circuit: CircuitState = Field(
        description="state of the circuit breaker: closed: calls are made; open: calls are stopped after repeated "
        "failures; half-open: one call probes the endpoint"
    )
    secret_known: bool | None = Field(
        description="whether the environment variable of the secret is set on this server; null: the endpoint "
        "needs no key"
    )
    warnings: Items[str] = Field(
        default=(), description="prices that differ a lot from the costs in the datasets of active artifacts"
    )


class ProbeRequest(RequestBody):
    """An item for a test call of an endpoint."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"item": [0.0, 1.0, 2.0]}]})

    item: Json = Field(description="the item, as in a run")


class ProbeReply(Value):
    """Result of a test call of an endpoint."""

    label: str | None = Field(default=None, description="the label")
    text: str | None = Field(default=None, description="the answer of a language model")
    confidence: float | None = Field(default=None, description="confidence of the answer")
    scores: dict[str, float] | None = Field(default=None, description="a score for each label")
    values: Items[float | None] | None = Field(
        default=None, description="numbers of a feature or an embedding; null for missing cells"
    )
    cost: float | None = Field(default=None, description="cost of the call; null: unknown")
    warnings: Items[str] = Field(
        default=(),
        description="active artifacts in whose dataset this classifier has no such confidence or cost",
    )
    seconds: float = Field(description="duration in seconds, including retries")
    attempts: int = Field(description="number of attempts")
    error: str | None = Field(default=None, description="why the call failed; null: it succeeded")
