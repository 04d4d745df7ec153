"""Embeddings of texts, kept on disk, so that a repeated import continues."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from models.arrays import Singles
from models.errors import Fault, InvalidRequest


@dataclass(frozen=True, slots=True)
class KeptEmbeddings:
    """Embeddings by embedder and text, in a file.

    Attributes:
        file: a SQLite database, which is created if there is none.
    """

    file: Path

    def get(self, embedder: str, texts: Sequence[str]) -> dict[str, bytes]:
        """Return the kept embeddings, as little-endian float32."""
        with closing(self._open()) as kept:
            rows = dict(kept.execute("SELECT text, numbers FROM embeddings WHERE embedder = ?", (embedder,)))
        return {text: rows[digest] for text in texts if (digest := _hash(text)) in rows}

    def put(self, embedder: str, found: dict[str, bytes]) -> None:
        """Store embeddings."""
        with closing(self._open()) as kept, kept:
            rows = [(embedder, _hash(text), numbers) for text, numbers in found.items()]
            kept.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", rows)

    def stack_embeddings(self, embedder: str, texts: Sequence[str]) -> Singles:
        """Return the embeddings of texts, all of which are kept, (n, d).

        Raises InvalidRequest, and deletes the file, if lengths differ, as after a change of the embedder's model.
        """
        known = self.get(embedder, texts)
        vectors = [np.frombuffer(known[text], dtype="<f4") for text in texts]
        if len(lengths := {len(vector) for vector in vectors}) > 1:
            self.delete()
            message = (
                f"must return embeddings of one length, got {sorted(lengths)}; kept ones are deleted now, try again"
            )
            raise InvalidRequest.from_faults(Fault(("embedder",), message))
        return np.stack(vectors)

    def delete(self) -> None:
        """Delete the file."""
        self.file.unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        kept = sqlite3.connect(self.file)
        kept.execute(
            "CREATE TABLE IF NOT EXISTS embeddings"
            " (embedder TEXT, text TEXT, numbers BLOB, PRIMARY KEY (embedder, text))"
        )
        return kept


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
