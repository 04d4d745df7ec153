"""Fields of a pipeline plan, and their validation: a plan may come from untrusted bytes."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from models import InvalidRequest
from models.arrays import Amounts, Bools, Floats, Int8s, Int64s, Probabilities, UInt8s, UInt64s
from models.base import LARGEST
from models.losses import Losses
from models.pipeline import AtTheEnd
from solvers.base import check_array_ranges
from solvers.learners.linear import count_linear_numbers
from solvers.pipeline.configurations import MAX_FEATURES, REMOVED, compress_chromosomes, make_stage_masks
from solvers.setup_groups import is_consistent_setup

KINDS = ("softmax", "skops")


@dataclass(frozen=True, slots=True, eq=False)
class PipelineContents:
    """Non-dominated configurations, by increasing cost, and the classifiers of their stages.

    Dimensions: n features with d columns, c classes, s configurations, and u feature sets with a model.
    """

    features: tuple[str, ...]
    """n names."""
    columns: tuple[tuple[str, ...], ...]
    """The columns of each feature, d in all."""
    classes: tuple[str, ...]
    """c names, in the order of label codes."""
    categories: tuple[tuple[str, ...], ...]
    """The categories of each of the d columns; none for numbers."""
    missing: bool
    """Whether cells may be missing."""
    unit: str
    """The unit of costs."""
    costs: Amounts
    """(n,), the cost of each feature."""
    thresholds: Probabilities
    """(c,), accept threshold by predicted class."""
    positive_class: str | None
    """The class whose false-positive rate was an objective, if any."""
    exact: bool
    """Whether the search was exact."""
    held_out: int
    """Number of test rows."""
    fills: Floats
    """(d,), imputed values (``Preparation``)."""
    shifts: Floats
    """(d,), subtracted from each column."""
    scales: Floats
    """(d,), divisors of each column, above 0."""
    offsets: Int64s
    """(d + 1,), offsets into ``codes`` by column."""
    codes: Int64s
    """Codes of one-hot encoded categories."""
    chromosomes: Int8s
    """(s, n), the stage that acquires each feature, or -1."""
    validated: Floats
    """(s, 4), coverage, accuracy, cost, and false-positive rate (NaN without a positive class) on validation rows.

    With losses, accuracy is 1 minus the mean loss of all rows as a share of the largest loss."""
    tested: Floats
    """(s, 4), the same on test rows; cost increases."""
    model_kind: str
    """Storage format of models: numbers (softmax) or bytes (skops)."""
    model_masks: UInt64s
    """(u,), bit masks of the feature sets of models, increasing."""
    model_offsets: Int64s
    """(u + 1,), offsets of models into ``model_numbers`` or ``model_bytes``."""
    model_numbers: Floats
    """Linear models."""
    model_bytes: UInt8s
    """Archived models."""
    independence: float
    """Effective rows per test row: below 1 where items repeat."""
    tested_cost_errors: Amounts
    """(s,), standard errors of costs on test rows."""
    after_last_stage: str = "reject"
    """Outcome if no stage accepts: ``reject``, or ``answer`` with the last stage's prediction."""
    loss_matrix: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(c, A), loss of each answer for each true class, in ``unit``; with A = c + 1 the last answer is to reject the
    item; (0, 0): all errors are equal."""
    quality_thresholds: Probabilities = field(default_factory=lambda: np.empty(0))
    """(s,), accept threshold of each configuration with losses: the least confidence, 1 minus the expected loss as a
    share of the largest one; (0,) without losses."""
    setup_names: tuple[str, ...] = ()
    """Names of the G set-up groups: work that features share and an item pays for once (``solvers.setup_groups``)."""
    setup_members: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))
    """(G, n), the features of each group; (0, 0) without groups."""
    setup_costs: Amounts = field(default_factory=lambda: np.empty(0))
    """(G,), the cost of each group."""

    @property
    def losses(self) -> Losses | None:
        """The loss matrix; None if all errors are equal."""
        return Losses.from_matrix(self.loss_matrix)

    def check(self) -> None:
        """Raise InvalidRequest for the first violated invariant.

        Afterwards, no decision can crash or hang.
        """
        check_array_ranges(self)
        for check in (_check_columns, _check_losses, _check_preparation, _check_configurations, _check_models):
            for invariant, holds in check(self).items():
                if not holds:
                    raise InvalidRequest(f"not a valid pipeline plan: {invariant} missing")


def _check_columns(plan: PipelineContents) -> dict[str, bool]:
    n = len(plan.features)
    return {
        "1 to 63 different features": 1 <= n <= MAX_FEATURES and len(set(plan.features)) == n,
        "columns for each feature": len(plan.columns) == n and all(plan.columns),
        "categories for each column": len(plan.categories) == sum(map(len, plan.columns)),
        "at least two different classes": 2 <= len(plan.classes) == len(set(plan.classes)),
        "costs": _has_shape(plan.costs, np.float64, n),
        "features and a cost for each set-up group": is_consistent_setup(
            plan.setup_names, plan.setup_members, plan.setup_costs, plan.features
        ),
        "thresholds": _has_shape(plan.thresholds, np.float64, len(plan.classes)),
        "a positive class of its own": plan.positive_class is None or plan.positive_class in plan.classes,
        "test rows": plan.held_out >= 1,
        "an independence from 0 to 1": 0 < plan.independence <= 1,
        "a known after_last_stage": plan.after_last_stage in get_args(AtTheEnd),
    }


def _check_losses(plan: PipelineContents) -> dict[str, bool]:
    matrix, classes, configurations = plan.loss_matrix, len(plan.classes), len(plan.chromosomes)
    without = matrix.shape == (0, 0) and _has_shape(plan.quality_thresholds, np.float64, 0)
    return {
        "losses of each answer for each class and a threshold for each configuration, or no losses": without
        or (
            matrix.shape in ((classes, classes), (classes, classes + 1))
            and bool(matrix.any())
            and _has_shape(plan.quality_thresholds, np.float64, configurations)
            and plan.after_last_stage == "answer"
            and plan.positive_class is None
        )
    }


def _check_preparation(plan: PipelineContents) -> dict[str, bool]:
    d = len(plan.categories)
    offsets = plan.offsets
    return {
        "a preparation of each column": all(
            _has_shape(each, np.float64, d) and bool(np.all(np.isfinite(each)))
            for each in (plan.fills, plan.shifts, plan.scales)
        ),
        "scales above 0": bool(np.all(plan.scales > 0)),
        "offsets of codes": _has_shape(plan.codes, np.int64, len(plan.codes))
        and _are_offsets(offsets, d, len(plan.codes)),
        "codes where there are categories": np.array_equal(
            np.diff(offsets) > 0, [bool(own) for own in plan.categories]
        ),
    }


def _check_configurations(plan: PipelineContents) -> dict[str, bool]:
    genes, n = plan.chromosomes, len(plan.features)
    shaped = genes.dtype == np.int8 and genes.ndim == 2 and genes.shape[1] == n and len(genes) > 0
    whole = bool(shaped and genes.min() >= REMOVED and genes.max() < n and np.all(genes.max(axis=1) >= 0))
    scored = (plan.validated, plan.tested)
    return {
        "configurations of stages without gaps": whole and np.array_equal(compress_chromosomes(genes), genes),
        "scores of each configuration": all(
            each.dtype == np.float64 and each.shape == (len(genes), 4) and _are_objectives(each) for each in scored
        ),
        "standard errors of all costs": plan.tested_cost_errors.shape == (len(genes),),
        "configurations by increasing cost": bool(np.all(np.diff(plan.tested[:, 2]) >= 0)),
        "full coverage if the last stage answers": plan.after_last_stage != "answer"
        or plan.loss_matrix.shape[1] > len(plan.classes)
        or all(bool(np.all(each[:, 0] == 1)) for each in scored),
    }


def _are_objectives(scores: Floats) -> bool:
    """Return whether coverage, accuracy, cost, and false-positive rate are in range.

    A false-positive rate of NaN means that there is none.
    """
    coverage, accuracy, cost, false_positives = scores.T
    return all(
        bool(np.all((each >= 0) & (each <= bound)))
        for each, bound in (
            *((coverage, 1), (accuracy, 1), (cost, LARGEST)),
            (false_positives[~np.isnan(false_positives)], 1),
        )
    )


def _check_models(plan: PipelineContents) -> dict[str, bool]:
    masks, offsets = plan.model_masks, plan.model_offsets
    used = make_stage_masks(plan.chromosomes, int(plan.chromosomes.max()) + 1)
    total = len(plan.model_bytes if plan.model_kind == "skops" else plan.model_numbers)
    invariants = {
        "a known model_kind": plan.model_kind in KINDS,
        "models as arrays": _has_shape(plan.model_numbers, np.float64, len(plan.model_numbers))
        and _has_shape(plan.model_bytes, np.uint8, len(plan.model_bytes)),
        "rising feature sets": masks.dtype == np.uint64 and masks.ndim == 1 and bool(np.all(masks[1:] > masks[:-1])),
        "a model for each stage": bool(np.all(np.isin(used, masks))),
        "offsets of models": _are_offsets(offsets, len(masks), total),
    }
    if all(invariants.values()) and plan.model_kind == "softmax":
        invariants["numbers for each model"] = np.array_equal(np.diff(offsets), _model_lengths(plan)) and bool(
            np.all(np.isfinite(plan.model_numbers))
        )
    return invariants


def _model_lengths(plan: PipelineContents) -> list[int]:
    """Count the numbers of each linear model."""
    widths = np.maximum(np.diff(plan.offsets), 1)
    ends = np.cumsum([0, *map(len, plan.columns)])
    of_features = [int(widths[a:b].sum()) for a, b in pairwise(ends.tolist())]
    sizes = [sum(w for f, w in enumerate(of_features) if mask >> f & 1) for mask in plan.model_masks.tolist()]
    return [count_linear_numbers(size, len(plan.classes)) for size in sizes]


def _has_shape(array: Any, dtype: Any, length: int) -> bool:
    return bool(array.dtype == dtype and array.shape == (length,))


def _are_offsets(offsets: Any, parts: int, total: int) -> bool:
    """Return whether offsets split ``total`` entries into this number of ``parts``."""
    return (
        _has_shape(offsets, np.int64, parts + 1)
        and int(offsets[0]) == 0
        and int(offsets[-1]) == total
        and bool(np.all(np.diff(offsets) >= 0))
    )
