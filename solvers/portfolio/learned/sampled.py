"""The paper's estimator as a kind of regression: the mean success over samples of labelled items (OCCAM, Section 4.1).

With K = 40 samples of s = 500 items and the largest difference of coordinates as distance, as in the paper's study.
"""

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.neighbours.samples import draw
from solvers.portfolio.success_estimator import Estimator, Scaling

OCCAM = "occam"
COUNT, SIZE = 40, 500
MAX_NUMBERS = 100_000_000
"""Coordinates of all samples together; embeddings that are too long for so many have fewer samples."""


def fit_sampled(vectors: Singles, success: Floats, rng: np.random.Generator) -> Estimator:
    """Draw samples of labelled items. vectors: (n, d) as they come; success: (n, m); of few rows samples have half."""
    n, d = vectors.shape
    size = min(SIZE, max(n // 2, 1))
    samples = draw(rng, n, int(np.clip(MAX_NUMBERS // (size * d), 1, COUNT)), size)
    used, places = np.unique(samples, return_inverse=True)
    scaling = Scaling.of(vectors)
    items = scaling.apply(vectors[used])
    return Estimator.of(
        scaling, items, success[used].astype(np.float32), places.reshape(samples.shape).astype(np.int32), "linf"
    )
