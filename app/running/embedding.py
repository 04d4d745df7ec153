"""Embeds texts with an artifact's embedder, several texts per request."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from app.running.endpoint_caller import RATE_LIMITED, EndpointCaller
from app.running.protocols.openai_embeddings import TextBatch, TextInput
from app.serving.catalog import LoadedArtifact
from models.arrays import Singles
from models.columns import MAX_COORDINATE_VALUE
from models.conversation import average_parts, read_conversation, read_embedding_rule, split_prompts
from models.endpoint import EmbeddingsEndpoint, Endpoint
from models.errors import (
    EndpointFailed,
    EndpointsBusy,
    Fault,
    InvalidRequest,
    ParsimonyError,
    ProviderRefused,
    RunTimeout,
)
from models.word_embedding import WORDS, embed_words
from parsimony.runs.steps import CLOCK_TOLERANCE_S, CallResult
from solvers.base import Plan

MAX_LETTERS = 400_000
"""Of the texts of one request together; a text that is longer goes alone."""
WORD_EMBEDDING_BATCH_SIZE = 1000
"""Texts that the built-in embedder embeds at once."""
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
T = TypeVar("T", bound=TextInput)
Embedded = tuple[tuple[float, ...], list[CallResult]]
"""An embedding, and what was called for it."""


@dataclass(frozen=True, slots=True)
class FailedEmbedding:
    """A text without an embedding: the reason, and the calls made for it."""

    error: EndpointFailed
    results: list[CallResult]


def needs_embedding(loaded: LoadedArtifact[Plan]) -> bool:
    """Return whether an artifact needs an item's embedding for its decision."""
    return loaded.kind.embedding_dimensions(loaded.plan) > 0


def embedder_name(loaded: LoadedArtifact[Plan]) -> str | None:
    """Return the name of an artifact's embedder; None if it embeds no texts."""
    return loaded.record.params.get("embedder") if needs_embedding(loaded) else None


def shares_embeddings(one: LoadedArtifact[Plan], other: LoadedArtifact[Plan]) -> bool:
    """Return whether two artifacts embed texts equally, or both not at all."""
    embedder = embedder_name(one)
    if one is other or embedder is None or embedder != embedder_name(other):
        return embedder == embedder_name(other)
    return read_embedding_rule(one.record.params) == read_embedding_rule(other.record.params)


def require_embedder(loaded: LoadedArtifact[Plan], where: str = "text") -> str:
    """Return the name of an artifact's embedder; raises InvalidRequest if the artifact has none."""
    embedder = loaded.record.params.get("embedder")
    if embedder is None:
        lacks = f"{loaded.ref.full_name} was built without an embedder"
        message = f"is not supported: {lacks}; send the embedding, or build with an embedder"
        raise InvalidRequest.from_faults(Fault((where,), message))
    return str(embedder)


async def embed_texts(
    loaded: LoadedArtifact[Plan], texts: Sequence[str], caller: EndpointCaller, ends_at: float
) -> list[Embedded | FailedEmbedding]:
    """Return the embedding of each text, or its failure, in order.

    Texts are sent in requests of the size that the endpoint supports. The cost and time of a request are divided among
    its texts. If the artifact has conversation options, each text is a chat as JSON, and its embedding is the mean of
    the embeddings of its window and its older turns.

    Args:
        ends_at: deadline on the clock ``time.monotonic``.
    """
    if not texts:
        return []
    name, parts = require_embedder(loaded), split_prompts(texts, read_conversation(loaded.record.params))
    results = iter(await call_embedder(caller, name, parts.texts, ends_at))
    return [
        _join_parts(own, [_embedded(loaded, one, ends_at) for one in islice(results, len(own))])
        for own in parts.by_prompt
    ]


def _join_parts(texts: Sequence[str], parts: Sequence[Embedded | FailedEmbedding]) -> Embedded | FailedEmbedding:
    """Return the embedding of a text from those of its parts; fails if a part failed."""
    calls = [call for one in parts for call in (one.results if isinstance(one, FailedEmbedding) else one[1])]
    vectors = list[tuple[float, ...]]()
    for one in parts:
        if isinstance(one, FailedEmbedding):
            return FailedEmbedding(one.error, calls)
        vectors.append(one[0])
    return tuple(average_parts(np.array(vectors), texts).tolist()), calls


def require_vectors(embedded: Sequence[Embedded | FailedEmbedding]) -> list[tuple[float, ...]]:
    """Return the vectors of embedded texts.

    Raises EndpointFailed or RunTimeout for the first text without a vector. The error has the text's position.
    """
    vectors = []
    for place, one in enumerate(embedded, start=1):
        if isinstance(one, FailedEmbedding):
            raise one.error if len(embedded) == 1 else type(one.error)(f"text {place}: {one.error}")
        vectors.append(one[0])
    return vectors


def _embedded(loaded: LoadedArtifact[Plan], result: CallResult, ends_at: float) -> Embedded | FailedEmbedding:
    """Return the embedding in a reply; it must have the artifact's length."""
    wanted = loaded.kind.embedding_dimensions(loaded.plan)
    numbers = tuple(number for number in result.values or () if number is not None)
    if result.values is not None and len(numbers) < len(result.values):
        why = "it gave null among its numbers"
    elif result.values is not None and len(numbers) == wanted:
        if max(map(abs, numbers)) <= MAX_COORDINATE_VALUE:
            return numbers, [result]
        why = f"it gave a number beyond {MAX_COORDINATE_VALUE:g}"
    elif result.values is not None:
        why = f"it gave {len(result.values)} numbers, {loaded.ref.full_name} was built with {wanted}"
    else:
        why = result.error or "it gave no numbers"
    kind = RunTimeout if ends_at - time.monotonic() < CLOCK_TOLERANCE_S else EndpointFailed
    return FailedEmbedding(kind(f"no embedding: {result.name}: {why}"), [result])


