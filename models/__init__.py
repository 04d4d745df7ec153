"""The vocabulary of Parsimony: frozen values that every other part speaks in, the nouns. Start reading here.

- ``FeaturesSpec``, ``TraceSpec``: how a table is to be read; ``FeatureTable``, ``Trace``: the table, checked
- ``DatasetFacts``: its facts without the rows
- ``cascade.py``, ``index.py``, ``portfolio.py``, ``pipeline.py``, ``policy.py``: each kind's options, query and
  decision, imported from there
- ``ArtifactRecord``: one version of a built plan; ``Build``: the job that made it
- ``ParsimonyError`` and the tree below it: all that can be refused or fail (``errors.py``)
"""

from models.artifact import (
    ArtifactManifest,
    ArtifactRecord,
    ArtifactRef,
    Build,
    BuildProgress,
    BuildRequest,
    BuildStatus,
)
from models.base import Items, Label, Name, Value
from models.cost import Cost, Polynomial, Timings
from models.dataset import (
    Dataset,
    DatasetFacts,
    DatasetSpec,
    FeatureSpec,
    FeaturesSpec,
    FeatureTable,
    dataset_from_columns,
)
from models.errors import Fault, InvalidRequest, ParsimonyError
from models.trace import CostColumn, Trace, TraceClassifier, TraceSpec

__all__ = [
    "ArtifactManifest",
    "ArtifactRecord",
    "ArtifactRef",
    "Build",
    "BuildProgress",
    "BuildRequest",
    "BuildStatus",
    "Cost",
    "CostColumn",
    "Dataset",
    "DatasetFacts",
    "DatasetSpec",
    "Fault",
    "FeatureSpec",
    "FeatureTable",
    "FeaturesSpec",
    "InvalidRequest",
    "Items",
    "Label",
    "Name",
    "ParsimonyError",
    "Polynomial",
    "Timings",
    "Trace",
    "TraceClassifier",
    "TraceSpec",
    "Value",
    "dataset_from_columns",
]
