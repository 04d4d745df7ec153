"""Small made-up data that many tests share."""

import csv
import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIDDLE = {"name": "middle", "cost": 3.0, "prediction": "middle_says", "confidence": "middle_confidence"}
TRACE_SPEC: dict[str, Any] = {
    "kind": "trace",
    "label": "truth",
    "unit": "ms",
    "classifiers": [
        {"name": "fast", "cost": 1.0, "prediction": "fast_says", "confidence": "fast_confidence", "group": "small"},
        {**MIDDLE, "group": "small"},
        {"name": "strong", "cost": {"column": "strong_ms"}, "prediction": "strong_says"},
    ],
}
FEATURES_SPEC: dict[str, Any] = {
    "kind": "features",
    "label": "outcome",
    "unit": "ms",
    "size": "pixels",
    "features": [
        {"name": "glucose", "columns": ["glucose"], "cost": 3.0},
        {"name": "texture", "columns": ["t1", "t2"], "cost": {"polynomial": [0.2, 0.01]}},
        {"name": "sift", "columns": ["s1"], "cost": {"timings": [[64, 1.1], [128, 4.2], [256, 9.0]], "degree": 2}},
    ],
}

MIXED_SPEC: dict[str, Any] = {
    "kind": "features",
    "label": "outcome",
    "unit": "min",
    "features": [
        {"name": "age", "columns": ["age"], "cost": 1.0},
        {"name": "blood", "columns": ["glucose", "iron"], "cost": 4.0},
        {"name": "ward", "columns": ["ward"], "cost": 0.5},
    ],
    "categorical": ["ward"],
    "missing": True,
}


def mixed_columns(rows: int = 300, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Make numbers and categories of which some are missing: blood tells most of the outcome, age and ward a little."""
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.4
    age = np.round(50 + 12 * ill + 15 * rng.standard_normal(rows))
    glucose, iron = np.round(5 + 3 * ill + rng.standard_normal(rows), 2), np.round(rng.standard_normal(rows), 2)
    ward = np.where(rng.random(rows) < 0.5 + 0.3 * ill, "a", rng.choice(["b", "c"], rows)).astype(object)
    ward[rng.random(rows) < 0.05] = None
    iron[rng.random(rows) < 0.1] = np.nan
    outcome = np.where(ill, "ill", "well").tolist()
    return {"age": age, "glucose": glucose, "iron": iron, "ward": ward, "outcome": np.array(outcome, dtype=object)}


def trace_columns(rows: int = 400, seed: int = 0) -> dict[str, list[Any]]:
    """Make a trace in which confidence tells right from wrong: fast is sure of six tenths, middle of eight."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(["cat", "dog", "owl"], rows)
    columns: dict[str, list[Any]] = {"truth": truth.tolist()}
    for name, sure in (("fast", 0.6), ("middle", 0.8)):
        knows = rng.random(rows) < sure
        guess = rng.choice(["cat", "dog", "owl"], rows)
        columns[f"{name}_says"] = np.where(knows, truth, guess).tolist()
        columns[f"{name}_confidence"] = np.round(np.where(knows, 0.9, 0.4) + rng.random(rows) * 0.09, 4).tolist()
    columns["strong_says"] = np.where(rng.random(rows) < 0.99, truth, "cat").tolist()
    columns["strong_ms"] = np.round(10 + rng.random(rows), 4).tolist()
    return columns


def trace_embeddings(columns: dict[str, list[Any]]) -> NDArray[np.float32]:
    """Give each row of a trace an embedding: how sure fast and middle were."""
    return np.array([columns["fast_confidence"], columns["middle_confidence"]], dtype=np.float32).T.copy()


def feature_columns(rows: int = 200, seed: int = 0) -> dict[str, list[Any]]:
    """Make a table of features: glucose tells something, texture more, sift the rest."""
    rng = np.random.default_rng(seed)
    outcome = rng.integers(0, 2, rows)
    noises = {"glucose": 1.5, "t1": 0.8, "t2": 0.6, "s1": 0.5}
    columns = {name: np.round(outcome / noise + rng.normal(size=rows), 6).tolist() for name, noise in noises.items()}
    sizes = rng.choice([64, 128, 256], rows).tolist()
    return {**columns, "pixels": sizes, "outcome": outcome.tolist()}


def to_csv(columns: dict[str, list[Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue().encode()


def trace_upload(rows: int = 400) -> dict[str, Any]:
    """Give the multipart parts of a valid upload, as httpx wants them."""
    return table_upload(to_csv(trace_columns(rows)))


def embedded_upload(rows: int = 400, seed: int = 0) -> dict[str, Any]:
    columns, out = trace_columns(rows, seed), io.BytesIO()
    np.save(out, trace_embeddings(columns))
    return {**table_upload(to_csv(columns)), "embeddings": ("embeddings.npy", out.getvalue())}


def table_upload(table: bytes, media_type: str = "text/csv") -> dict[str, Any]:
    """Give the parts of an upload of this table, read as the sample trace."""
    return {"spec": (None, json.dumps(TRACE_SPEC)), "table": ("table", table, media_type)}
