"""Reads and checks the columns of traces: outcomes, confidences, costs, scores."""

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int32s, Singles
from models.base import LARGEST
from models.columns import (
    MAX_COORDINATE_VALUE,
    Columns,
    read_numbers,
    read_texts,
    read_truths,
)
from models.confidence_scale import BOUNDS, ConfidenceScale, detect_scale, is_outside_scale, to_probability
from models.cost import Cost, Polynomial, Terms
from models.errors import Fault
from models.losses import OTHER_ERROR, Losses
from models.trace_spec import CostColumn, TraceClassifier, TraceCost, TraceSpec, get_cost_function

NO_ANSWER = -1
"""In predictions: an answer without a label, whose quality alone is known."""


def read_outcome(columns: Columns, classifier: TraceClassifier, faults: list[Fault]) -> NDArray[Any]:
    """Read the outcomes of a classifier, (n,): answers as text, or qualities as numbers."""
    if classifier.prediction is not None:
        return read_texts(columns, classifier.prediction, faults)
    if classifier.correct is not None:
        return read_truths(columns, classifier.correct, faults)
    if classifier.loss is not None:
        return read_numbers(columns, classifier.loss, faults, at_least=0.0, at_most=LARGEST)
    return read_numbers(columns, str(classifier.quality), faults, at_least=0.0, at_most=1.0)


def find_largest_loss(spec: TraceSpec, stated: list[NDArray[Any]], faults: list[Fault]) -> float:
    """Return the largest loss of a trace without a loss matrix; 0 if errors are equal.

    The loss is in the unit of costs.
    """
    if not spec.has_losses:
        return 0.0
    largest = OTHER_ERROR
    if spec.classifiers[0].loss is not None:
        largest = max(float(column.max(initial=0.0)) for column in stated)
        if not largest:
            faults.append(Fault(("table", spec.classifiers[0].loss), "must have a loss above 0; all are 0"))
    price = spec.reject_cost if isinstance(spec.reject_cost, int | float) else 0.0
    return max(largest, price) * (spec.loss_weight or 1.0)


def grade_answers(
    classifier: TraceClassifier,
    stated: NDArray[Any],
    predictions: Int32s,
    labels: Int32s,
    losses: Losses | None,
    weight: float,
) -> Floats:
    """Return the quality of a classifier's answers, (n,): 1 minus loss / largest loss.

    Args:
        weight: share of the largest loss per unit of a measured loss; without a loss matrix, per error.
    """
    if classifier.loss is not None:
        return np.asarray(1.0 - stated * weight)
    if losses is not None:
        return 1.0 - losses.measure(labels, predictions)
    right = stated if classifier.prediction is None else np.equal(predictions, labels).astype(np.float64)
    return np.asarray(right if weight == 1.0 else 1.0 - (1.0 - right) * weight)


def code_answers(
    classes: tuple[str, ...], spec: TraceSpec, stated: list[NDArray[Any]], faults: list[Fault]
) -> tuple[tuple[str, ...], Int32s]:
    """Return codes of the answers.

    Classes that are true for some item come first, then the others in alphabetical order.
    """
    answers = [(j, name, stated[j]) for j, c in enumerate(spec.classifiers) if (name := c.prediction) is not None]
    strangers = sorted({str(answer) for _, _, column in answers for answer in np.unique(column)} - set(classes))
    every = (*classes, *strangers)
    code = {name: index for index, name in enumerate(every)}
    predictions = np.full((len(stated[0]), len(stated)), NO_ANSWER, dtype=np.int32)
    for j, name, column in answers:
        distinct, inverse = np.unique(column, return_inverse=True)
        predictions[:, j] = np.array([code[str(answer)] for answer in distinct], dtype=np.int32)[inverse]
        if not set(map(str, distinct)) & set(classes):
            known = f"row 1 has {str(column[0])!r}, classes are {list(classes[:5])}"
            faults.append(Fault(("table", name), f"must have a class of {spec.label!r}: {known}"))
    return every, predictions


