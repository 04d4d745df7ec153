"""Guaranteed recall and false positive rate: raise losses and fit again until reserved rows prove the bound.

A third of the rows is reserved. The plan is fitted to the other rows, and its default decisions are tested on the
reserved rows. If a guarantee is not proven, the losses of the errors that it bounds are raised, and the plan is fitted
again. The confidence bounds are exact (Clopper and Pearson). Their error probability is divided by the number of
possible fits (Bonferroni). So the probability that a build succeeds with a violated guarantee is at most 1 -
confidence.

Source: Angelopoulos, Bates, Candès, Jordan, Lei, *Learn then Test: Calibrating Predictive Algorithms to Achieve Risk
Control*, 2021.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any

import numpy as np
from scipy.special import betaincinv

from models import Dataset, DatasetFacts, Fault, FeatureTable, InvalidRequest
from models.arrays import Bools
from models.errors import Infeasible
from models.guarantees import GuaranteeReport, Guarantees, KeptGuarantee
from models.losses import Losses
from solvers.base import BuildContext, FitResult, Plan, make_generator
from solvers.evaluation import EvaluationOutcomes, items_from_dataset
from solvers.item_splits import effective_rows, split_rows
from solvers.kind import AnyKind

FACTORS = (1.0, 1.5, 2.5, 4.0, 7.0, 12.0, 30.0, 100.0, 300.0)
"""Factors of losses to try, in this order."""
_TESTED_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class _Guarantee:
    """One guarantee: of the items of ``among``, at least ``share`` get a right answer.

    Attributes:
        limit: name of the bound in requests.
        label: class name.
        code: index of the class.
        value: the requested bound.
    """

    limit: Any
    label: str
    code: int
    value: float

    @property
    def share(self) -> float:
        return self.value if self.limit == "min_recall" else 1 - self.value

    def select_rows(self, labels: Any) -> Bools:
        """Return which rows it concerns: those of the class, or of other classes."""
        return np.asarray((labels == self.code) == (self.limit == "min_recall"))

    def has_kept(self, outcomes: EvaluationOutcomes) -> Bools:
        """Return which items got an answer that keeps it; items sent to a person do."""
        is_class = np.array([label == self.label for label in outcomes.labels])
        rejected = np.zeros(len(is_class), dtype=np.bool_) if outcomes.accepted is None else ~outcomes.accepted
        return np.asarray(rejected | (is_class == (self.limit == "min_recall")))

    def list_errors(self, truths: int, answers: int) -> tuple[Any, Any]:
        """Return the cells of the loss matrix that it bounds, as rows and columns."""
        others = [each for each in range(answers) if each != self.code]
        if self.limit == "min_recall":
            return [self.code] * len(others), others
        rows = [each for each in range(truths) if each != self.code]
        return rows, [self.code] * len(rows)


def check_guarantees(kind: AnyKind, facts: DatasetFacts, options: Any, guarantees: Guarantees) -> None:
    """Raise InvalidRequest for guarantees that a kind or a dataset does not support."""
    truths = facts.classes
    if facts.spec.label is None or not getattr(facts.spec, "has_classes", True):
        raise InvalidRequest.from_faults(
            Fault(("guarantees",), "require label, and prediction of every classifier of a trace")
        )
    for limit in ("min_recall", "max_false_positive_rate"):
        for name in getattr(guarantees, limit):
            if name not in truths:
                fault = f"must be a class of the label: {', '.join(truths[:20])}"
                raise InvalidRequest.from_faults(Fault(("guarantees", limit, name), fault))
    losses = {truth: {answer: 2.0 for answer in truths if answer != truth} for truth in truths}
    spec_with_losses = facts.spec.model_copy(update={"losses": losses})
    kind.check(facts.model_copy(update={"spec": spec_with_losses}), options)


def fit_with_guarantees(
    kind: AnyKind, dataset: Dataset, options: Any, guarantees: Guarantees, seed: int, run: BuildContext
) -> tuple[FitResult[Plan], Dataset]:
    """Fit a plan whose default decisions keep all guarantees; also return its training rows, with the raised losses.

    ``guarantees`` of the summary has the measured values.

    Raises:
        InvalidRequest: too few rows to prove a guarantee, even without any error.
        Infeasible: no factor of the losses proves all guarantees.
    Complexity: up to (number of guarantees) x 9 fits.
    """
    wanted = _list_guarantees(dataset, guarantees)
    learned, tested = split_rows(dataset.item_codes, [round(dataset.rows * (1 - _TESTED_SHARE))], make_generator(seed))
    rows, held = dataset.take(learned), dataset.take(tested)
    error = (1 - guarantees.confidence) / len(FACTORS) ** len(wanted)
    _refuse_few_rows(wanted, held, error)
    raised = [0] * len(wanted)
    while True:
        factors = [FACTORS[place] for place in raised]
        effective = replace_losses(rows, _raise_losses(rows, wanted, factors))
        fitted = kind.fit(effective, options, make_generator(seed), run)
        kept = tuple(_test(kind, fitted, held, wanted, factors, error))
        failed = [at for at, each in enumerate(kept) if not _is_proven(each)]
        if not failed:
            report = GuaranteeReport(request=guarantees, kept=kept).model_dump(mode="json")
            return replace(fitted, summary={**fitted.summary, "guarantees": report}), effective
        if any(raised[at] == len(FACTORS) - 1 for at in failed):
            raise Infeasible(_explain_failure(kept, failed))
        for at in failed:
            raised[at] += 1


def replace_losses(dataset: Dataset, losses: Losses) -> Dataset:
    """Return the dataset with another loss matrix, and answers that are graded by it."""
    if isinstance(dataset, FeatureTable):
        return replace(dataset, loss_matrix=losses.matrix)
    columns = [losses.measure(dataset.labels, answers) for answers in dataset.predictions.T]
    return replace(dataset, loss_matrix=losses.matrix, loss_scale=losses.scale, quality=1.0 - np.column_stack(columns))


def clopper_pearson_lower(kept: float, rows: float, error: float) -> float:
    """Return the lower bound of a share at a one-sided error, by Clopper and Pearson.

    Args:
        kept: successes, which may be a fraction.
        rows: trials.

    >>> round(clopper_pearson_lower(93, 93, 0.05 / 6), 4), clopper_pearson_lower(0, 9, 0.05)
    (0.9498, 0.0)
    """
    return 0.0 if kept <= 0 else float(betaincinv(kept, rows - kept + 1, error))


def _list_guarantees(dataset: Dataset, guarantees: Guarantees) -> list[_Guarantee]:
    return [
        _Guarantee(limit, label, dataset.classes.index(label), value)
        for limit in ("min_recall", "max_false_positive_rate")
        for label, value in getattr(guarantees, limit).items()
    ]


def _refuse_few_rows(wanted: Sequence[_Guarantee], held: Dataset, error: float) -> None:
    for one in wanted:
        own = one.select_rows(held.labels)
        there = effective_rows(held.item_codes[own]) if own.any() else 0
        needed = ceil(log(error) / log(one.share))
        if there < needed:
            which = f"of class {one.label!r}" if one.limit == "min_recall" else f"of classes other than {one.label!r}"
            message = (
                f"requires {needed} rows {which} among the third of the rows set aside, got {there}; add rows, or "
                "lower the bound or the confidence"
            )
            raise InvalidRequest.from_faults(Fault(("guarantees", one.limit, one.label), message))


def _raise_losses(dataset: Dataset, wanted: Sequence[_Guarantee], factors: Sequence[float]) -> Losses:
    answers = len(dataset.classes)
    truths = answers if isinstance(dataset, FeatureTable) else int(dataset.labels.max()) + 1
    known = dataset.losses
    matrix = 1.0 - np.eye(truths, answers) if known is None else known.matrix.copy()
    for one, factor in zip(wanted, factors, strict=True):
        matrix[one.list_errors(truths, answers)] *= factor
    return Losses(matrix, float(matrix.max()), rejects=known is not None and known.rejects)


def _test(
    kind: AnyKind,
    fitted: FitResult[Plan],
    held: Dataset,
    wanted: Sequence[_Guarantee],
    factors: Sequence[float],
    error: float,
) -> Iterator[KeptGuarantee]:
    limits = {} if fitted.savings is None else fitted.savings.query
    query = kind.evaluation.model_validate({**limits, "items": [{}]})
    found = kind.evaluate(fitted.plan, query, items_from_dataset(held))
    for one, factor in zip(wanted, factors, strict=True):
        own = one.select_rows(held.labels)
        share, rows = float(one.has_kept(found)[own].mean()), effective_rows(held.item_codes[own])
        bound = clopper_pearson_lower(share * rows, rows, error)
        shown = (share, bound) if one.limit == "min_recall" else (1 - share, 1 - bound)
        yield KeptGuarantee(
            limit=one.limit,
            label=one.label,
            value=one.value,
            measured=shown[0],
            bound=shown[1],
            rows=rows,
            factor=factor,
        )


def _is_proven(kept: KeptGuarantee) -> bool:
    return kept.bound >= kept.value if kept.limit == "min_recall" else kept.bound <= kept.value


def _explain_failure(kept: Sequence[KeptGuarantee], failed: Sequence[int]) -> str:
    one = kept[failed[0]]
    side = "at least" if one.limit == "min_recall" else "at most"
    return (
        f"{one.limit} of class {one.label!r} must be {side} {one.value:g}; with losses raised {one.factor:g} times it "
        f"is {one.measured:.4g} on {one.rows} rows, which proves {side} {one.bound:.4g}; lower the bound, add rows, or "
        "set reject_cost"
    )
