"""Run an item of an index: compute the features that were chosen, all at the same time, and classify."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from models.errors import InvalidRequest
from solvers.index.plan import Predictions
from solvers.running import Answer, Call, Heard, Runner, SoFar

Predict = Callable[[Sequence[str], Mapping[str, Any]], Predictions]
"""Classifies by features, given their columns' values."""


def run(
    features: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    predict: Predict,
    *,
    left: float,
    without: frozenset[str] = frozenset(),
) -> Runner:
    """Run an item by the features that were chosen for it.

    columns: of each feature, in the order of its endpoint's values. Of features that cannot be had the others decide,
    if there is a model of these, else the most common class.
    """
    so_far = SoFar([Heard(name, attempts=0, error="its circuit is open") for name in features if name in without])
    wanted = tuple(name for name in features if name not in without)
    if wanted:
        back = yield Call(wanted, left)
        so_far.heard += back.heard
    values_of = {one.name: _cells(one) for one in so_far.heard if len(_cells(one)) == len(columns[one.name])}
    cells = {
        column: value for name, values in values_of.items() for column, value in zip(columns[name], values, strict=True)
    }
    had = [name for name in features if name in values_of]
    reason = so_far.failures or (None if len(had) == len(features) else "a feature has other columns than its table")
    try:
        predictions = predict(had, cells)
    except InvalidRequest:
        if len(had) == len(features):
            raise
        predictions = predict((), {})
    shares = None if predictions.probabilities is None else dict(predictions.probabilities[0])
    label = predictions.labels[0]
    return Answer(label, None if shares is None else shares[label], None, shares, reason)


def _cells(heard: Heard) -> tuple[float | str, ...]:
    """Give what a feature told: its numbers, or a name; nothing where it failed."""
    if heard.values is not None:
        return heard.values
    return () if heard.label is None else (heard.label,)
