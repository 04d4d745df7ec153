"""Datasets in which items repeat and nothing can be gained on a new item."""

from collections.abc import Callable, Sequence

import numpy as np

from models import Dataset, FeaturesSpec, TraceSpec, dataset_from_columns

ACCURACIES = np.array([0.60, 0.65, 0.70])
"""Of three classifiers on a new prompt, whatever its embedding says."""
CHANCE = 0.5
"""The accuracy of any classifier on a new machine."""


def prompts(
    count: int, times: int | Sequence[int], concentration: float | None, seed: int, *, item: bool = True
) -> Dataset:
    """Log each prompt several times, with an embedding that is noise; concentration: how alike its answers are, None if
    they are equal."""
    rng = np.random.default_rng(seed)
    embeddings = rng.random((count, 8)).astype(np.float32)
    rows = rng.permutation(np.repeat(np.arange(count), times))
    if concentration is None:
        correct = (rng.random((count, 3)) < ACCURACIES)[rows]
    else:
        chance = rng.beta(concentration * ACCURACIES, concentration * (1 - ACCURACIES), size=(count, 3))
        correct = rng.random((len(rows), 3)) < chance[rows]
    columns = {f"m{j}_correct": correct[:, j].astype(float) for j in range(3)}
    columns |= {f"m{j}_usd": np.full(len(rows), 0.01 * (j + 1)) for j in range(3)}
    names = {"item": np.array([f"prompt-{row}" for row in rows], dtype=object)} if item else {}
    spec = {
        "kind": "trace",
        "unit": "USD",
        "item": "item" if item else None,
        "classifiers": [
            {"name": f"m{j}", "correct": f"m{j}_correct", "cost": {"column": f"m{j}_usd"}} for j in range(3)
        ],
    }
    return dataset_from_columns(TraceSpec.model_validate(spec), {**columns, **names}, embeddings[rows])


def visits(count: int, times: int | Sequence[int], seed: int, *, item: bool = True) -> Dataset:
    """Measure each machine several times; whether it has a fault is a coin flip."""
    rng = np.random.default_rng(seed)
    base, labels = rng.normal(size=(count, 4)), np.where(rng.random(count) < CHANCE, "fault", "fine")
    rows = rng.permutation(np.repeat(np.arange(count), times))
    values = (base[rows] + 0.02 * rng.normal(size=(len(rows), 4))).round(3)
    columns = {name: values[:, j] for j, name in enumerate("abcd")} | {"target": labels[rows].astype(object)}
    names = {"item": np.array([f"machine-{row}" for row in rows], dtype=object)} if item else {}
    spec = {
        "kind": "features",
        "label": "target",
        "unit": "ms",
        "item": "item" if item else None,
        "features": [{"name": name, "columns": [name], "cost": 1.0} for name in "abcd"],
    }
    return dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, **names})


SETS: dict[str, Callable[[int, bool], Dataset]] = {
    "equal": lambda seed, item: prompts(120, 5, None, seed, item=item),
    "sampled": lambda seed, item: prompts(200, 4, 0.35, seed, item=item),
    "mixed": lambda seed, item: prompts(300, 3, 1.5, seed, item=item),
    "visits": lambda seed, item: visits(100, 6, seed, item=item),
}
