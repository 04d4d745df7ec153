"""Brute force over all feature sets, and seeded instances, to hold the index against."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models import FeaturesSpec, FeatureTable
from models.arrays import Floats
from solvers.index.costs import SetCosts


@dataclass(frozen=True)
class Instance:
    """Accuracies of all 2^F sets by mask, and what each feature costs: (F, d + 1) coefficients by rising power."""

    accuracies: list[float]
    coefficients: list[list[float]]

    @property
    def features(self) -> int:
        return len(self.coefficients)

    @property
    def costs(self) -> SetCosts:
        powers = np.arange(len(self.coefficients[0]))[:, None]
        return SetCosts(powers, np.array(self.coefficients))

    def learn(self, masks: Sequence[int]) -> list[float]:
        return [self.accuracies[mask] for mask in masks]

    def curves(self) -> Floats:
        rows = []
        for mask in range(1 << self.features):
            members = [self.coefficients[f] for f in range(self.features) if mask >> f & 1]
            rows.append(
                [math.fsum(column) for column in zip(*members, strict=True)] or [0.0] * len(self.coefficients[0])
            )
        return np.array(rows)


def costs_at(curves: Floats, size: float) -> Floats:
    total = np.zeros(len(curves))
    for column in reversed(curves.T):
        total = total * size + column
    return total


def best_within(accuracies: Floats, costs: Floats, budget: float) -> tuple[float, float]:
    """Find the best accuracy within a budget among all sets, and the least that it costs."""
    fits = costs <= budget
    best = float(accuracies[fits].max())
    return best, float(costs[fits & (accuracies == best)].min())


def random_instance(
    rng: np.random.Generator, *, violation: float = 0.0, whole: bool = False, most: int = 7
) -> Instance:
    """Draw accuracies that are monotone but for ``violation``, and costs.

    whole: accuracies in 32nds and small whole coefficients, so that ties, tangents and common crossings abound.
    """
    n = int(rng.integers(1, most + 1))
    degree = int(rng.integers(0, 4))
    gains = rng.random(n) ** 2
    together = rng.random() < 0.5
    accuracies = np.zeros(1 << n)
    for mask in range(1 << n):
        members = [f for f in range(n) if mask >> f & 1]
        best = max((gains[f] for f in members), default=0.0)
        grown = 1 - math.exp(-sum(gains[f] for f in members))
        accuracies[mask] = 0.3 + 0.65 * (grown if together else best)
        if rng.random() < 0.3:  # features that are useful together only, made monotone below
            accuracies[mask] += 0.05 * rng.random()
    accuracies = np.minimum(accuracies, 1)
    if whole:
        accuracies = np.round(accuracies * 32) / 32
    for bit in range(n):
        halves = accuracies.reshape(-1, 2, 1 << bit)
        halves[:, 1] = np.maximum(halves[:, 1], halves[:, 0])
    accuracies = np.maximum(accuracies - violation * rng.integers(0, 5, 1 << n) / 4, 0)
    if whole:
        coefficients = rng.integers(0, 4, (n, degree + 1)).astype(float)
    else:
        coefficients = rng.random((n, degree + 1)) * 10.0 ** -np.arange(degree + 1) * 10
        coefficients *= rng.random(coefficients.shape) < 0.7
    return Instance(accuracies.tolist(), coefficients.tolist())


def table_of(
    values: Floats, labels: Sequence[int], costs: Sequence[object], *, sizes: Floats | None = None, unit: str = "ms"
) -> FeatureTable:
    """Make a table of features f0, f1, … of one column each, with these costs as a spec writes them."""
    names = [f"f{i}" for i in range(values.shape[1])]
    columns = {f"c{i}": values[:, i] for i in range(values.shape[1])} | {"y": np.array(labels)}
    spec: dict[str, object] = {"kind": "features", "label": "y", "unit": unit}
    if sizes is not None:
        columns |= {f"s{i}": sizes[:, i] for i in range(sizes.shape[1])}
        spec["size"] = [f"s{i}" for i in range(sizes.shape[1])]
    spec["features"] = [
        {"name": name, "columns": [f"c{i}"], "cost": cost}
        for i, (name, cost) in enumerate(zip(names, costs, strict=True))
    ]
    return FeatureTable.from_columns(FeaturesSpec.model_validate(spec), columns)


def small_table(rows: int = 120, features: int = 4, classes: int = 3, seed: int = 0) -> FeatureTable:
    """Make a table in which each feature tells a little, with costs of all kinds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    values = labels[:, None] * rng.uniform(0.2, 1.0, features) + rng.normal(size=(rows, features))
    kinds: list[object] = [
        1.0,
        {"polynomial": [0.5, 0.25]},
        {"timings": [[1, 0.2], [2, 0.7], [4, 2.9], [8, 11.0]], "degree": 2},
        {"polynomial": [0.0, 0.5]},
        {"polynomial": [3.0]},
    ]
    return table_of(values, labels.tolist(), [kinds[i % 5] for i in range(features)])
