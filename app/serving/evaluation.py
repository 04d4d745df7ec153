"""Evaluation of complete items with an artifact, in batches."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import with_default_limits
from models import InvalidRequest, Value
from models.arrays import Floats
from models.evaluation import EvaluatedItem, EvaluationSummary, ReliabilityBin
from models.losses import LossPrices
from models.savings import Interval
from solvers.base import ModelRunner, Plan
from solvers.evaluation import CompleteItems, EvaluationOutcomes
from solvers.statistics import normal_interval, wilson_interval

ROWS = 2000
"""Items that are evaluated at a time."""
BINS = 10
"""Bins of the reliability table."""


def evaluate_in_batches(
    loaded: LoadedArtifact[Plan], limits: Value, items: CompleteItems, models: ModelRunner
) -> Iterator[list[EvaluatedItem]]:
    """Yield the outcomes of items, ``ROWS`` at a time.

    Raises Infeasible or InvalidRequest.
    """
    limits = with_default_limits(loaded, limits)
    for some in items.iterate_slices(ROWS):
        try:
            found = loaded.kind.evaluate(loaded.plan, limits, some, models)
            results = _listed(some, found, loaded.record.losses)
        except InvalidRequest as error:
            raise some.shift_fault(error) from error
        yield results


def _listed(items: CompleteItems, outcomes: EvaluationOutcomes, losses: LossPrices | None) -> list[EvaluatedItem]:
    if losses is not None and losses.matrix:
        _check_truths(items, losses)
    correct, measured = outcomes.grade_answers(items).tolist(), outcomes.read_losses(items).tolist()
    shares = None if outcomes.probabilities is None else outcomes.probabilities.tolist()
    return [
        EvaluatedItem.model_construct(
            id=item,
            label=outcomes.labels[at],
            confidence=_or_none(float(outcomes.confidences[at])),
            probabilities=None if shares is None else dict(zip(outcomes.classes, shares[at], strict=True)),
            classifier=outcomes.classifiers[at] if outcomes.classifiers else None,
            accepted=outcomes.accepted is None or bool(outcomes.accepted[at]),
            cost=float(outcomes.costs[at]),
            path=outcomes.paths[at],
            correct=_or_none(correct[at]),
            loss=_or_none(measured[at])
            if losses is None or not np.isnan(measured[at])
            else _loss(losses, items, outcomes, at, _or_none(correct[at])),
            weight=items.weights[at],
        )
        for at, item in enumerate(items.ids)
    ]


def _check_truths(items: CompleteItems, losses: LossPrices) -> None:
    """Raise InvalidRequest for the first true class without a row in the loss matrix."""
    for at, truth in enumerate(items.truths):
        if truth is not None and truth not in losses.matrix:
            raise items.make_fault(at, "truth", message=f"must be a class: {', '.join(losses.matrix)}; got {truth!r}")


def _loss(
    losses: LossPrices, items: CompleteItems, outcomes: EvaluationOutcomes, at: int, quality: float | None
) -> float | None:
    """Return the loss of an item: from the matrix, else the reject's price or the measured quality.

    Without a matrix, a reject has a loss if the item has an outcome. So the mean loss is that of items whose outcomes
    are known, whether they are rejected or not.
    """
    if losses.matrix:
        return losses.find_loss(items.truths[at], outcomes.labels[at])
    if outcomes.accepted is None or outcomes.accepted[at]:
        return None if quality is None else losses.largest * (1 - quality)
    return losses.reject_loss if _has_outcome(items, at) else None


def _has_outcome(items: CompleteItems, at: int) -> bool:
    graded = (cell for name, cell in items.values[at].items() if name.endswith((".correct", ".loss")))
    return items.truths[at] is not None or any(cell is not None for cell in graded)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


@dataclass(frozen=True, slots=True, eq=False)
class _WeightedValues:
    """Weighted values of items; items without a value are skipped."""

    values: Floats
    weights: Floats

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[float | None, float]]) -> "_WeightedValues":
        known = [(value, weight) for value, weight in pairs if value is not None]
        table = np.array(known, dtype=np.float64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1] / max(table[:, 1].sum(), np.finfo(float).tiny))

    @property
    def mean(self) -> float | None:
        """The weighted mean; None without values."""
        if not len(self.values):
            return None
        return float(np.clip(self.values @ self.weights, self.values.min(), self.values.max()))  # sums are rounded

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the mean; None for fewer than two values."""
        n = len(self.values)
        if n < 2 or self.mean is None:
            return None
        off = self.weights * (self.values - self.mean)
        return normal_interval(self.mean, float(np.sqrt(off @ off * n / (n - 1))))

    @property
    def interval_of_share(self) -> Interval | None:
        """95 % Wilson interval of a share, with Kish's effective sample size; None without values."""
        share = self.mean
        return None if share is None else wilson_interval(share, 1 / float(self.weights @ self.weights))


def _bin_by_confidence(items: Sequence[EvaluatedItem]) -> Iterator[ReliabilityBin]:
    """Yield accuracies of graded items in bins of rising confidence."""
    graded = sorted(
        ((one.confidence, one.correct) for one in items if one.confidence is not None and one.correct is not None),
        key=lambda pair: pair[0],
    )
    for own in np.array_split(np.array(graded).reshape(-1, 2), min(BINS, len(graded) or 1)):
        if len(own):
            sure, share = own.mean(axis=0).tolist()
            yield ReliabilityBin(
                items=len(own),
                confidence=sure,
                accuracy=share,
                accuracy_interval=wilson_interval(share, float(len(own))),
            )


def summarize_evaluation(items: Sequence[EvaluatedItem], ignored: tuple[str, ...]) -> EvaluationSummary:
    """Return weighted accuracy, cost, and coverage of items, with 95 % intervals."""
    correct, costs, losses, accepted = (
        _WeightedValues.from_pairs((getattr(item, name), item.weight) for item in items)
        for name in ("correct", "cost", "loss", "accepted")
    )
    coverage_interval = accepted.interval_of_share
    assert coverage_interval is not None
    return EvaluationSummary(
        items=len(items),
        coverage=accepted.mean or 0.0,
        coverage_interval=coverage_interval,
        cost=costs.mean or 0.0,
        cost_interval=costs.interval,
        accuracy=correct.mean,
        accuracy_interval=correct.interval_of_share,
        loss=losses.mean,
        loss_interval=losses.interval,
        reliability=tuple(_bin_by_confidence(items)),
        ignored=ignored,
    )
