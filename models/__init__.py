"""Immutable data models of datasets, artifacts, requests, and errors.

- ``FeaturesSpec``, ``TraceSpec``: descriptions of a table's columns
- ``FeatureTable``, ``Trace``: the validated tables
- ``DatasetFacts``: properties of a dataset, without its rows
- ``cascade.py``, ``index.py``, ``portfolio.py``, ``pipeline.py``, ``policy.py``: options, queries, and decisions of
  each
  kind; import them from there
- ``ArtifactRecord``: one version of an artifact; ``Build``: the job that built it
- ``ParsimonyError`` and its subclasses: all errors (``errors.py``)
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
    apply_weights,
    dataset_from_columns,
)
from models.errors import Fault, InvalidRequest, ParsimonyError
from models.setup_spec import ClassifierSetup, SetupSpec
from models.trace import Trace
from models.trace_spec import CostColumn, TraceClassifier, TraceSpec

__all__ = [
    "ArtifactManifest",
    "ArtifactRecord",
    "ArtifactRef",
    "Build",
    "BuildProgress",
    "BuildRequest",
    "BuildStatus",
    "ClassifierSetup",
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
    "SetupSpec",
    "Timings",
    "Trace",
    "TraceClassifier",
    "TraceSpec",
    "Value",
    "apply_weights",
    "dataset_from_columns",
]
