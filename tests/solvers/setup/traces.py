"""Traces of calls whose classifiers share set-up work."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from models import Trace, TraceSpec, dataset_from_columns
from models.arrays import Singles

OWN = {"keywords": 0.5, "small": 1.0, "large": 4.0, "voice": 3.0}
"""The cost of each classifier."""
SETUP: dict[str, tuple[float, tuple[str, ...]]] = {
    "transcribe": (3.0, ("keywords", "small", "large")),
    "load audio": (0.5, ("voice", "large")),
}
"""Cost and classifiers of each set-up group; large needs both."""
SKILL = {"keywords": 0.4, "small": 1.0, "large": 2.2, "voice": 1.4}


def cost_of(names: Collection[str]) -> float:
    """Add what classifiers cost, and each set-up group once."""
    setup = sum(cost for cost, own in SETUP.values() if not set(own).isdisjoint(names))
    return sum(OWN[name] for name in names) + setup


def calls_spec(**fields: Any) -> dict[str, Any]:
    """Return the spec of the trace; fields: of the spec, which replace others."""
    return {
        "kind": "trace",
        "label": "truth",
        "unit": "ct",
        "classifiers": [
            {"name": name, "cost": cost, "prediction": f"{name} answer", "confidence": f"{name} sure"}
            for name, cost in OWN.items()
        ],
        "setup": [{"name": name, "cost": cost, "classifiers": own} for name, (cost, own) in SETUP.items()],
        **fields,
    }


def calls_columns(rows: int, seed: int = 0) -> dict[str, Any]:
    """Draw calls of two classes: costly classifiers are right more often, and know when they are."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=rows)
    columns: dict[str, Any] = {"truth": np.where(truth, "yes", "no")}
    for name, skill in SKILL.items():
        seen = skill * (2 * truth - 1) + rng.normal(size=rows)
        columns[f"{name} answer"] = np.where(seen > 0, "yes", "no")
        columns[f"{name} sure"] = 1 / (1 + np.exp(-2 * skill * np.abs(seen)))
    return columns


def embed_calls(rows: int, seed: int = 0) -> Singles:
    """Draw embeddings that say nothing."""
    return np.random.default_rng(seed + 1000).normal(size=(rows, 3)).astype(np.float32)


def calls(rows: int, seed: int = 0, spec: Mapping[str, Any] | None = None) -> Trace:
    """Return the trace of some calls."""
    parsed = TraceSpec.model_validate(calls_spec() if spec is None else spec)
    dataset = dataset_from_columns(parsed, calls_columns(rows, seed), embed_calls(rows, seed))
    assert isinstance(dataset, Trace)
    return dataset
