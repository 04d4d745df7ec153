"""Evaluation: complete items through an artifact, some at a time, and what became of them."""

from collections.abc import Iterator, Sequence

import numpy as np

from app.serving.answers import with_default_limits
from app.serving.catalog import LoadedArtifact
from models import InvalidRequest, Value
from models.evaluation import EvaluatedItem, EvaluationSummary
from solvers.base import ModelRunner, Plan
from solvers.evaluation import CompleteItems, Evaluated
from solvers.statistics import normal_interval, wilson_interval

ROWS = 2000
"""Items that are evaluated at a time."""


def evaluate_in_batches(
    loaded: LoadedArtifact[Plan], limits: Value, items: CompleteItems, models: ModelRunner
) -> Iterator[list[EvaluatedItem]]:
    """Yield what becomes of items, ``ROWS`` at a time. Raises Infeasible or InvalidRequest."""
    limits = with_default_limits(loaded, limits)
    for some in items.iterate_slices(ROWS):
        try:
            results = _listed(some, loaded.kind.evaluate(loaded.plan, limits, some, models))
        except InvalidRequest as error:
            raise some.shift_fault(error) from error
        yield results


def _listed(items: CompleteItems, found: Evaluated) -> list[EvaluatedItem]:
    correct = found.grade_answers(items).tolist()
    shares = None if found.probabilities is None else found.probabilities.tolist()
    return [
        EvaluatedItem.model_construct(
            id=item,
            label=found.labels[at],
            confidence=_or_none(float(found.confidences[at])),
            probabilities=None if shares is None else dict(zip(found.classes, shares[at], strict=True)),
            classifier=found.classifiers[at] if found.classifiers else None,
            accepted=found.accepted is None or bool(found.accepted[at]),
            cost=float(found.costs[at]),
            path=found.paths[at],
            correct=_or_none(correct[at]),
        )
        for at, item in enumerate(items.ids)
    ]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


def summary_of(items: Sequence[EvaluatedItem], ignored: tuple[str, ...]) -> EvaluationSummary:
    """Return accuracy, cost, and coverage of items, with 95 % intervals."""
    costs = np.array([item.cost for item in items])
    correct = [item.correct for item in items if item.correct is not None]
    coverage = sum(item.accepted for item in items) / len(items)
    n, accuracy = len(items), float(np.mean(correct)) if correct else None
    cost, error = float(costs.mean()), float(costs.std(ddof=1) / np.sqrt(n)) if n > 1 else None
    return EvaluationSummary(
        items=n,
        coverage=coverage,
        coverage_interval=wilson_interval(coverage, n),
        cost=cost,
        cost_interval=None if error is None else normal_interval(cost, error),
        accuracy=accuracy,
        accuracy_interval=None if accuracy is None else wilson_interval(accuracy, len(correct)),
        ignored=ignored,
    )
