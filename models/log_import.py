"""Imports of logs of model calls, as the API shows them."""

from pydantic import Field

from models.base import Value
from models.stored_dataset import StoredDataset


class ImportedDataset(StoredDataset):
    """A dataset that was made from a log of calls, and the numbers of used and unused records."""

    records: int = Field(description="number of records of the log")
    calls: int = Field(description="number of calls that were used")
    unused: dict[str, int] = Field(description="number of records that were not used, by reason")


class ImportOptions(Value):
    """Options for reading a log of calls."""

    unit: str = Field(default="USD", min_length=1, max_length=100, description="the unit of costs")
    pointers: dict[str, str] = Field(
        default={},
        max_length=20,
        description="JSON pointers to fields of a call in a format that is not recognized, by field: classifier, text, "
        "request, outcome, cost, confidence, propensity, input_tokens, output_tokens",
        examples=[{"classifier": "/llm/id", "text": "/question"}],
    )
