"""The vocabulary of Parsimony: frozen values that every other part speaks in. Start reading here.

- ``Classifier``, ``CascadeDecision`` and what belongs to them: IDK classifier cascades (``cascade.py``)
- ``FeaturesSpec``, ``TraceSpec``: how a table is to be read; ``FeatureTable``, ``Trace``: the table, checked
- ``DatasetFacts``: what can be told of it without its rows
- ``index.py``, ``portfolio.py``, ``pipeline.py``, ``policy.py``: each subject's options, query and decision
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
from models.cascade import (
    CascadeDecision,
    CascadeOptions,
    CascadeQuery,
    CascadeReply,
    CascadeRunDecision,
    CascadeStep,
    Classifier,
    DeadlineRange,
    DeadlinesReply,
    Discarded,
    SolveRequest,
)
from models.cost import Cost, Polynomial, Timings
from models.dataset import (
    CostColumn,
    Dataset,
    DatasetFacts,
    DatasetSpec,
    FeatureSpec,
    FeaturesSpec,
    FeatureTable,
    Trace,
    TraceClassifier,
    TraceSpec,
    dataset_from_columns,
)
from models.errors import Fault, InvalidRequest, ParsimonyError

__all__ = [
    "ArtifactManifest",
    "ArtifactRecord",
    "ArtifactRef",
    "Build",
    "BuildProgress",
    "BuildRequest",
    "BuildStatus",
    "CascadeDecision",
    "CascadeOptions",
    "CascadeQuery",
    "CascadeReply",
    "CascadeRunDecision",
    "CascadeStep",
    "Classifier",
    "Cost",
    "CostColumn",
    "Dataset",
    "DatasetFacts",
    "DatasetSpec",
    "DeadlineRange",
    "DeadlinesReply",
    "Discarded",
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
    "SolveRequest",
    "Timings",
    "Trace",
    "TraceClassifier",
    "TraceSpec",
    "Value",
    "dataset_from_columns",
]