async def call_embedder(
    caller: EndpointCaller,
    name: str,
    texts: Sequence[TextInput],
    ends_at: float,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> list[CallResult]:
    """Call the embedder for texts, in concurrent requests of a supported size.

    Args:
        texts: texts, or their tokens.
        options: additional fields of the requests.
    """
    if name == WORDS:
        return await _embed_by_words(texts)
    pieces = split_into_requests(texts, _most_texts(caller.get_endpoint(name)))
    results = await asyncio.gather(*(_embed_together(caller, name, some, ends_at, options) for some in pieces))
    return [one for each in results for one in each]


async def _embed_by_words(texts: Sequence[TextInput]) -> list[CallResult]:
    """Embed texts by the built-in embedder, in another thread."""
    started = time.monotonic()
    vectors = await asyncio.to_thread(embed_words, list(map(str, texts)))
    seconds = (time.monotonic() - started) / len(texts)
    return [CallResult(WORDS, values=tuple(one), seconds=seconds, cost=0.0) for one in vectors.tolist()]


def max_texts_per_call(loaded: LoadedArtifact[Plan], caller: EndpointCaller) -> int:
    """Return the number of texts per request of an artifact's embedder; 1 if the artifact has none."""
    embedder = loaded.record.params.get("embedder")
    if embedder == WORDS:
        return WORD_EMBEDDING_BATCH_SIZE
    return 1 if embedder is None else _most_texts(caller.get_endpoint(str(embedder)))


def _most_texts(endpoint: Endpoint | None) -> int:
    return endpoint.max_texts if isinstance(endpoint, EmbeddingsEndpoint) else 1


def split_into_requests(texts: Sequence[T], max_texts: int) -> Iterator[Sequence[T]]:
    """Split texts into requests, limited by number and total length, in order.

    >>> list(split_into_requests(["a", "b", "c"], 2))
    [['a', 'b'], ['c']]
    """
    first = letters = 0
    for place, text in enumerate(texts):
        letters += len(text)
        if place > first and (place - first == max_texts or letters > MAX_LETTERS):
            yield texts[first:place]
            first, letters = place, len(text)
    yield texts[first:]


async def _embed_together(
    caller: EndpointCaller, name: str, texts: Sequence[TextInput], ends_at: float, options: Mapping[str, Any]
) -> list[CallResult]:
    """Embed several texts in one call.

    If the endpoint rejects the input, both halves are sent separately. So only the rejected text has no embedding.
    """
    result = await caller.call_endpoint(name, TextBatch(tuple(texts), options), max(ends_at - time.monotonic(), 0.0))
    shares = split_call_by_text(result, texts)
    if not result.is_refused or len(texts) == 1:
        return shares
    half = len(texts) // 2
    halves = [await _embed_together(caller, name, some, ends_at, options) for some in (texts[:half], texts[half:])]
    return [_after(before, one) for before, one in zip(shares, (one for each in halves for one in each), strict=True)]


def _after(before: CallResult, result: CallResult) -> CallResult:
    """Add the cost, time, and attempts of an earlier, rejected call to a result."""
    costs = [each for each in (before.cost, result.cost) if each is not None]
    return replace(
        result,
        seconds=before.seconds + result.seconds,
        attempts=before.attempts + result.attempts,
        cost=sum(costs) if costs else None,
    )


def split_call_by_text(result: CallResult, texts: Sequence[TextInput]) -> list[CallResult]:
    """Divide the cost and time of one call among its texts, by their lengths."""
    ends = list(accumulate(len(text) + 1 for text in texts))
    width = len(result.values or ()) // len(texts)
    shares = []
    for place, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        share = (end - begin) / ends[-1]
        sent, came = (total * end // ends[-1] - total * begin // ends[-1] for total in result.tokens)
        shares.append(
            replace(
                result,
                values=None if result.values is None else result.values[place * width : (place + 1) * width],
                cost=None if result.cost is None else result.cost * share,
                seconds=result.seconds * share,
                tokens=(sent, came),
            )
        )
    return shares


def read_result_vector(result: CallResult, where: str, caller: EndpointCaller) -> Singles:
    """Return the embedding in a result as little-endian float32.

    Raises ParsimonyError if there is none.

    Args:
        where: description of the embedded text, for messages.
    """
    if result.error is not None:
        raise _error_of(result, where, caller)
    if result.values is None or None in result.values:
        raise EndpointFailed(f"{where}: the embedder returned null among the numbers")
    with np.errstate(over="ignore"):
        vector = np.array(result.values, dtype="<f4")
    if not (np.abs(vector) <= MAX_COORDINATE_VALUE).all():
        raise EndpointFailed(
            f"{where}: the embedder must return numbers of at most {MAX_COORDINATE_VALUE:g}, got others"
        )
    return vector


def _error_of(result: CallResult, where: str, caller: EndpointCaller) -> ParsimonyError:
    """Return the error of a failed call.

    It is an error of the request, of a rate limit, or of the embedder.
    """
    message, reply = f"{where}: {result.error}", result.provider_error
    if reply is not None and result.is_refused:
        return ProviderRefused(f"{where}: {reply.message or result.error}", reply)
    wait_s = caller.rate_limit_seconds(result.name)
    if wait_s is not None:
        return EndpointsBusy(message, wait_s)
    is_limited = reply is not None and reply.status == RATE_LIMITED
    return EndpointsBusy(message) if is_limited else EndpointFailed(message)
