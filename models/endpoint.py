"""Endpoints: where a classifier, a sensor or an embedder is reached, and how it is spoken to.

An endpoint's name is the classifier's name in traces and artifacts, so an artifact finds what it may call by itself.
"""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, TypeAdapter, field_validator, model_validator

from models.base import LARGEST, Items, Json, Label, Sent, Value
from models.confidence_scale import ConfidenceScale

MOST_LABELS = 1000
MOST_LEVELS = 32
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
        raise ValueError("must have no '/' and not be '.' or '..', because it is part of a path")
    return name


EndpointName = Annotated[Label, AfterValidator(_can_stand_in_a_path)]
"""What an endpoint is called: as its classifier is in traces and artifacts."""


def _is_plain_url(url: str) -> str:
    if not url.isascii():
        raise ValueError("must be ASCII: write other letters percent-encoded, and a host's in punycode")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address like https://models.example/v1")
    if _CONTROL.search(url):
        raise ValueError("must have no space and no control character")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no user and no password: name a variable with the key as secret")
    if parts.fragment or "{" in parts.netloc:
        raise ValueError("must have no fragment, and no place for the item in its host")
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


Pointer = Annotated[str, Field(max_length=300), AfterValidator(_is_pointer)]
"""A JSON pointer (RFC 6901) into a reply; empty: the whole reply."""
Price = Annotated[float, Field(ge=0, le=LARGEST)]


class Prices(Value):
    """What calls cost, in the unit of the artifacts that use the endpoint."""

    per_call: Price = Field(default=0.0, description="for each call")
    per_input_token: Price = Field(default=0.0, description="for each token sent, by the reply's usage")
    per_output_token: Price = Field(default=0.0, description="for each token that came back, by the reply's usage")


class Retries(Value):
    """When a call is tried again: only where nothing can have been paid."""

    attempts: int = Field(default=2, ge=1, le=10, description="how often it is tried in all; 1: never again")
    statuses: Items[Annotated[int, Field(ge=400, le=599)]] = Field(
        default=(429, 503),
        description="statuses after which the call is retried, as after a failed connection; a reply that never came "
        "may have been paid, and is not retried",
    )
    backoff_s: float = Field(
        default=0.1,
        ge=0,
        le=60,
        description="seconds before the second try, doubled for each further one, with jitter; a reply's Retry-After "
        "counts where it is longer",
    )


class EndpointBase(Sent):
    """What endpoints of every protocol have."""

    url: Url = Field(description="the address", examples=["https://models.example/classify"])
    timeout_s: float = Field(default=10.0, gt=0, le=600, description="seconds that a call may take, tries included")
    concurrency: int = Field(default=16, ge=1, le=1000, description="most calls at a time, of each server process")
    retries: Retries = Field(default=Retries(), description="when a call is tried again")
    prices: Prices | None = Field(
        default=None,
        description="prices of a call; null: the cost in the reply; else, where the artifact's unit is one of "
        "time, how "
        "long it took, or what the artifact planned with",
    )
    secret: Annotated[str, Field(pattern=rf"^{SECRET_PREFIX}[A-Z0-9_]{{1,64}}$")] | None = Field(
        default=None,
        description=f"the name of the environment variable, {SECRET_PREFIX}…, whose value is sent as the key",
        examples=[None],
    )
    secret_header: Annotated[str, Field(pattern=_HEADER), AfterValidator(_can_carry_a_key)] = Field(
        default="Authorization",
        description="the header that carries the key; Authorization: after the word Bearer. Headers that frame the "
        "request, are meant for one hop, or are set by the service are refused",
    )
    max_reply_bytes: int = Field(default=2**20, ge=64, le=2**26, description="bytes of a reply that are read")


class JsonEndpoint(EndpointBase):
    """Any HTTP service that takes and gives JSON."""

    protocol: Literal["json"] = Field(description="any HTTP service with JSON in and out")
    method: Literal["GET", "POST", "PUT"] = Field(default="POST", description="the method of its requests")
    body: Json = Field(
        default="{{item}}",
        description="the request's body; {{item}} is replaced by the item, {{item/pointer}} by a part of it; GET "
        "has none",
    )
    label: Pointer | None = Field(default=None, description="pointer to the label")
    labels: Annotated[Items[Label], Field(max_length=MOST_LABELS)] = Field(
        default=(), description="the allowed labels, any other is treated as no answer; empty: all"
    )
    confidence: Pointer | None = Field(default=None, description="pointer to the confidence")
    confidence_scale: ConfidenceScale = Field(
        default="probability",
        description="the scale of its confidences: probability, logprob, percent, or logit; they are converted to "
        "probabilities, and a reply beyond the scale is a failed call",
    )
    scores: Pointer | None = Field(
        default=None, description="pointer to an object of labels and scores; the best one is the label"
    )
    values: Pointer | None = Field(
        default=None,
        description="for a feature: pointer to its number or numbers, null where a cell is missing",
    )
    cost: Pointer | None = Field(default=None, description="pointer to the cost of the call, in the artifact's unit")

    @field_validator("body")
    @classmethod
    def _is_shallow(cls, body: JsonValue) -> JsonValue:
        level: list[JsonValue] = [body]
        for _ in range(MOST_LEVELS):
            inner = [each for each in level if isinstance(each, list | dict)]
            level = [part for each in inner for part in (each.values() if isinstance(each, dict) else each)]
        if level:
            raise ValueError(f"must be nested at most {MOST_LEVELS} levels deep")
        return body

    @model_validator(mode="after")
    def _says_something(self) -> "JsonEndpoint":
        if self.label is None and self.scores is None and self.values is None:
            raise ValueError("give label, scores or values: where the reply has its answer")
        return self


