"""Embeddings of the prompts of an uploaded log, by a registered embedder."""

import asyncio
import time
from collections.abc import Sequence

from app.importing.kept_embeddings import KeptEmbeddings, name_embedder, stack_embeddings
from app.running.caller import Caller
from app.running.embedding import call_embedder, split_into_requests, vector_of_result
from models.arrays import Singles
from models.endpoint import EmbeddingsEndpoint
from models.errors import Fault, InvalidRequest, ParsimonyError

REQUESTS_AT_ONCE = 8
"""Concurrent requests of an import; the embeddings of each are kept when it is answered."""
MAX_SECONDS = 600.0
"""Time limit of a request."""


def find_embedder(name: str, caller: Caller) -> EmbeddingsEndpoint:
    """Return a registered embedder; raises InvalidRequest for another name."""
    endpoint = caller.get_endpoint(name)
    if not isinstance(endpoint, EmbeddingsEndpoint):
        known = ", ".join(("words", *caller.list_embedders()))
        message = f"must be one of {known}, got {name!r}"
        raise InvalidRequest.from_faults(Fault(("options", "embedder"), message))
    return endpoint


async def embed_prompts(
    name: str, endpoint: EmbeddingsEndpoint, prompts: Sequence[str], kept: KeptEmbeddings, caller: Caller
) -> tuple[Singles, float | None]:
    """Return the embeddings of prompts, (n, d), and their cost, None if it is unknown.

    Kept embeddings are used, and new ones are kept; they are removed by ``forget_prompts``.

    Raises ParsimonyError for the first prompt without an embedding, after the requests in progress.
    """
    embedder = name_embedder(endpoint.url, endpoint.model, endpoint.dimensions)
    known = await asyncio.to_thread(kept.get, embedder, prompts)
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
                    found[text] = vector_of_result(result, f"prompt {text[:80]!r}", caller).tobytes()
                except ParsimonyError as error:
                    errors.append(error)
            await asyncio.to_thread(kept.put, embedder, found)
            known.update(found)
            costs.extend(one.cost for one in results)

    await asyncio.gather(*(embed_in_turn() for _ in range(REQUESTS_AT_ONCE)))
    if errors:
        raise errors[0]
    return stack_embeddings(known, prompts), None if None in costs else sum(filter(None, costs))


def forget_prompts(endpoint: EmbeddingsEndpoint, prompts: Sequence[str], kept: KeptEmbeddings) -> None:
    """Remove the kept embeddings of prompts, which are stored as a dataset now."""
    kept.remove_embeddings(name_embedder(endpoint.url, endpoint.model, endpoint.dimensions), prompts)
