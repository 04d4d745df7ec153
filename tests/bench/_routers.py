"""Routers that a portfolio is held against: from embeddings of rows that were seen, how likely each model is right.

Each takes embeddings (n, d), how right m models were about them (n, m), and embeddings to route (q, d), and gives
estimates (q, m). They are written small, for the benchmark only; after RouteLLM's kinds where that is said.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from models.arrays import Floats, Singles

Router = Callable[[Singles, Floats, Singles, int], Floats]


def constant(vectors: Singles, right: Floats, asked: Singles, seed: int) -> Floats:
    """Estimate each model's mean: routing by it is the hull of single models."""
    return np.tile(right.mean(axis=0), (len(asked), 1))


def forests(vectors: Singles, right: Floats, asked: Singles, seed: int) -> Floats:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(200, min_samples_leaf=5, max_features="sqrt", random_state=seed, n_jobs=-1)
    return np.asarray(forest.fit(vectors, right).predict(asked))


def logistic(vectors: Singles, right: Floats, asked: Singles, seed: int) -> Floats:
    """Fit a logistic regression for each model, its strength chosen by cross-validation."""
    from sklearn.linear_model import LogisticRegressionCV

    columns = []
    for quality in right.T:
        is_right = quality > np.random.default_rng(seed).random(len(quality))
        if is_right.all() or not is_right.any():
            columns.append(np.full(len(asked), float(is_right.mean())))
            continue
        options: dict[str, Any] = {"scoring": "neg_log_loss", "l1_ratios": [0.0], "use_legacy_attributes": False}
        curve = LogisticRegressionCV(Cs=[0.01, 0.1, 1.0, 10.0], cv=3, max_iter=500, **options)
        columns.append(curve.fit(vectors, is_right).predict_proba(asked)[:, 1])
    return np.column_stack(columns)


def similarity_weighted(vectors: Singles, right: Floats, asked: Singles, seed: int) -> Floats:
    """Average over all rows, weighed by 10 to the power of ten times their cosine (RouteLLM's similarity-weighted
    ranking, with rates of success instead of Elo)."""
    unit, other = (each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-9) for each in (vectors, asked))
    cosine = other @ unit.T
    weights = 10.0 ** (10 * (cosine - cosine.max(axis=1, keepdims=True)))
    return np.asarray(weights @ right / weights.sum(axis=1, keepdims=True))


def matrix_factorisation(vectors: Singles, right: Floats, asked: Singles, seed: int, rank: int = 16) -> Floats:
    """Fit logits that are products of a model's vector and a projection of the embedding, by Adam (RouteLLM's)."""
    rng = np.random.default_rng(seed)
    scale = float(vectors.std()) or 1.0
    inputs, other = vectors / scale, asked / scale
    parts = [rng.normal(0, 0.05, (inputs.shape[1], rank)), rng.normal(0, 0.3, (rank, right.shape[1]))]
    mean = np.clip(right.mean(axis=0), 0.01, 0.99)
    parts.append(np.log(mean / (1 - mean)))
    moments = [[np.zeros_like(part), np.zeros_like(part)] for part in parts]
    for step in range(1, 401):
        rows = rng.integers(len(inputs), size=min(256, len(inputs)))
        projected = inputs[rows] @ parts[0]
        off = (1 / (1 + np.exp(-(projected @ parts[1] + parts[2]))) - right[rows]) / len(rows)
        slopes = [
            inputs[rows].T @ (off @ parts[1].T) + 1e-3 * parts[0],
            projected.T @ off + 1e-3 * parts[1],
            off.sum(axis=0),
        ]
        for part, slope, moment in zip(parts, slopes, moments, strict=True):
            moment[0] = 0.9 * moment[0] + 0.1 * slope
            moment[1] = 0.999 * moment[1] + 0.001 * slope**2
            part -= 0.005 * (moment[0] / (1 - 0.9**step)) / (np.sqrt(moment[1] / (1 - 0.999**step)) + 1e-8)
    return np.asarray(1 / (1 + np.exp(-(other @ parts[0] @ parts[1] + parts[2]))))


ROUTERS: dict[str, Router] = {
    "logistic regressions": logistic,
    "random forests": forests,
    "similarity-weighted": similarity_weighted,
    "matrix factorisation": matrix_factorisation,
}
