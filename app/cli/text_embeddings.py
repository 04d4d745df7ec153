"""Embeddings of texts by a registered embedder, kept on disk, so that a repeated command continues."""

import sqlite3
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from app import terminal
from app.cli.service import open_service
from models.arrays import Singles
from models.errors import Fault, InvalidRequest

TEXTS_AT_ONCE = 32
"""Texts of one request, which are lost if one of them cannot be embedded."""


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

    def _open(self) -> sqlite3.Connection:
        kept = sqlite3.connect(self.file)
        kept.execute(
            "CREATE TABLE IF NOT EXISTS embeddings"
            " (embedder TEXT, text TEXT, numbers BLOB, PRIMARY KEY (embedder, text))"
        )
        return kept


def embed_texts(embedder: str, texts: Sequence[str], kept: KeptEmbeddings) -> Singles:
    """Return the embeddings of texts, (n, d); those that are kept are not computed again.

    Progress and cost are printed.

    Raises:
        ParsimonyError: the embedder is unknown or failed; what it returned before is kept.
        InvalidRequest: embeddings of different lengths, as after a change of the model.
    """
    known = kept.get(embedder, texts)
    lacking = [text for text in dict.fromkeys(texts) if text not in known]
    costs = list[float | None]()
    with terminal.progress_bar(f"embedding by {embedder}") as report:
        for found, cost in _embed(embedder, lacking):
            kept.put(embedder, found)
            known |= found
            costs.append(cost)
            report(len(known), len({*texts}), "texts")
    paid = "" if None in costs or not costs else f", cost {sum(filter(None, costs)):.4g} at the endpoint's prices"
    about = f"embedded {len(lacking):,} texts by {embedder}, {len(known) - len(lacking):,} were kept{paid}"
    terminal.get_console(stderr=True).print(about, soft_wrap=True)
    vectors = [np.frombuffer(known[text], dtype="<f4") for text in texts]
    if len(lengths := {len(vector) for vector in vectors}) > 1:
        message = f"must return embeddings of one length, got {sorted(lengths)}; delete {kept.file}"
        raise InvalidRequest.from_faults(Fault(("embedder",), message))
    return np.stack(vectors)


def _embed(embedder: str, texts: Sequence[str]) -> Iterator[tuple[dict[str, bytes], float | None]]:
    """Yield the embeddings of some texts at a time, and their cost."""
    with open_service() as service:
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = list(texts[start : start + TEXTS_AT_ONCE])
            reply = service.embed_texts(embedder, some)
            numbers = [b64decode(one["embedding"]) for one in reply["data"]]
            yield dict(zip(some, numbers, strict=True)), reply["parsimony"]["cost"]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
