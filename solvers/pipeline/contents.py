"""What a pipeline plan keeps, and what its arrays promise each other: a plan may come from anybody's bytes."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from models import InvalidRequest
from models.arrays import Amounts, Floats, Int8s, Int64s, Probabilities, UInt8s, UInt64s
from models.base import LARGEST
from models.pipeline import AtTheEnd
from solvers.base import refuse_out_of_range
from solvers.learners.linear import count_linear_numbers
from solvers.pipeline.configurations import MAX_FEATURES, REMOVED, compress_chromosomes, make_stage_masks

KINDS = ("softmax", "skops")


@dataclass(frozen=True, slots=True, eq=False)
class PipelineContents:
    """Non-dominated configurations, by rising cost, and the classifiers of their stages.

    There are n features with d columns, c classes, s configurations, and u feature sets with a model.
    """

    features: tuple[str, ...]
    """n names."""
    columns: tuple[tuple[str, ...], ...]
    """The columns of each feature, d in all."""
    classes: tuple[str, ...]
    """c names, in whose order labels are coded."""
    categories: tuple[tuple[str, ...], ...]
    """The categories of each of the d columns; none for numbers."""
    missing: bool
    """Whether cells may be missing."""
    unit: str
    """The unit of costs."""
    costs: Amounts
    """(n,) the cost of each feature."""
    thresholds: Probabilities
    """(c,) the confidence from which on an answer is accepted, by predicted class."""
    positive_class: str | None
    """The class whose false alarms were an objective, if they were."""
    exact: bool
    """Whether every configuration was looked at."""
    held_out: int
    """How many rows ``tested`` is of."""
    fills: Floats
    """(d,) what stands in for a missing number (``Preparation``)."""
    shifts: Floats
    """(d,) what is taken off a column."""
    scales: Floats
    """(d,) what it is divided by then, above 0."""
    offsets: Int64s
    """(d + 1,) cuts ``codes`` by column."""
    codes: Int64s
    """The codes of categories that have an indicator of their own."""
    chromosomes: Int8s
    """(s, n) the stage that acquires each feature, or -1."""
    validated: Floats
    """(s, 4) coverage, accuracy, cost, and false-positive rate (NaN without a positive class) on the rows they were
    chosen by."""
    tested: Floats
    """(s, 4) the same on rows held out; cost rises."""
    model_kind: str
    """How models are kept: as numbers (softmax), or as bytes (skops)."""
    model_masks: UInt64s
    """(u,) the feature sets of models, as bits over the features, rising."""
    model_offsets: Int64s
    """(u + 1,) cuts ``model_numbers``, or ``model_bytes``, into models."""
    model_numbers: Floats
    """The models that are linear."""
    model_bytes: UInt8s
    """The models that are archives."""
    independence: float
    """Effective rows per held-out row: below 1 where items repeat."""
    tested_cost_errors: Amounts
    """(s,) the standard errors of costs on rows held out."""
    after_last_stage: str = "reject"
    """What becomes of an item that no stage is sure of: ``reject``, or ``answer``, as the last stage would."""

    def check(self) -> None:
        """Raise InvalidRequest for the first promise that is not kept: no decision can crash or hang after this."""
        refuse_out_of_range(self)
        for promises in (_of_columns, _of_preparation, _of_configurations, _of_models):
            for what, kept in promises(self).items():
                if not kept:
                    raise InvalidRequest(f"this is no pipeline plan: it lacks {what}")


def _of_columns(plan: PipelineContents) -> dict[str, bool]:
    n = len(plan.features)
    return {
        "1 to 63 different features": 1 <= n <= MAX_FEATURES and len(set(plan.features)) == n,
        "columns for each feature": len(plan.columns) == n and all(plan.columns),
        "categories for each column": len(plan.categories) == sum(map(len, plan.columns)),
        "at least two different classes": 2 <= len(plan.classes) == len(set(plan.classes)),
        "costs": _is(plan.costs, np.float64, n),
        "thresholds": _is(plan.thresholds, np.float64, len(plan.classes)),
        "a positive class of its own": plan.positive_class is None or plan.positive_class in plan.classes,
        "held-out rows": plan.held_out >= 1,
        "an independence from 0 to 1": 0 < plan.independence <= 1,
        "what is done at the end": plan.after_last_stage in get_args(AtTheEnd),
    }


def _of_preparation(plan: PipelineContents) -> dict[str, bool]:
    d = len(plan.categories)
    offsets = plan.offsets
    return {
        "a preparation of each column": all(
            _is(each, np.float64, d) and bool(np.all(np.isfinite(each)))
            for each in (plan.fills, plan.shifts, plan.scales)
        ),
        "scales above 0": bool(np.all(plan.scales > 0)),
        "offsets of codes": _is(plan.codes, np.int64, len(plan.codes)) and _cuts(offsets, d, len(plan.codes)),
        "codes where there are categories": np.array_equal(
            np.diff(offsets) > 0, [bool(own) for own in plan.categories]
        ),
    }


def _of_configurations(plan: PipelineContents) -> dict[str, bool]:
    genes, n = plan.chromosomes, len(plan.features)
    shaped = genes.dtype == np.int8 and genes.ndim == 2 and genes.shape[1] == n and len(genes) > 0
    whole = bool(shaped and genes.min() >= REMOVED and genes.max() < n and np.all(genes.max(axis=1) >= 0))
    scored = (plan.validated, plan.tested)
    return {
        "configurations of stages without gaps": whole and np.array_equal(compress_chromosomes(genes), genes),
        "what each achieved": all(
            each.dtype == np.float64 and each.shape == (len(genes), 4) and _are_objectives(each) for each in scored
        ),
        "standard errors of all costs": plan.tested_cost_errors.shape == (len(genes),),
        "configurations by rising cost": bool(np.all(np.diff(plan.tested[:, 2]) >= 0)),
        "an answer to every item, if there is one at the end": plan.after_last_stage != "answer"
        or all(bool(np.all(each[:, 0] == 1)) for each in scored),
    }


def _are_objectives(scores: Floats) -> bool:
    """Check the ranges of coverage, accuracy, cost, and false-positive rate (NaN: there is none)."""
    coverage, accuracy, cost, false_positives = scores.T
    return all(
        bool(np.all((each >= 0) & (each <= most)))
        for each, most in (
            *((coverage, 1), (accuracy, 1), (cost, LARGEST)),
            (false_positives[~np.isnan(false_positives)], 1),
        )
    )


def _of_models(plan: PipelineContents) -> dict[str, bool]:
    masks, offsets = plan.model_masks, plan.model_offsets
    used = make_stage_masks(plan.chromosomes, int(plan.chromosomes.max()) + 1)
    total = len(plan.model_bytes if plan.model_kind == "skops" else plan.model_numbers)
    promises = {
        "a kind of models": plan.model_kind in KINDS,
        "models as arrays": _is(plan.model_numbers, np.float64, len(plan.model_numbers))
        and _is(plan.model_bytes, np.uint8, len(plan.model_bytes)),
        "feature sets that rise": masks.dtype == np.uint64 and masks.ndim == 1 and bool(np.all(masks[1:] > masks[:-1])),
        "a model for each stage": bool(np.all(np.isin(used, masks))),
        "offsets of models": _cuts(offsets, len(masks), total),
    }
    if all(promises.values()) and plan.model_kind == "softmax":
        promises["numbers for each model"] = np.array_equal(np.diff(offsets), _lengths(plan)) and bool(
            np.all(np.isfinite(plan.model_numbers))
        )
    return promises


def _lengths(plan: PipelineContents) -> list[int]:
    """Count the numbers of each linear model."""
    widths = np.maximum(np.diff(plan.offsets), 1)
    ends = np.cumsum([0, *map(len, plan.columns)])
    of_features = [int(widths[a:b].sum()) for a, b in pairwise(ends.tolist())]
    sizes = [sum(w for f, w in enumerate(of_features) if mask >> f & 1) for mask in plan.model_masks.tolist()]
    return [count_linear_numbers(size, len(plan.classes)) for size in sizes]


def _is(array: Any, dtype: Any, length: int) -> bool:
    return bool(array.dtype == dtype and array.shape == (length,))


def _cuts(offsets: Any, parts: int, total: int) -> bool:
    """Tell whether offsets cut so many entries into so many parts."""
    return (
        _is(offsets, np.int64, parts + 1)
        and int(offsets[0]) == 0
        and int(offsets[-1]) == total
        and bool(np.all(np.diff(offsets) >= 0))
    )
