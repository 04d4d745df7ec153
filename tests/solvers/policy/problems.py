"""Small problems that the tests of the policy solver share."""

from typing import Any

import numpy as np

from models import FeaturesSpec, FeatureTable, Trace, TraceSpec, dataset_from_columns
from models.policy import PolicyOptions, RolloutItem
from solvers import Run
from solvers.policy import PolicyPlan, fit
from tests.support.samples import FEATURES_SPEC, TRACE_SPEC, feature_columns, trace_columns

QUICK = PolicyOptions(learner="filter_tree", answers="linear", points=5, folds=2)
"""Options without trees: nothing is compiled."""


def trace(rows: int = 400, seed: int = 0) -> Trace:
    """Make the sample trace: three classifiers, the third with measured costs and no confidence."""
    columns = {name: np.array(values) for name, values in trace_columns(rows, seed).items()}
    dataset = dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), columns)
    assert isinstance(dataset, Trace)
    return dataset


def features(rows: int = 300, seed: int = 0) -> FeatureTable:
    """Make the sample table: three features in four columns, two of them with costs that depend on a size."""
    columns = {name: np.array(values) for name, values in feature_columns(rows, seed).items()}
    dataset = dataset_from_columns(FeaturesSpec.model_validate(FEATURES_SPEC), columns)
    assert isinstance(dataset, FeatureTable)
    return dataset


def many_features(sensors: int, rows: int = 300, seed: int = 0, **extra: Any) -> FeatureTable:
    """Make a table of features of one column and cost 1 each, the first ones the more telling."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, rows)
    columns: dict[str, Any] = {f"f{m}": label / (m + 1) + 0.5 * rng.normal(size=rows) for m in range(sensors)}
    spec = {
        "kind": "features",
        "label": "label",
        "unit": "ms",
        "features": [{"name": name, "columns": [name], "cost": 1.0} | extra for name in columns],
    }
    dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, "label": label})
    assert isinstance(dataset, FeatureTable)
    return dataset


def build(dataset: FeatureTable | Trace, options: PolicyOptions = QUICK, seed: int = 0) -> PolicyPlan:
    """Fit a policy in this process."""
    return fit(dataset, options, np.random.default_rng(seed), Run()).plan


def items_of(dataset: FeatureTable | Trace) -> list[RolloutItem]:
    """Write complete items as a caller would."""
    items = []
    for row in range(dataset.rows):
        sensors: dict[str, Any] = {}
        at = 0
        if isinstance(dataset, Trace):
            for j, classifier in enumerate(dataset.spec.classifiers):
                label = dataset.classes[dataset.predictions[row, j]]
                sure = dataset.confidences[row, j]
                sensors[classifier.name] = label if np.isnan(sure) else (label, float(sure))
        else:
            for feature in dataset.spec.features:
                width = len(feature.columns)
                sensors[feature.name] = tuple(dataset.values[row, at : at + width].tolist())
                at += width
        items.append(RolloutItem(item=f"item-{row}", sensors=sensors))
    return items
