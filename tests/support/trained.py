"""Classifiers of handwritten digits that are really trained, what they answer, and a trace of it."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

LABELS = tuple(str(digit) for digit in range(10))
COSTS = {"few-pixels": 1.0, "half": 3.0, "all": 10.0}
LEARN = 700
"""Rows that the classifiers learn from; the trace is of the next ``TRACED``, and the rest is seen by nobody."""
TRACED = 700


@dataclass(frozen=True)
class Trained:
    """The classifiers, and the images."""

    images: NDArray[np.float64]
    truth: list[str]
    models: dict[str, tuple[Any, slice]]

    def answer(self, name: str, pixels: Any) -> dict[str, float]:
        model, columns = self.models[name]
        shares = model.predict_proba(np.asarray(pixels, dtype=float)[None, columns])[0]
        return dict(zip(LABELS, shares.tolist(), strict=True))


@cache
def trained() -> Trained:
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images, truth = data.data[order], data.target[order].astype(str)
    kinds: dict[str, tuple[Any, slice]] = {
        "few-pixels": (LinearDiscriminantAnalysis(), slice(24, 40)),
        "half": (LogisticRegression(C=0.01, max_iter=1000), slice(16, 48)),
        "all": (LogisticRegression(C=0.01, max_iter=1000), slice(0, 64)),
    }
    models = {
        name: (model.fit(images[:LEARN, columns], truth[:LEARN]), columns) for name, (model, columns) in kinds.items()
    }
    return Trained(images, truth.tolist(), models)


def trace_table() -> tuple[dict[str, Any], dict[str, list[Any]], NDArray[np.float32]]:
    """Give spec, columns and embeddings of what the classifiers answer to images that they did not learn from."""
    known = trained()
    rows = range(LEARN, LEARN + TRACED)
    columns: dict[str, list[Any]] = {"truth": [known.truth[row] for row in rows]}
    for name in COSTS:
        answers = [known.answer(name, known.images[row]) for row in rows]
        best = [max(shares, key=lambda label, shares=shares: shares[label]) for shares in answers]  # type: ignore[misc]
        columns[f"{name} says"] = best
        columns[f"{name} sure"] = [round(shares[label], 6) for shares, label in zip(answers, best, strict=True)]
    classifiers = [
        {"name": name, "cost": cost, "prediction": f"{name} says", "confidence": f"{name} sure"}
        for name, cost in COSTS.items()
    ]
    spec = {"kind": "trace", "label": "truth", "unit": "ms", "classifiers": classifiers}
    return spec, columns, embedding(known.images[LEARN : LEARN + TRACED])


def embedding(images: NDArray[np.float64]) -> NDArray[np.float32]:
    squares = images.reshape(-1, 8, 8) / 16
    return np.concatenate([squares.mean(axis=1), squares.mean(axis=2)], axis=1).astype(np.float32)
