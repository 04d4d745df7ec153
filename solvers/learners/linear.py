"""Linear models as arrays of numbers: serialization, and predictions equal to scikit-learn's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats
from solvers.statistics import softmax

_LINKS = {
    "LogisticRegression": "softmax",
    "RidgeClassifier": "none",
    "LinearSVC": "none",
    "Perceptron": "none",
    "SGDClassifier": "none",
}
_OVR = {"liblinear": "ovr"}
"""Solvers that train one class against the rest."""


def get_model_kind(classifier: Any) -> str:
    """Return the storage format: "softmax" (linear), "none" (linear without probabilities), or "skops" (archive).

    >>> from sklearn.linear_model import LogisticRegression
    >>> get_model_kind(LogisticRegression())
    'softmax'
    """
    last = classifier.steps[-1][1] if hasattr(classifier, "steps") else classifier
    kind = type(last)
    if not kind.__module__.startswith("sklearn.linear_model.") and not kind.__module__.startswith("sklearn.svm."):
        return "skops"
    if kind.__name__ == "SGDClassifier" and last.loss in ("log_loss", "modified_huber"):
        return "skops"  # probabilities other than softmax
    if kind.__name__ == "LogisticRegression" and "ovr" in (getattr(last, "multi_class", None), _OVR.get(last.solver)):
        return "skops"
    return _LINKS.get(kind.__name__, "skops")


def pack_linear(classifier: Any) -> Floats:
    """Return a trained linear model, alone or after a scaler, as numbers.

    Concatenates mean (d,), scale (d,), coefficients (k · d,), and intercepts (k,), for d columns and k outputs.
    """
    last, scaler = classifier, None
    if hasattr(classifier, "steps"):
        scaler, last = classifier.steps[0][1], classifier.steps[-1][1]
    coefficients = np.atleast_2d(last.coef_)
    d = coefficients.shape[1]
    mean, scale = (np.zeros(d), np.ones(d)) if scaler is None else (scaler.mean_, scaler.scale_)
    intercepts = np.broadcast_to(last.intercept_, coefficients.shape[:1])
    return np.concatenate((mean, scale, coefficients.reshape(-1), intercepts))


def count_linear_numbers(columns: int, classes: int) -> int:
    """Return the length of ``pack_linear`` for a model."""
    rows = 1 if classes == 2 else classes
    return 2 * columns + rows * columns + rows


def predict_linear(numbers: Floats, table: Floats, link: str) -> tuple[NDArray[np.intp], Floats | None]:
    """Predict class codes, (n,), and, if ``link`` is "softmax", probabilities, (n, classes).

    Args:
        numbers: from ``pack_linear``.
        table: (n, d).
    """
    d = table.shape[1]
    mean, scale, rest = numbers[:d], numbers[d : 2 * d], numbers[2 * d :]
    rows = len(rest) // (d + 1)
    coefficients, intercepts = rest[: rows * d].reshape(rows, d), rest[rows * d :]
    scores = (table - mean) / scale @ coefficients.T + intercepts
    if rows == 1:
        codes = (scores[:, 0] > 0).astype(np.intp)
        scores = np.concatenate((np.zeros_like(scores), scores), axis=1)
    else:
        codes = np.argmax(scores, axis=1)
    if link == "none":
        return codes, None
    return codes, softmax(scores)
