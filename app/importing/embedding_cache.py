"""Cache of text embeddings on disk, so that a repeated import continues."""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from models.arrays import Singles
from models.errors import Fault, InvalidRequest

EMBEDDING_TTL_S = 7 * 24 * 3600.0
"""How long embeddings of imports that failed are kept."""


def embedder_cache_key(url: str, model: str, dimensions: int | None) -> str:
    """Return the cache key of an embedder: everything that determines its embeddings."""
    return f"{url} {model} {dimensions}"


def stack_embeddings(known: Mapping[str, bytes], texts: Sequence[str]) -> Singles:
    """Return the embeddings of texts, (n, d); raises InvalidRequest if their lengths differ."""
    vectors = [np.frombuffer(known[text], dtype="<f4") for text in texts]
    if len(lengths := {len(vector) for vector in vectors}) > 1:
        message = f"must return embeddings of one length, got {sorted(lengths)}"
        raise InvalidRequest.from_faults(Fault(("embedder",), message))
    return np.stack(vectors)


@dataclass(frozen=True, slots=True)
class EmbeddingCache:
    """Cached embeddings by embedder and text, in a file.

    Attributes:
        file: a SQLite database; it is created if it does not exist.

    The name of an embedder consists of what determines its embeddings: address, model, and dimensions.
    """

    file: Path

    def get(self, embedder: str, texts: Sequence[str]) -> dict[str, bytes]:
        """Return the cached embeddings, as little-endian float32."""
        with closing(self._open()) as kept:
            rows = dict(kept.execute("SELECT text, numbers FROM kept WHERE embedder = ?", (embedder,)))
        return {text: rows[digest] for text in texts if (digest := _hash(text)) in rows}

    def put(self, embedder: str, found: dict[str, bytes]) -> None:
        """Store embeddings."""
        with closing(self._open()) as kept, kept:
            rows = [(embedder, _hash(text), numbers, time.time()) for text, numbers in found.items()]
            kept.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)", rows)

    def remove_embeddings(self, embedder: str, texts: Sequence[str]) -> None:
        """Delete the embeddings of texts, and all that are older than ``EMBEDDING_TTL_S``."""
        with closing(self._open()) as kept, kept:
            rows = [(embedder, _hash(text)) for text in texts]
            kept.executemany("DELETE FROM kept WHERE embedder = ? AND text = ?", rows)
            kept.execute("DELETE FROM kept WHERE at < ?", (time.time() - EMBEDDING_TTL_S,))

    def _open(self) -> sqlite3.Connection:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        kept = sqlite3.connect(self.file, timeout=60.0)
        kept.execute(
            "CREATE TABLE IF NOT EXISTS kept"
            " (embedder TEXT, text TEXT, numbers BLOB, at REAL, PRIMARY KEY (embedder, text))"
        )
        return kept


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
