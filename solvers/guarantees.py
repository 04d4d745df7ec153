"""Guaranteed recall, false positive rate, accuracy, and coverage: fit with raised losses until rows prove the bounds.

A third of the rows is reserved. The plan is fitted to the other rows, and its default decisions are tested on the
reserved rows. If a bound is not proven, the losses of the errors that it bounds are raised, for a coverage the price of
rejects, and the plan is fitted again. The confidence bounds are exact (Clopper and Pearson). Their error probability is
divided by the number of possible fits (Bonferroni). So the probability that a build succeeds with a violated guarantee
is at most 1 - confidence.

Source: Angelopoulos, Bates, Candès, Jordan, Lei, *Learn then Test: Calibrating Predictive Algorithms to Achieve Risk
Control*, 2021.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, log
from typing import Any

import numpy as np
from scipy.special import betaincinv

from models import Dataset, DatasetFacts, Fault, FeatureTable, InvalidRequest
from models.errors import Infeasible
from models.guarantees import GuaranteeReport, Guarantees, KeptGuarantee
from models.losses import Losses
from solvers.base import BuildContext, FitResult, Plan, make_generator
from solvers.evaluation import items_from_dataset
from solvers.guaranteed_bounds import GuaranteedBound, list_bounds
from solvers.item_splits import effective_rows, split_rows
from solvers.kind import AnyKind

FACTORS = (1.0, 1.5, 2.5, 4.0, 7.0, 12.0, 30.0, 100.0, 300.0)
"""Factors of losses to try, in this order."""
_TESTED_SHARE = 1 / 3


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
    if guarantees.min_coverage is not None and facts.spec.reject_cost is None:
        message = "requires reject_cost in the dataset's spec: without it, all items are answered"
        raise InvalidRequest.from_faults(Fault(("guarantees", "min_coverage"), message))
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
    wanted = list_bounds(dataset.classes, guarantees)
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
        failed = [at for at, each in enumerate(kept) if not _is_proven(wanted[at], each)]
        if not failed:
            report = GuaranteeReport(request=guarantees, kept=kept).model_dump(mode="json")
            return replace(fitted, summary={**fitted.summary, "guarantees": report}), effective
        if any(raised[at] == len(FACTORS) - 1 for at in failed):
            rejects = dataset.losses is not None and dataset.losses.rejects
            raise Infeasible(_explain_failure(wanted[failed[0]], kept[failed[0]], rejects=rejects))
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


def _refuse_few_rows(wanted: Sequence[GuaranteedBound], held: Dataset, error: float) -> None:
    for one in wanted:
        own = one.select_rows(held.labels)
        there = effective_rows(held.item_codes[own]) if own.any() else 0
        needed = ceil(log(error) / log(one.share))
        if there < needed:
            place = ("guarantees", one.limit) if one.label is None else ("guarantees", one.limit, one.label)
            message = (
                f"requires {needed} rows{_name_rows(one)} among the third of the rows set aside, got {there}; add "
                "rows, or lower the bound or the confidence"
            )
            raise InvalidRequest.from_faults(Fault(place, message))


def _name_rows(one: GuaranteedBound) -> str:
    if one.label is None:
        return ""
    return f" of classes other than {one.label!r}" if one.is_upper else f" of class {one.label!r}"


def _raise_losses(dataset: Dataset, wanted: Sequence[GuaranteedBound], factors: Sequence[float]) -> Losses:
    answers = len(dataset.classes)
    truths = answers if isinstance(dataset, FeatureTable) else int(dataset.labels.max()) + 1
    known = dataset.losses
    matrix = 1.0 - np.eye(truths, answers) if known is None else known.matrix.copy()
    for one, factor in zip(wanted, factors, strict=True):
        matrix[one.list_raised_cells(truths, answers)] *= factor
    return Losses(matrix, float(matrix.max()), rejects=known is not None and known.rejects)


def _test(
    kind: AnyKind,
    fitted: FitResult[Plan],
    held: Dataset,
    wanted: Sequence[GuaranteedBound],
    factors: Sequence[float],
    error: float,
) -> Iterator[KeptGuarantee]:
    limits = {} if fitted.savings is None else fitted.savings.query
    query = kind.evaluation.model_validate({**limits, "items": [{}]})
    found = kind.evaluate(fitted.plan, query, items_from_dataset(held))
    for one, factor in zip(wanted, factors, strict=True):
        concerned, keeps = one.find_kept(found, held)
        rows = effective_rows(held.item_codes[concerned]) if concerned.any() else 0
        share = float(keeps[concerned].mean()) if rows else 0.0
        bound = clopper_pearson_lower(share * rows, rows, error)
        yield KeptGuarantee(
            limit=one.limit,
            label=one.label,
            value=one.value,
            measured=1 - share if one.is_upper else share,
            bound=1 - bound if one.is_upper else bound,
            rows=rows,
            factor=factor,
        )


def _is_proven(wanted: GuaranteedBound, kept: KeptGuarantee) -> bool:
    return kept.bound <= kept.value if wanted.is_upper else kept.bound >= kept.value


def _explain_failure(wanted: GuaranteedBound, kept: KeptGuarantee, *, rejects: bool) -> str:
    side, of = "at most" if wanted.is_upper else "at least", "" if kept.label is None else f" of class {kept.label!r}"
    return (
        f"{kept.limit}{of} must be {side} {kept.value:g}; with losses raised {kept.factor:g} times it is "
        f"{kept.measured:.4g} on {kept.rows} rows, which proves {side} {kept.bound:.4g}; relax the bound, or add rows"
        + ("" if rejects else ", or set reject_cost")
    )
