"""Embeddings of texts by a registered embedder, cached on disk."""

from base64 import b64decode
from collections.abc import Iterator, Sequence

from app import terminal
from app.cli.service import open_service
from app.importing.embedding_cache import EmbeddingCache, embedder_cache_key, stack_embeddings
from models.arrays import Singles
from models.errors import Fault, InvalidRequest

MAX_TEXTS_PER_EMBEDDING_CALL = 32
"""Texts of one request, which are lost if one of them cannot be embedded."""


def embed_texts(embedder: str, key: str, texts: Sequence[str], cache: EmbeddingCache) -> Singles:
    """Return the embeddings of texts, (n, d); cached ones are not computed again.

    Progress and cost are printed.

    Args:
        key: the result of ``find_embedder``.
    Raises:
        ParsimonyError: the embedder is unknown or failed; embeddings that it returned before stay cached.
        InvalidRequest: embeddings have different lengths, for example after a change of the model.
    """
    known = cache.get(key, texts)
    lacking = [text for text in dict.fromkeys(texts) if text not in known]
    costs = list[float | None]()
    with terminal.progress_bar(f"embedding by {embedder}") as report:
        for found, cost in _embed(embedder, lacking):
            cache.put(key, found)
            known |= found
            costs.append(cost)
            report(len(known), len({*texts}), "texts")
    paid = "" if None in costs or not costs else f", cost {sum(filter(None, costs)):.4g} at the endpoint's prices"
    about = f"embedded {len(lacking):,} texts by {embedder}, {len(known) - len(lacking):,} were kept{paid}"
    terminal.get_console(stderr=True).print(about, soft_wrap=True)
    return stack_embeddings(known, texts)


def find_embedder(name: str) -> str:
    """Return the configuration that determines the embeddings of a registered embedder.

    Raises InvalidRequest if the embedder is not registered.
    """
    with open_service() as service:
        endpoints = {str(one["name"]): one["endpoint"] for one in service.list_endpoints()}
    known = ["words", *(one for one, endpoint in endpoints.items() if endpoint["protocol"] == "openai-embeddings")]
    if name not in known[1:]:
        raise InvalidRequest.from_faults(Fault(("embedder",), f"must be one of {', '.join(known)}, got {name!r}"))
    endpoint = endpoints[name]
    return embedder_cache_key(endpoint["url"], endpoint["model"], endpoint["dimensions"])


def _embed(embedder: str, texts: Sequence[str]) -> Iterator[tuple[dict[str, bytes], float | None]]:
    """Yield embeddings, some texts at a time, and their cost."""
    with open_service() as service:
        for start in range(0, len(texts), MAX_TEXTS_PER_EMBEDDING_CALL):
            some = list(texts[start : start + MAX_TEXTS_PER_EMBEDDING_CALL])
            reply = service.embed_texts(embedder, some)
            numbers = [b64decode(one["embedding"]) for one in reply["data"]]
            yield dict(zip(some, numbers, strict=True)), reply["parsimony"]["cost"]
