"""Tables of patients whose blood tests share set-up work."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.policy import PolicyOptions

OWN = {"age": 0.0, "pulse": 1.0, "hemoglobin": 1.0, "glucose": 1.0, "sodium": 1.0, "culture": 4.0, "swab": 2.0}
"""The cost of each feature."""
SETUP: dict[str, tuple[float, tuple[str, ...]]] = {
    "draw blood": (10.0, ("hemoglobin", "glucose", "sodium")),
    "lab courier": (3.0, ("sodium", "culture", "swab")),
}
"""Cost and features of each set-up group; sodium needs both."""
QUICK = PolicyOptions(points=8, folds=2, trees=16)


def cost_of(names: Collection[str]) -> float:
    """Add what features cost, and each set-up group once."""
    setup = sum(cost for cost, own in SETUP.values() if not set(own).isdisjoint(names))
    return sum(OWN[name] for name in names) + setup


def patients_spec(**fields: Any) -> dict[str, Any]:
    """Return the spec of the table; fields: of the spec, which replace others."""
    return {
        "kind": "features",
        "label": "ill",
        "unit": "EUR",
        "features": [{"name": name, "columns": [name], "cost": cost} for name, cost in OWN.items()],
        "setup": [{"name": name, "cost": cost, "features": own} for name, (cost, own) in SETUP.items()],
        **fields,
    }


def patients_columns(rows: int, seed: int = 0) -> dict[str, Any]:
    """Draw patients: age and pulse are weak features, three blood tests together are strong, the others are between."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(2, size=rows)
    noise = {"age": 2.5, "pulse": 1.5, "hemoglobin": 0.9, "glucose": 0.9, "sodium": 0.9, "culture": 0.8, "swab": 1.2}
    columns: dict[str, Any] = {name: ill + scale * rng.normal(size=rows) for name, scale in noise.items()}
    return columns | {"ill": np.where(ill, "yes", "no")}


def patients(rows: int, seed: int = 0, spec: Mapping[str, Any] | None = None) -> FeatureTable:
    """Return the table of some patients."""
    parsed = FeaturesSpec.model_validate(patients_spec() if spec is None else spec)
    dataset = dataset_from_columns(parsed, patients_columns(rows, seed))
    assert isinstance(dataset, FeatureTable)
    return dataset
