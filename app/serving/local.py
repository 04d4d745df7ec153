"""An exported artifact that decides in the caller's process (``parsimony.load``)."""

from hashlib import sha256
from typing import Any

from app.processes.clock import current_timestamp
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import decide_to_json
from app.store import codec
from app.store.artifacts import decode_manifest
from models import ArtifactRecord, Fault, InvalidRequest
from models.conversation import read_conversation
from models.word_embedding import WORDS, embed_prompts
from solvers import KINDS
from solvers.base import Plan
from solvers.kind import make_query


class LocalPlan:
    """A plan and its record.

    Raises CorruptArtifact for invalid bytes.
    """

    def __init__(self, data: bytes) -> None:
        manifest = decode_manifest(data)
        facts = manifest.model_dump(exclude={"format", "summary"})
        self.record = ArtifactRecord(
            **facts,
            summary=manifest.summary,
            savings=manifest.savings,
            losses=manifest.losses,
            version=1,
            created_at=current_timestamp(),
            sha256=sha256(data).hexdigest(),
            bytes=len(data),
        )
        self.kind, self.name, self.unit = self.record.kind, self.record.name, self.record.unit
        self.plan: Plan = codec.decode(data, KINDS[self.kind].plan)
        self._loaded = LoadedArtifact.from_record(self.record, self.plan)

    def decide(self, query: dict[str, Any]) -> bytes:
        """Return a decision as JSON, as the server does; raises Infeasible or InvalidRequest."""
        asked = make_query(self._loaded.kind.query, **query)
        text = getattr(asked, "text", None)
        if text is None:
            return decide_to_json(self._loaded, asked)
        embedder = self.record.params.get("embedder")
        if embedder != WORDS:
            message = f"requires the built-in embedder {WORDS!r}, got {embedder!r}; send the embedding as query"
            raise InvalidRequest.from_faults(Fault(("text",), message))
        numbers = tuple(embed_prompts([text], read_conversation(self.record.params))[0].tolist())
        return decide_to_json(self._loaded, asked.model_copy(update={"query": numbers, "text": None}))