def read_confidence(columns: Columns, classifier: TraceClassifier, faults: list[Fault]) -> Floats | float:
    """Read the confidences of a classifier, (n,), as probabilities; NaN without any."""
    if classifier.confidence is None:
        return np.nan
    confidences, scale = (
        read_numbers(columns, classifier.confidence, faults),
        classifier.confidence_scale or "probability",
    )
    beyond = is_outside_scale(confidences, scale)
    if beyond.any():
        row, (low, high) = int(beyond.argmax()), BOUNDS[scale]
        bound = "at most 0" if scale == "logprob" else f"from {round(low):g} to {round(high):g}"
        set_it = f"set confidence_scale of {classifier.name!r} to its scale: {', '.join(get_args(ConfidenceScale))}"
        message = f"must be {bound} as {scale}, got {confidences[row]:g} in row {row + 1}; {set_it}"
        faults.append(Fault(("table", classifier.confidence), message, row))
    return to_probability(confidences, scale)


def fill_confidence_scales(spec: TraceSpec, columns: Columns) -> TraceSpec:
    """Return the spec with the scale of confidences that are evidently logprobs.

    Logprobs are log-probabilities.
    """
    classifiers = tuple(
        each.model_copy(update={"confidence_scale": "logprob"})
        if each.confidence_scale is None and detect_scale(_finite(columns, each.confidence)) == "logprob"
        else each
        for each in spec.classifiers
    )
    return spec if classifiers == spec.classifiers else spec.model_copy(update={"classifiers": classifiers})


def _finite(columns: Columns, name: str | None) -> Floats:
    """Return the finite numbers of a numeric column; an empty array for other columns."""
    column = columns.get(name) if name is not None else None
    if column is None or column.dtype.kind not in "iuf":
        return np.empty(0)
    values = column.astype(np.float64)
    return np.asarray(values[np.isfinite(values)])


def read_margins(
    columns: Columns, spec: TraceSpec, classes: tuple[str, ...], labels: Int32s, faults: list[Fault]
) -> Singles:
    """Return each classifier's scores minus the score of the true class, (n, m, c).

    They are NaN without scores.
    """
    most = max((len(classifier.scores or ()) for classifier in spec.classifiers), default=0)
    margins = np.full((len(labels), len(spec.classifiers), most), np.nan, dtype=np.float32)
    for j, classifier in enumerate(spec.classifiers):
        if classifier.scores is None:
            continue
        missing = [name for name in classes if name not in classifier.scores]
        if missing:
            where = ("spec", "classifiers", j, "scores")
            faults.append(Fault(where, f"must have scores for class {missing[0]!r} of {spec.label!r}"))
            continue
        names = list(classifier.scores)
        by_classifier = [
            read_numbers(columns, column, faults, at_least=-MAX_COORDINATE_VALUE, at_most=MAX_COORDINATE_VALUE)
            for column in classifier.scores.values()
        ]
        if all(map(len, by_classifier)):
            scores = np.stack(by_classifier, axis=1)
            true = scores[np.arange(len(labels)), np.array([names.index(name) for name in classes])[labels]]
            margins[:, j] = -np.inf
            margins[:, j, : len(names)] = scores - true[:, None]
    margins.flags.writeable = False
    return margins


def read_cost(columns: Columns, cost: TraceCost, faults: list[Fault]) -> Floats | float | None:
    """Return a cost that is a number or measured; None for a function of the size."""
    match cost:
        case CostColumn(column=column):
            return read_numbers(columns, column, faults, at_least=0.0, at_most=LARGEST)
        case Polynomial() | Terms():
            return None
        case amount:
            return amount


def evaluate_cost(sizes: Floats, name: str, cost: TraceCost | Cost, faults: list[Fault]) -> Floats:
    """Return the costs of a classifier, or of a set-up group, (n,), as a function of the sizes, (n, k)."""
    costs = get_cost_function(cost)(sizes)
    beyond = np.flatnonzero(~(costs <= LARGEST))
    if len(beyond):
        row = int(beyond[0])
        message = f"the cost of {name!r} must be at most {LARGEST:g}, but exceeds it in row {row + 1}"
        faults.append(Fault(("spec", "classifiers"), message, row))
    return costs
