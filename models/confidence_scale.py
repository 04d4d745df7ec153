"""Scales of confidences; they are stored as probabilities."""

from typing import Any, Literal

import numpy as np

from models.arrays import Bools, Floats

ConfidenceScale = Literal["probability", "logprob", "percent", "logit"]
ROUNDING = 1e-3
"""How far a probability may lie beyond 0 or 1 by rounding."""
MAX_LOGIT = 700.0
"""Logits beyond this are probabilities of 0 or 1 in double precision."""
BOUNDS: dict[ConfidenceScale, tuple[float, float]] = {
    "probability": (-ROUNDING, 1 + ROUNDING),
    "logprob": (-np.inf, ROUNDING),
    "percent": (-100 * ROUNDING, 100 + 100 * ROUNDING),
    "logit": (-np.inf, np.inf),
}
"""The least and the largest value of each scale."""


def detect_scale(values: Any) -> ConfidenceScale | None:
    """Return the likely scale of finite values; None if the scale is ambiguous.

    It is ``logprob`` if all values are at most 0 and some are negative. It is ``probability`` if all values are from 0
    to 1.

    >>> detect_scale([0.2, 1.0]), detect_scale([-0.7, -0.0001]), detect_scale([20.0, 97.5])
    ('probability', 'logprob', None)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) and numbers.min() < 0 and numbers.max() <= 0:
        return "logprob"
    return None if is_outside_scale(numbers, "probability").any() else "probability"


def is_outside_scale(values: Any, scale: ConfidenceScale) -> Bools:
    """Return which values, (n,), are outside the range of a scale."""
    low, high = BOUNDS[scale]
    numbers = np.asarray(values, dtype=np.float64)
    return np.asarray((numbers < low) | (numbers > high))


def to_probability(values: Any, scale: ConfidenceScale) -> Floats:
    """Convert confidences to probabilities; values are clipped to their scale's range.

    >>> to_probability([-0.5], "logprob").round(4).tolist(), to_probability([97.0, 0.0], "percent").tolist()
    ([0.6065], [0.97, 0.0])
    >>> to_probability([0.0], "logit").tolist()
    [0.5]
    """
    numbers = np.asarray(values, dtype=np.float64)
    match scale:
        case "probability":
            converted = numbers
        case "logprob":
            converted = np.exp(numbers)
        case "percent":
            converted = numbers / 100
        case "logit":
            converted = 1 / (1 + np.exp(-np.clip(numbers, -MAX_LOGIT, MAX_LOGIT)))
    return np.asarray(np.clip(converted, 0.0, 1.0))


def from_probability(probabilities: Floats, scale: ConfidenceScale) -> Floats:
    """Convert probabilities back to a scale, as finite numbers.

    >>> from_probability(to_probability([-0.5, -800.0], "logprob"), "logprob").round(4).tolist()
    [-0.5, -708.3964]
    """
    least = np.finfo(np.float64).tiny
    match scale:
        case "probability":
            return probabilities
        case "logprob":
            return np.asarray(np.log(np.maximum(probabilities, least)))
        case "percent":
            return np.asarray(100 * probabilities)
        case "logit":
            odds = np.maximum(probabilities, least) / np.maximum(1 - probabilities, least)
            return np.asarray(np.clip(np.log(odds), -MAX_LOGIT, MAX_LOGIT))
