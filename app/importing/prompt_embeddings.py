"""Embeddings of the prompts of an uploaded log, by a registered embedder."""

import asyncio
import time
from collections.abc import Sequence

from app.importing.kept_embeddings import KeptEmbeddings
from app.running.caller import Caller
from app.running.embedding import call_embedder, vector_of_result
from models.errors import Fault, InvalidRequest

PROMPTS_AT_ONCE = 256
"""Prompts whose embeddings are kept together."""
MAX_SECONDS = 600.0
"""Time limit of these."""


def refuse_unknown_embedder(embedder: str, caller: Caller) -> None:
    """Raise InvalidRequest unless an embedder is registered."""
    if embedder not in (known := caller.list_embedders()):
        message = f"must be a registered embedder ({', '.join(known) or 'there is none'}), got {embedder!r}"
        raise InvalidRequest.from_faults(Fault(("options", "embedder"), message))


async def embed_prompts(embedder: str, prompts: Sequence[str], kept: KeptEmbeddings, caller: Caller) -> float | None:
    """Embed the prompts that have no kept embedding, and keep the embeddings; return their cost, None if unknown.

    Raises ParsimonyError if a prompt has no embedding; others of its group are kept.
    """
    known = await asyncio.to_thread(kept.get, embedder, prompts)
    lacking = [text for text in dict.fromkeys(prompts) if text not in known]
    costs = list[float | None]()
    for start in range(0, len(lacking), PROMPTS_AT_ONCE):
        some = lacking[start : start + PROMPTS_AT_ONCE]
        results = await call_embedder(caller, embedder, some, time.monotonic() + MAX_SECONDS)
        good = {text: one for text, one in zip(some, results, strict=True) if one.error is None}
        vectors = {text: vector_of_result(one, 0, caller).tobytes() for text, one in good.items()}
        await asyncio.to_thread(kept.put, embedder, vectors)
        costs += [one.cost for one in results]
        for place, one in enumerate(results, start=start):
            vector_of_result(one, place, caller)  # raises the error of a failed call
    return None if None in costs else sum(filter(None, costs))
