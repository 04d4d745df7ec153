"""Logs of a world's items: of a complete trace, the calls that a log has."""

from dataclasses import replace

import numpy as np

from models import Dataset, Trace
from models.arrays import Bools, Floats
from models.trace_columns import NO_ANSWER


def log_calls(dataset: Dataset, called: Bools, propensities: Floats) -> Trace:
    """Return a complete trace with some of its calls, (n, m), and their propensities, (n, m)."""
    assert isinstance(dataset, Trace)
    return replace(
        dataset,
        predictions=np.where(called, dataset.predictions, NO_ANSWER).astype(np.int32),
        quality=np.where(called, dataset.quality, np.nan),
        confidences=np.where(called, dataset.confidences, np.nan),
        costs=np.where(called, dataset.costs, np.nan),
        called=called,
        propensities=np.where(called, propensities, np.nan),
    )


def log_one_call(dataset: Dataset, seed: int = 0) -> Trace:
    """Return a trace in which one classifier was called per row, at random."""
    rng = np.random.default_rng(seed)
    names = 3
    chosen = rng.integers(names, size=dataset.rows)
    return log_calls(dataset, np.arange(names) == chosen[:, None], np.full((dataset.rows, names), 1 / names))


def log_first_call(dataset: Dataset, explored: float = 0.3, seed: int = 0) -> Trace:
    """Return a trace in which the first classifier was called, and with a propensity all others, too."""
    rng = np.random.default_rng(seed)
    called = np.ones((dataset.rows, 3), dtype=np.bool_)
    called[:, 1:] = (rng.random(dataset.rows) < explored)[:, None]
    trace = log_calls(dataset, called, np.tile([1.0, explored, explored], (dataset.rows, 1)))
    return replace(trace, spec=trace.spec.model_copy(update={"joint_propensity": "smallest"}))
