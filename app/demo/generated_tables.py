"""Two simulated feature tables: documents for an index, and welds for a pipeline."""

from typing import Any

import numpy as np

from app.demo.demo_table import DemoTable
from models import FeaturesSpec
from models.arrays import Floats

CLASSES = np.array(["contract", "invoice", "letter"])
DOCUMENTS = {
    "metadata": (2.0, 2.0, 0.0),
    "layout": (0.8, 40.0, 1.0),
    "full_text": (0.2, 0.0, 9.0),
    "vision": (0.2, 150.0, 0.0),
}
"""Features of a document: noise, ms per document, and ms per page."""
AMBIGUITY = 0.35
"""Noise that all features of a document share."""
INSPECTIONS = {
    "length": (20.0, 0.5),
    "photograph": (2.0, 1.0),
    "temperature": (20.0, 2.0),
    "humidity": (20.0, 3.0),
    "tapping": (20.0, 4.0),
    "ultrasound": (0.8, 8.0),
    "hardness": (9.0, 10.0),
    "radiograph": (0.2, 50.0),
}
"""Inspections of a weld: noise, in standard deviations of the severity, and EUR per weld."""
BAD_SHARE = 0.3
SEVERITY = 5.0
"""Distance of bad welds from good ones, in standard deviations."""


def make_documents(count: int, rng: np.random.Generator) -> DemoTable:
    """Return documents of 1 to 100 pages with their class; costs in ms.

    Each feature has two columns.
    """
    codes = rng.integers(len(CLASSES), size=count)
    pages = np.ceil(np.exp(rng.uniform(0, np.log(100), count)))
    corners = np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])
    content = corners[codes] + AMBIGUITY * rng.normal(size=(count, 2))
    columns: dict[str, Any] = {"class": CLASSES[codes], "pages": pages}
    for name, (noise, _, _) in DOCUMENTS.items():
        columns |= _columns(name, content + noise * rng.normal(size=(count, 2)))
    features = [
        {"name": name, "columns": [f"{name}_0", f"{name}_1"], "cost": {"polynomial": [fixed, per_page]}}
        for name, (_, fixed, per_page) in DOCUMENTS.items()
    ]
    return _table(columns, {"label": "class", "unit": "ms", "size": "pages", "features": features})


def make_welds(count: int, rng: np.random.Generator) -> DemoTable:
    """Return welds, labeled good or bad, with one column per inspection; costs in EUR."""
    is_bad = rng.random(count) < BAD_SHARE
    severity = SEVERITY * is_bad + rng.normal(size=count)
    columns: dict[str, Any] = {"weld": np.where(is_bad, "bad", "good")}
    for name, (noise, _) in INSPECTIONS.items():
        columns |= _columns(name, (severity + noise * rng.normal(size=count))[:, None])
    features = [{"name": name, "columns": [f"{name}_0"], "cost": cost} for name, (_, cost) in INSPECTIONS.items()]
    return _table(columns, {"label": "weld", "unit": "EUR", "features": features})


def _columns(name: str, values: Floats) -> dict[str, Floats]:
    return {f"{name}_{i}": column.round(4) for i, column in enumerate(values.T)}


def _table(columns: dict[str, Any], spec: dict[str, Any]) -> DemoTable:
    return DemoTable(FeaturesSpec.model_validate({"kind": "features", **spec}), columns)
