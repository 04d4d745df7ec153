"""Imports of logs of model calls, as the API returns them."""

from typing import Literal

from pydantic import Field

from models.base import Items, Name, Value
from models.conversation import ConversationWindow
from models.recording import CallCoverage
from models.stored_dataset import StoredDataset

FormatName = Literal["litellm", "openai", "langfuse", "otel", "table"]
"""Formats of call logs; ``table`` has one flat row per call."""


class ImportedModel(Value):
    """The calls of a model in a log."""

    name: str = Field(description="the model")
    calls: int = Field(description="number of its calls that were used")
    mean_outcome: float = Field(description="mean outcome of these calls, from 0 to 1")
    mean_cost: float = Field(description="mean cost of these calls")


class ImportedDataset(StoredDataset):
    """A dataset made from a log of calls, and the numbers of used and unused records."""

    records: int = Field(description="number of records of the log")
    calls: int = Field(description="number of calls that were used")
    unused: dict[str, int] = Field(description="number of records that were not used, by reason")
    shortened_calls: int = Field(
        description="number of used calls whose earlier chat turns are not embedded, because ``conversation`` is null. "
        "Chats with the same last user message then count as one prompt"
    )
    models: Items[ImportedModel] = Field(description="the models, by name")
    coverage: CallCoverage = Field(description="the share of prompts that each model answered, by length of the prompt")
    embedding_cost: float | None = Field(
        description="cost of the embeddings at the endpoint's prices; null: the built-in embedder, or unknown"
    )


class ImportOptions(Value):
    """Options for reading a log of calls."""

    unit: str = Field(default="USD", min_length=1, max_length=100, description="the unit of costs")
    embedder: Name | None = Field(
        default=None,
        description="registered embedder of the prompts; null: the built-in one. A repeated request after a failure "
        "embeds only the prompts that lack an embedding",
    )
    format: FormatName | None = Field(default=None, description="format of the log; null: it is recognized")
    conversation: ConversationWindow | None = Field(
        default=None,
        description="how chats are embedded, so that builds route by earlier turns; null: by the last user message",
    )
    pointers: dict[str, str] = Field(
        default={},
        max_length=20,
        description="JSON pointers to fields of a call in a format that is not recognized, by field: classifier, text, "
        "request, outcome, cost, confidence, propensity, input_tokens, output_tokens",
        examples=[{"classifier": "/llm/id", "text": "/question"}],
    )
