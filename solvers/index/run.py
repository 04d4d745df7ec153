"""Run an item of an index: compute the chosen features in parallel, and classify."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from models.errors import InvalidRequest
from solvers.index.predictions import Predictions
from solvers.running import Call, CallResult, ResultsSoFar, RunAnswer, Runner

Predict = Callable[[Sequence[str], Mapping[str, Any]], Predictions]
"""Classifies by features, given the values of their columns."""


def run_item(
    features: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    predict: Predict,
    *,
    remaining_seconds: float,
    excluded: frozenset[str] = frozenset(),
) -> Runner:
    """Run an item with its chosen features.

    If features fail, the model of the other features classifies; without such a model, the most common class is
    returned.

    Args:
        columns: columns of each feature, in the order of its endpoint's values.
        remaining_seconds: time until the deadline.
        excluded: features that are unavailable.
    """
    so_far = ResultsSoFar(
        [CallResult(name, attempts=0, error="circuit breaker open") for name in features if name in excluded]
    )
    wanted = tuple(name for name in features if name not in excluded)
    if wanted:
        batch = yield Call(wanted, remaining_seconds)
        so_far.results += batch.results
    values_of = {one.name: _cells(one) for one in so_far.results if len(_cells(one)) == len(columns[one.name])}
    cells = {
        column: value for name, values in values_of.items() for column, value in zip(columns[name], values, strict=True)
    }
    acquired = [name for name in features if name in values_of]
    predictions, used = _predict_available(predict, acquired, columns, cells, len(features))
    invalid = (
        None if len(used) == len(features) else "a feature returned other columns than its table has, or invalid cells"
    )
    reason = so_far.failures or invalid
    shares = None if predictions.probabilities is None else dict(predictions.probabilities[0])
    label = predictions.labels[0]
    confidence = None if shares is None or label is None else shares[label]
    return RunAnswer(label, confidence, None, shares, reason)


def _predict_available(
    predict: Predict, features: Sequence[str], columns: Mapping[str, Sequence[str]], cells: Mapping[str, Any], most: int
) -> tuple[Predictions, Sequence[str]]:
    """Classify by features without invalid cells, or by none if that set has no model; return the used features too.

    Raises InvalidRequest if none of the ``most`` features is missing and their model is.
    """
    try:
        return predict(features, cells), features
    except InvalidRequest as error:
        wrong = {fault.loc[-1] for fault in error.faults if fault.loc}
        sound = [name for name in features if not wrong.intersection(columns[name])]
        if len(sound) == most:
            raise
    if len(sound) == len(features):
        return predict((), {}), ()
    return _predict_available(predict, sound, columns, cells, most)


def _cells(result: CallResult) -> tuple[float | str | None, ...]:
    """Return a feature's values, None for missing cells, or its category; () if it failed."""
    if result.values is not None:
        return result.values
    return () if result.label is None else (result.label,)
