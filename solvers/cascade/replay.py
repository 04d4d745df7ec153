"""Replay of a cascade on the rows of a trace, with the answers and costs of each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from models import Trace
from models.arrays import Bools, Floats, Int64s
from solvers.shared_setup import NO_SETUP, SharedSetup, share_setup_of_rows


@dataclass(frozen=True, slots=True, eq=False)
class ReplayRows:
    """Answers and costs of n classifiers on N rows of a trace.

    Attributes:
        answers: (N, n), whether each classifier returns an answer instead of IDK.
        quality: (N, n), quality of each answer, in [0, 1].
        costs: (N, n), of each classifier alone, with its set-up groups.
        setup: set-up groups of the classifiers.
    """

    answers: Bools
    quality: Floats
    costs: Floats
    setup: SharedSetup = NO_SETUP

    @classmethod
    def from_trace(cls, dataset: Trace, rows: Int64s, columns: Sequence[int], thresholds: ArrayLike) -> "ReplayRows":
        """Take rows and n columns of a trace; thresholds: (n,), NaN to accept every answer."""
        where = np.ix_(rows, np.array(columns))
        accepted = np.nan_to_num(dataset.confidences[where]) >= np.where(np.isnan(thresholds), -np.inf, thresholds)
        setup = share_setup_of_rows(dataset, np.array(columns)).take_rows(rows)
        return cls(accepted, dataset.quality[where], dataset.costs[where], setup)


def replay_cascade(rows: ReplayRows, cascade: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    """Replay every row; the last classifier's answer is always accepted.

    Args:
        cascade: columns of ``rows`` in calling order.
    Returns:
        ``mean_duration``, ``maximum_duration``, ``accuracy``, and ``answered``: the share of rows that each classifier
        answers.
    Complexity: O(N) per classifier.
    """
    duration, right, answered = simulate_rows(rows, cascade)
    return {
        "mean_duration": float(duration.mean()),
        "maximum_duration": float(duration.max()),
        "accuracy": float(right.mean()),
        "answered": {names[k]: share for k, share in zip(cascade, answered, strict=True)},
    }


def simulate_rows(rows: ReplayRows, cascade: Sequence[int]) -> tuple[Floats, Floats, list[float]]:
    """Return durations, (N,), answer quality, (N,), and the share of rows that each classifier answers."""
    n = len(rows.quality)
    duration, right = np.zeros(n), np.zeros(n)
    waiting, answered = np.arange(n), []
    for at, k in enumerate(cascade):
        duration[waiting] += rows.costs[waiting, k]
        duration[waiting] -= rows.setup.take_rows(waiting).compute_saved_costs(k, cascade[:at])
        done = rows.answers[waiting, k] | (k == cascade[-1])
        right[waiting[done]] = rows.quality[waiting[done], k]
        answered.append(int(done.sum()) / n)
        waiting = waiting[~done]
    return duration, right, answered
