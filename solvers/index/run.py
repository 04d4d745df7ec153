"""Run an item of an index: compute the features that were chosen, all at the same time, and classify."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from models.errors import InvalidRequest
from solvers.index.predictions import Predictions
from solvers.running import Answer, Call, CallResult, ResultsSoFar, Runner

Predict = Callable[[Sequence[str], Mapping[str, Any]], Predictions]
"""Classifies by features, given their columns' values."""


def run(
    features: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    predict: Predict,
    *,
    left: float,
    excluded: frozenset[str] = frozenset(),
) -> Runner:
    """Run an item by the features that were chosen for it.

    columns: of each feature, in the order of its endpoint's values. Of features that cannot be had the others decide,
    if there is a model of these, else the most common class.
    """
    so_far = ResultsSoFar(
        [CallResult(name, attempts=0, error="its circuit is open") for name in features if name in excluded]
    )
    wanted = tuple(name for name in features if name not in excluded)
    if wanted:
        back = yield Call(wanted, left)
        so_far.results += back.results
    values_of = {one.name: _cells(one) for one in so_far.results if len(_cells(one)) == len(columns[one.name])}
    cells = {
        column: value for name, values in values_of.items() for column, value in zip(columns[name], values, strict=True)
    }
    acquired = [name for name in features if name in values_of]
    predictions, had = _predicted(predict, acquired, columns, cells, len(features))
    lacking = None if len(had) == len(features) else "a feature told other columns than its table has, or not its cells"
    reason = so_far.failures or lacking
    shares = None if predictions.probabilities is None else dict(predictions.probabilities[0])
    label = predictions.labels[0]
    return Answer(label, None if shares is None else shares[label], None, shares, reason)


def _predicted(
    predict: Predict, features: Sequence[str], columns: Mapping[str, Sequence[str]], cells: Mapping[str, Any], most: int
) -> tuple[Predictions, Sequence[str]]:
    """Classify by features, without those that told what their columns cannot hold; or by none where there is no model
    of those left. Tells by which. Raises InvalidRequest where all of them, most, are there and there is no model."""
    try:
        return predict(features, cells), features
    except InvalidRequest as error:
        wrong = {fault.loc[-1] for fault in error.faults if fault.loc}
        sound = [name for name in features if not wrong.intersection(columns[name])]
        if len(sound) == most:
            raise
    if len(sound) == len(features):
        return predict((), {}), ()
    return _predicted(predict, sound, columns, cells, most)


def _cells(heard: CallResult) -> tuple[float | str | None, ...]:
    """Give what a feature told: its numbers, None where a cell is missing, or a name; nothing where it failed."""
    if heard.values is not None:
        return heard.values
    return () if heard.label is None else (heard.label,)
