"""Embeds texts with the endpoint that an artifact names: many in a request, in their order."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.running.caller import Caller
from app.running.protocols.openai_embeddings import Texts
from app.serving.catalog import LoadedArtifact
from models.columns import FARTHEST
from models.endpoint import EmbeddingsEndpoint, Endpoint
from models.errors import EndpointFailed, Fault, InvalidRequest, RunTimeout
from solvers.base import Plan
from solvers.running import COARSE_S, CallResult

MOST_LETTERS = 400_000
"""Of the texts of one request together; a text that is longer goes alone."""
Embedded = tuple[tuple[float, ...], list[CallResult]]
"""An embedding, and what was called for it."""


@dataclass(frozen=True, slots=True)
class FailedEmbedding:
    """A text that has no embedding: why, and the call that gave none."""

    error: EndpointFailed
    result: CallResult


def takes_embeddings(loaded: LoadedArtifact[Plan]) -> bool:
    """Return whether an artifact decides by an item's embedding, so that a text can be made one."""
    return loaded.kind.embedding_dimensions(loaded.plan) > 0


def embedder_of(loaded: LoadedArtifact[Plan], where: str = "text") -> str:
    """Name the endpoint that embeds the texts of an artifact; raises InvalidRequest if it names none."""
    embedder = loaded.record.params.get("embedder")
    if embedder is None:
        message = f"cannot be embedded: {loaded.ref.spelt} names no embedder; send the embedding, or build it with one"
        raise InvalidRequest.from_faults(Fault((where,), message))
    return str(embedder)


async def embed_texts(
    loaded: LoadedArtifact[Plan], texts: Sequence[str], caller: Caller, ends_at: float
) -> list[Embedded | FailedEmbedding]:
    """Embed texts until a time on the clock ``time.monotonic``: for each its embedding, or why there is none.

    Where the endpoint takes several in a request it is sent so many, and each text has its share of what that took.
    """
    if not texts:
        return []
    name = embedder_of(loaded)
    heard = await _heard(caller, name, texts, ends_at)
    return [_embedded(loaded, one, ends_at) for one in heard]


def vectors_of(made: Sequence[Embedded | FailedEmbedding]) -> list[tuple[float, ...]]:
    """Give the embeddings of texts; raises EndpointFailed or RunTimeout, with the text's place, where one has none."""
    vectors = []
    for place, one in enumerate(made, start=1):
        if isinstance(one, FailedEmbedding):
            raise one.error if len(made) == 1 else type(one.error)(f"text {place}: {one.error}")
        vectors.append(one[0])
    return vectors


def _embedded(loaded: LoadedArtifact[Plan], heard: CallResult, ends_at: float) -> Embedded | FailedEmbedding:
    """Take the numbers of a reply, if they are an embedding of the artifact's."""
    wanted = loaded.kind.embedding_dimensions(loaded.plan)
    numbers = tuple(number for number in heard.values or () if number is not None)
    if heard.values is not None and len(numbers) < len(heard.values):
        why = "it gave null among its numbers"
    elif heard.values is not None and len(numbers) == wanted:
        if max(map(abs, numbers)) <= FARTHEST:
            return numbers, [heard]
        why = f"it gave a number beyond {FARTHEST:g}"
    elif heard.values is not None:
        why = f"it gave {len(heard.values)} numbers, {loaded.ref.spelt} was built with {wanted}"
    else:
        why = heard.error or "it gave no numbers"
    kind = RunTimeout if ends_at - time.monotonic() < COARSE_S else EndpointFailed
    return FailedEmbedding(kind(f"no embedding: {heard.name}: {why}"), heard)


async def _heard(caller: Caller, name: str, texts: Sequence[str], ends_at: float) -> list[CallResult]:
    """Call for each text, or for as many in a request as the endpoint takes; the requests at the same time."""
    pieces = split_into_requests(texts, _most_texts(caller.get_endpoint(name)))
    results = await asyncio.gather(*(_together(caller, name, some, ends_at) for some in pieces))
    return [one for each in results for one in each]


def texts_at_once(loaded: LoadedArtifact[Plan], caller: Caller) -> int:
    """Return how many texts the embedder of an artifact takes in a request; 1 without an embedder."""
    embedder = loaded.record.params.get("embedder")
    return 1 if embedder is None else _most_texts(caller.get_endpoint(str(embedder)))


def _most_texts(endpoint: Endpoint | None) -> int:
    return endpoint.max_texts if isinstance(endpoint, EmbeddingsEndpoint) else 1


def split_into_requests(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """Cut texts into those of a request each, in order: at most so many, and not too long together.

    >>> list(split_into_requests(["a", "b", "c"], 2))
    [['a', 'b'], ['c']]
    """
    first = letters = 0
    for place, text in enumerate(texts):
        letters += len(text)
        if place > first and (place - first == most or letters > MOST_LETTERS):
            yield texts[first:place]
            first, letters = place, len(text)
    yield texts[first:]


async def _together(caller: Caller, name: str, texts: Sequence[str], ends_at: float) -> list[CallResult]:
    """Call once for several texts. Where the endpoint refuses what was sent, both halves are sent apart, so that only
    the text that it does not take has no embedding."""
    item = Texts(tuple(texts)) if len(texts) > 1 else texts[0]
    heard = await caller.call_endpoint(name, item, max(ends_at - time.monotonic(), 0.0))
    shares = split_among_texts(heard, texts)
    if not heard.is_refused or len(texts) == 1:
        return shares
    half = len(texts) // 2
    halves = [await _together(caller, name, some, ends_at) for some in (texts[:half], texts[half:])]
    return [_after(before, one) for before, one in zip(shares, (one for each in halves for one in each), strict=True)]


def _after(before: CallResult, heard: CallResult) -> CallResult:
    """Add to a call what the one before took that was refused."""
    costs = [each for each in (before.cost, heard.cost) if each is not None]
    return replace(
        heard,
        seconds=before.seconds + heard.seconds,
        attempts=before.attempts + heard.attempts,
        cost=sum(costs) if costs else None,
    )


def split_among_texts(heard: CallResult, texts: Sequence[str]) -> list[CallResult]:
    """Share out one call among its texts, by their lengths; the shares add up to what it took."""
    ends = list(accumulate(len(text) + 1 for text in texts))
    width = len(heard.values or ()) // len(texts)
    shares = []
    for place, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        share = (end - begin) / ends[-1]
        sent, came = (total * end // ends[-1] - total * begin // ends[-1] for total in heard.tokens)
        shares.append(
            replace(
                heard,
                values=None if heard.values is None else heard.values[place * width : (place + 1) * width],
                cost=None if heard.cost is None else heard.cost * share,
                seconds=heard.seconds * share,
                tokens=(sent, came),
            )
        )
    return shares