class OpenInferenceEndpoint(EndpointBase):
    """A server that speaks the Open Inference Protocol (KServe v2)."""

    protocol: Literal["open-inference"] = Field(description="POST {url}/v2/models/{model}/infer")
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")] = Field(description="the model")
    input: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="input-0", description="the name of the input tensor"
    )
    datatype: Literal["FP32", "FP64", "INT32", "INT64", "BYTES"] = Field(
        default="FP64", description="the type of its elements"
    )
    label_output: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="the tensor that holds the label, or its place among ``labels``"
    )
    probabilities_output: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="the tensor that holds a probability for each of ``labels``"
    )
    labels: Annotated[Items[Label], Field(max_length=MOST_LABELS)] = Field(
        default=(), description="the classes, in the order of the probabilities"
    )
    confidence_scale: ConfidenceScale = Field(
        default="probability",
        description="the scale of its confidences: probability, logprob, percent, or logit; they are converted to "
        "probabilities, and a reply beyond the scale is a failed call",
    )

    @model_validator(mode="after")
    def _says_something(self) -> "OpenInferenceEndpoint":
        if self.label_output is None and self.probabilities_output is None:
            raise ValueError("give label_output or probabilities_output: the tensor with the answer")
        if self.probabilities_output is not None and not self.labels:
            raise ValueError("probabilities_output needs labels: which class each probability is of")
        return self


class Choice(Value):
    """The label is the one of these that the answer is, but for case, spaces and a full stop."""

    kind: Literal["choice"] = Field(default="choice", description="one of a few labels")
    labels: Annotated[Items[Label], Field(min_length=1, max_length=MOST_LABELS)] = Field(description="the labels")


class JsonField(Value):
    """The answer is JSON that contains the label."""

    kind: Literal["json"] = Field(default="json", description="a field of JSON")
    label: Pointer = Field(default="/label", description="pointer to the label")
    confidence: Pointer | None = Field(default=None, description="pointer to a confidence, if the answer has one")
    confidence_scale: ConfidenceScale = Field(
        default="probability",
        description="the scale of its confidences: probability, logprob, percent, or logit; they are converted to "
        "probabilities, and a reply beyond the scale is a failed call",
    )


class Pattern(Value):
    """The label is what a pattern's first group matches, or the whole match."""

    kind: Literal["pattern"] = Field(default="pattern", description="what a pattern finds")
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
    """The label is the answer's text as it is."""

    kind: Literal["text"] = Field(default="text", description="the text as it is")


ChatAnswer = Annotated[Choice | JsonField | Pattern | WholeText, Field(discriminator="kind")]


class ChatEndpoint(EndpointBase):
    """A language model behind OpenAI's chat API."""

    protocol: Literal["openai-chat"] = Field(description="POST {url}/chat/completions")
    model: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="the model")
    system: Annotated[str, Field(max_length=20_000)] | None = Field(
        default=None, description="the system prompt; null: none, or that of the caller's messages"
    )
    answer: ChatAnswer = Field(default=WholeText(), description="how the label is read from the answer")
    max_tokens: int = Field(default=256, ge=1, le=2**20, description="the most tokens of an answer")
    temperature: float = Field(default=0.0, ge=0, le=2, description="the temperature")
    logprobs: bool = Field(
        default=True,
        description="whether to request the tokens' log-probabilities: the confidence is the exponential of their mean",
    )
    judge: EndpointName | None = Field(
        default=None,
        description="the endpoint that gives the confidence where there are no log-probabilities: it gets "
        "{item, answer}, and its confidence counts; its cost is added",
    )


class EmbeddingsEndpoint(EndpointBase):
    """A model behind OpenAI's embeddings API."""

    protocol: Literal["openai-embeddings"] = Field(description="POST {url}/embeddings")
    model: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="the model")
    dimensions: int | None = Field(default=None, ge=1, le=100_000, description="coordinates to ask for; null: its own")
    max_texts: int = Field(
        default=32,
        ge=1,
        le=2048,
        description="texts of one request at most, where several are to be embedded; its reply may have "
        "``max_reply_bytes`` for each",
    )


Endpoint = Annotated[
    JsonEndpoint | OpenInferenceEndpoint | ChatEndpoint | EmbeddingsEndpoint, Field(discriminator="protocol")
]
ENDPOINT: TypeAdapter[Endpoint] = TypeAdapter(Endpoint)
CircuitState = Literal["closed", "open", "half-open"]


class ShownEndpoint(Value):
    """An endpoint as it is registered, and how it fares."""

    name: str = Field(description="its name: the classifier's in traces and artifacts")
    endpoint: Endpoint = Field(description="the endpoint; keys are never shown")
    circuit: CircuitState = Field(
        description="closed: it is called; open: it failed again and again, and is left out; half-open: one call tries"
    )
    secret_known: bool | None = Field(
        description="whether the variable of its secret is set where this server runs; null: it needs none"
    )


class ProbeRequest(Sent):
    """An item to try an endpoint with."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"item": [0.0, 1.0, 2.0]}]})

    item: Json = Field(description="the item, as runs send it")


class ProbeReply(Value):
    """The reply of an endpoint to one item."""

    label: str | None = Field(default=None, description="the label")
    confidence: float | None = Field(default=None, description="how sure it is")
    scores: dict[str, float] | None = Field(default=None, description="a score for each label")
    values: Items[float | None] | None = Field(
        default=None, description="of a feature or an embedder: its numbers, null where a cell is missing"
    )
    cost: float | None = Field(default=None, description="cost of the call; null: unknown")
    warnings: Items[str] = Field(
        default=(), description="active artifacts that were never built from such a confidence of this classifier"
    )
    seconds: float = Field(description="how long it took, tries included")
    attempts: int = Field(description="how often it was tried")
    error: str | None = Field(default=None, description="why the call failed; null: it did not")
