"""Embeddings of the prompts of an uploaded log, by a registered embedder."""

import asyncio
import time
from collections.abc import Sequence

from app.importing.embedding_cache import EmbeddingCache, embedder_cache_key, stack_embeddings
from app.running.embedding import call_embedder, read_result_vector, split_into_requests
from app.running.endpoint_caller import EndpointCaller
from models.arrays import Singles
from models.endpoint import EmbeddingsEndpoint
from models.errors import Fault, InvalidRequest, ParsimonyError

MAX_CONCURRENT_EMBEDDINGS = 8
"""Concurrent requests of an import; the embeddings of each are kept when it is answered."""
MAX_SECONDS = 600.0
"""Time limit of a request."""


def find_embedder(name: str, caller: EndpointCaller) -> EmbeddingsEndpoint:
    """Return a registered embedder; raises InvalidRequest for unknown names."""
    endpoint = caller.get_endpoint(name)
    if not isinstance(endpoint, EmbeddingsEndpoint):
        known = ", ".join(("words", *caller.list_embedders()))
        message = f"must be one of {known}, got {name!r}"
        raise InvalidRequest.from_faults(Fault(("options", "embedder"), message))
    return endpoint


async def embed_prompts(
    name: str, endpoint: EmbeddingsEndpoint, prompts: Sequence[str], cache: EmbeddingCache, caller: EndpointCaller
) -> tuple[Singles, float | None]:
    """Return the embeddings of prompts, (n, d), and their cost, None if unknown.

    Cached embeddings are used, and new ones are cached. ``evict_prompts`` removes them.

    If a prompt has no embedding, raises ParsimonyError after the requests in progress have ended.
    """
    embedder = embedder_cache_key(endpoint.url, endpoint.model, endpoint.dimensions)
    known = await asyncio.to_thread(cache.get, embedder, prompts)
    lacking = [text for text in dict.fromkeys(prompts) if text not in known]
    waiting = iter(split_into_requests(lacking, endpoint.max_texts) if lacking else ())
    costs, errors = list[float | None](), list[ParsimonyError]()

    async def embed_in_turn() -> None:
        for texts in waiting:
            if errors:
                return
            results = await call_embedder(caller, name, texts, time.monotonic() + MAX_SECONDS)
            found = {}
            for text, result in zip(texts, results, strict=True):
                try:
                    found[text] = read_result_vector(result, f"prompt {text[:80]!r}", caller).tobytes()
                except ParsimonyError as error:
                    errors.append(error)
            await asyncio.to_thread(cache.put, embedder, found)
            known.update(found)
            costs.extend(one.cost for one in results)

    await asyncio.gather(*(embed_in_turn() for _ in range(MAX_CONCURRENT_EMBEDDINGS)))
    if errors:
        raise errors[0]
    return stack_embeddings(known, prompts), None if None in costs else sum(filter(None, costs))


def evict_prompts(endpoint: EmbeddingsEndpoint, prompts: Sequence[str], cache: EmbeddingCache) -> None:
    """Remove the cached embeddings of prompts, once they are stored in a dataset."""
    cache.remove_embeddings(embedder_cache_key(endpoint.url, endpoint.model, endpoint.dimensions), prompts)
