"""Traces: the spec of their columns, and the validated table.

A trace has one row per item and the outcomes of several classifiers. An answer is correct if it equals the item's
label. Without a label, a column has the correctness of answers (``correct``), or grades by a judge, a test, or a person
(``quality``, ``loss``).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.base import LARGEST
from models.columns import (
    Columns,
    encode_classes,
    raise_faults,
    read_items,
    read_numbers,
    read_prompts,
    read_texts,
    stack_columns,
    validate_embeddings,
)
from models.errors import Fault
from models.losses import Losses, get_loss_matrix, read_losses
from models.partial_calls import fill_uncalled, find_calls, read_propensities
from models.trace_columns import (
    NO_ANSWER,
    code_answers,
    evaluate_cost,
    fill_confidence_scales,
    find_largest_loss,
    grade_answers,
    read_confidence,
    read_cost,
    read_margins,
    read_outcome,
)
from models.trace_spec import CostColumn, TraceClassifier, TraceCost, TraceSpec
from models.weights import read_weights
from models.word_embedding import embed_prompts
from parsimony.runs.steps import REJECT


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A validated trace of n rows and m classifiers.

    Attributes:
        labels: (n,) int32, indices into classes; 0 without a label column.
        predictions: (n, m) int32, indices into classes; ``NO_ANSWER`` for missing answers. Classes are the true
            classes, then
            answers that are never true.
        quality: (n, m) float64, quality of each answer from 0 to 1. It is 1 for correct and 0 for wrong answers; with
            losses, 1 minus the loss as a share of ``loss_scale``.
        confidences: (n, m) float64 probabilities; NaN for classifiers without confidences.
        costs: (n, m) float64, at least 0, of each classifier alone, with the set-up groups that it needs.
        embeddings: (n, d) float32; d = 0 without embeddings.
        margins: (n, m, c) float32, the score of each of c classes minus the score of the true class. NaN for
            classifiers without scores; -∞ for classes that a classifier lacks. c = 0 if no classifier has scores.
        sizes: (n, k) float64, at least 0, k = number of size columns; (0, 0) in traces from older versions.
        resources: (n, m, r) float64, at least 0, use of each of the spec's r resources; (0, 0, 0) without resources.
        items: (n,) int64, indices into item_names; (0,) if each row is a separate item.
        loss_matrix: (C, A), the matrix of ``losses``; (0, 0) without one.
        loss_scale: the largest loss, in the unit of costs; 0 if all errors are equal.
        weights: (n,), above 0; (0,) if all rows weigh the same.
        called: (n, m), where each classifier was called; (0, 0) if all were called for all items. Without a call,
            predictions are ``NO_ANSWER``, and all other arrays are NaN.
        propensities: (n, m), the probability of each call; NaN without one; (0, 0) if all are unknown.
        observed: (n, m), the quality of calls, NaN without a call. It is set if ``quality`` includes estimates for
            missing calls; otherwise it is (0, 0).
        observed_costs: (n, m), like ``observed``, for ``costs``.
        own_costs: (n, m), costs without set-up groups; (0, 0) without groups, and in partial traces.
        setup_costs: (n, G), cost of each set-up group; (0, 0) without groups.
    """

    spec: TraceSpec
    classes: tuple[str, ...]
    labels: Int32s
    predictions: Int32s
    quality: Floats
    confidences: Floats
    costs: Floats
    embeddings: Singles
    margins: Singles
    sizes: Floats = field(default_factory=lambda: np.empty((0, 0)))
    resources: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))
    items: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    item_names: tuple[str, ...] = ()
    loss_matrix: Floats = field(default_factory=lambda: np.empty((0, 0)))
    loss_scale: float = 0.0
    weights: Floats = field(default_factory=lambda: np.empty(0))
    called: Bools = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))
    propensities: Floats = field(default_factory=lambda: np.empty((0, 0)))
    observed: Floats = field(default_factory=lambda: np.empty((0, 0)))
    observed_costs: Floats = field(default_factory=lambda: np.empty((0, 0)))
    own_costs: Floats = field(default_factory=lambda: np.empty((0, 0)))
    setup_costs: Floats = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def is_partial(self) -> bool:
        """Whether a classifier was not called for some item."""
        return bool(self.called.size)

    @property
    def complete_rows(self) -> int:
        """The number of rows in which all classifiers were called."""
        return int(self.called.all(axis=1).sum()) if self.is_partial else self.rows

    def measure_calls(self) -> tuple[list[float], list[int]]:
        """Return the mean quality of each classifier's answers, and the number of its calls."""
        return np.nanmean(self.quality, axis=0).tolist(), (~np.isnan(self.quality)).sum(axis=0).tolist()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.labels)

    @property
    def separate_costs(self) -> Floats:
        """Costs of the classifiers without set-up groups, then of the groups, (n, m + G)."""
        if not self.spec.setup:
            return self.costs
        own = self.own_costs if self.own_costs.size else self.costs - self.setup_costs @ _find_needs(self.spec)
        return np.concatenate((own, self.setup_costs), axis=1)

    @property
    def item_codes(self) -> Int64s:
        """The item of each row, (n,); equal codes are rows of the same item."""
        return self.items if len(self.items) else np.arange(self.rows)

    @property
    def losses(self) -> Losses | None:
        """The loss matrix; None if all errors are equal or losses were measured."""
        if not len(self.loss_matrix):
            return None
        return Losses(self.loss_matrix, self.loss_scale, self.spec.reject_cost is not None)

    @property
    def reject_loss(self) -> float | None:
        """The loss of a reject, in the unit of costs, where no loss matrix has it; None if items are never rejected."""
        price = self.spec.reject_cost
        return (
            price * (self.spec.loss_weight or 1.0)
            if isinstance(price, int | float) and not self.loss_matrix.size
            else None
        )

    def take(self, rows: Int64s) -> "Trace":
        """Return some of the rows, with all classes."""
        names = ["labels", "predictions", "quality", "confidences", "costs", "embeddings", "margins"]
        optional = ["sizes", "resources", "items", "weights", "called", "propensities", "observed", "observed_costs"]
        names += [name for name in (*optional, "own_costs", "setup_costs") if len(getattr(self, name))]
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def with_reject(self) -> "Trace":
        """Return the trace with an additional classifier that represents rejecting.

        It costs nothing, and its loss is the reject cost. If items are never sent to a person, the trace is returned
        unchanged.
        """
        if self.spec.reject_cost is None:
            return self
        person = TraceClassifier(name=REJECT, cost=0.0, quality=REJECT)
        spec = self.spec.model_copy(update={"classifiers": (*self.spec.classifiers, person)})
        if len(self.loss_matrix):
            lost = self.loss_matrix[self.labels, -1]
        else:
            assert self.reject_loss is not None  # the spec allows prices by class only with a matrix
            lost = np.full(self.rows, self.reject_loss)
        added: dict[str, Any] = {
            "predictions": np.full(self.rows, NO_ANSWER, dtype=np.int32),
            "quality": 1 - lost / self.loss_scale,
            "confidences": np.full(self.rows, np.nan),
            "costs": np.zeros(self.rows),
            "margins": np.full((self.rows, self.margins.shape[2]), np.nan, dtype=np.float32),
        }
        if self.resources.size:
            added["resources"] = np.zeros((self.rows, self.resources.shape[2]))
        if self.is_partial:
            added["called"] = np.ones(self.rows, dtype=np.bool_)
        if self.propensities.size:
            added["propensities"] = np.ones(self.rows)
        if self.own_costs.size:
            added["own_costs"] = added["costs"]
        if self.observed.size:
            added["observed"], added["observed_costs"] = added["quality"], added["costs"]
        wider: dict[str, Any] = {
            name: np.concatenate((getattr(self, name), own[:, None]), axis=1) for name, own in added.items()
        }
        return replace(self, spec=spec, **wider)

    def estimate_likelihoods(self, temperature: float) -> Floats:
        """Return the probability that each answer is correct, (n, m).

        With scores, it is their softmax at a temperature. Without scores, it is the quality of the answer.
        """
        likelihoods = self.quality.copy()
        scored = np.flatnonzero([classifier.scores is not None for classifier in self.spec.classifiers])
        if len(scored):
            with np.errstate(over="ignore"):
                raised = np.exp(self.margins[:, scored].astype(np.float64) / temperature)
            likelihoods[:, scored] = 1 / raised.sum(axis=2)
        return likelihoods

    @classmethod
    def from_columns(cls, spec: TraceSpec, columns: Columns, embeddings: NDArray[Any] | None = None) -> "Trace":
        """Validate the columns against the spec, and return the trace.

        Raises InvalidRequest with a list of all faults.
        """
        faults: list[Fault] = []
        by_classifier = [classifier.outcome_columns for classifier in spec.classifiers]
        called = find_calls(columns, by_classifier, faults)
        propensities = read_propensities(columns, [each.propensity for each in spec.classifiers], called, faults)
        columns = fill_uncalled(columns, by_classifier, called)
        spec = fill_confidence_scales(spec, columns)
        label = None if spec.label is None else read_texts(columns, spec.label, faults)
        stated = [read_outcome(columns, classifier, faults) for classifier in spec.classifiers]
        confidences = [read_confidence(columns, classifier, faults) for classifier in spec.classifiers]
        measured = [[read_cost(columns, cost, faults) for cost in costs] for costs in _list_costs(spec)]
        sizes = [read_numbers(columns, name, faults, at_least=0.0, at_most=LARGEST) for name in spec.size_columns]
        item_names, items = read_items(columns, spec.item, faults)
        rows = max((len(column) for column in columns.values()), default=0)
        none: tuple[tuple[str, ...], Int32s] = ((), np.zeros(rows, dtype=np.int32))
        classes, codes = none if label is None else encode_classes(str(spec.label), label, faults)
        vectors = validate_embeddings(embeddings, rows, faults)
        if embeddings is None and spec.text is not None:
            vectors = embed_prompts(read_prompts(columns, spec.text, faults), spec.conversation)
        raise_faults(faults)
        at = stack_columns(sizes, rows)
        prices, *by_resource = _evaluate_costs(spec, measured, at, faults)
        costs: dict[str, Any] = _evaluate_setup(spec, prices, at, called.size > 0, faults)
        raise_faults(faults)
        every, predictions = code_answers(classes, spec, stated, faults)
        margins = read_margins(columns, spec, classes, codes, faults)
        has_matrix = spec.label is not None and spec.has_classes
        losses = read_losses(spec, every, len(classes), faults) if has_matrix else None
        scale = (losses.scale if losses else 0.0) if has_matrix else find_largest_loss(spec, stated, faults)
        weights = read_weights(spec, columns, classes, codes, faults)
        raise_faults(faults)
        loss_share = (spec.loss_weight or 1.0) / scale if scale else 1.0
        graded = [
            grade_answers(c, stated[j], predictions[:, j], codes, losses, loss_share)
            for j, c in enumerate(spec.classifiers)
        ]
        resources = np.stack(by_resource, axis=2) if by_resource else np.empty((0, 0, 0))
        resources.flags.writeable = False
        trace = cls(
            spec=spec,
            classes=every,
            labels=codes,
            predictions=predictions,
            quality=stack_columns(graded, rows),
            confidences=stack_columns(confidences, rows),
            embeddings=vectors,
            margins=margins,
            sizes=at,
            resources=resources,
            items=items,
            item_names=item_names,
            loss_matrix=get_loss_matrix(losses),
            loss_scale=scale,
            weights=weights,
            **costs,
        )
        return trace._without_uncalled(called, propensities) if called.size else trace

    def _are_measured(self, cost_of: Callable[[TraceClassifier], TraceCost]) -> Bools:
        """Return whether each classifier has a measured cost, (m,).

        Other costs are known without a call.
        """
        return np.array([isinstance(cost_of(each), CostColumn) for each in self.spec.classifiers])

    def _without_uncalled(self, called: Bools, propensities: Floats) -> "Trace":
        """Return the trace without the values read where classifiers were not called."""
        resources = self.resources
        for place, name in enumerate(self.spec.resources):
            unknown = ~called & self._are_measured(_resource_getter(name))
            resources = resources.copy()
            resources[unknown, place] = np.nan
        return replace(
            self,
            predictions=np.where(called, self.predictions, NO_ANSWER).astype(np.int32),
            quality=np.where(called, self.quality, np.nan),
            confidences=np.where(called, self.confidences, np.nan),
            costs=np.where(called | ~self._are_measured(lambda each: each.cost), self.costs, np.nan),
            margins=np.where(called[:, :, None], self.margins, np.nan).astype(np.float32),
            resources=resources,
            called=called,
            propensities=propensities,
        )


def _resource_getter(name: str) -> Callable[[TraceClassifier], TraceCost]:
    return lambda each: each.resources[name]


def _list_costs(spec: TraceSpec) -> list[list[TraceCost]]:
    """Return what each classifier costs, in the dataset's unit first, then in each resource."""
    return [
        [classifier.cost for classifier in spec.classifiers],
        *([classifier.resources[name] for classifier in spec.classifiers] for name in spec.resources),
    ]


def _evaluate_costs(
    spec: TraceSpec, measured: list[list[Floats | float | None]], at: Floats, faults: list[Fault]
) -> list[Floats]:
    """Return the costs of each list of ``_list_costs``, (n, m); those without a column are evaluated at the sizes."""
    names = [classifier.name for classifier in spec.classifiers]
    return [
        stack_columns(
            [
                evaluate_cost(at, name, cost, faults) if column is None else column
                for name, cost, column in zip(names, costs, columns, strict=True)
            ],
            len(at),
        )
        for costs, columns in zip(_list_costs(spec), measured, strict=True)
    ]


def _evaluate_setup(
    spec: TraceSpec, own: Floats, at: Floats, is_partial: bool, faults: list[Fault]
) -> dict[str, Floats]:
    """Return the fields of a trace for costs with set-up groups and, if there are any, without them.

    Costs of missing calls are estimated later, so partial traces have no costs without groups.
    """
    if not spec.setup:
        return {"costs": own}
    columns = [
        group.cost if isinstance(group.cost, int | float) else evaluate_cost(at, group.name, group.cost, faults)
        for group in spec.setup
    ]
    groups = stack_columns(columns, len(at))
    alone = own + groups @ _find_needs(spec)
    return {"costs": alone, "setup_costs": groups} | ({} if is_partial else {"own_costs": own})


def _find_needs(spec: TraceSpec) -> Bools:
    """Return which set-up groups each classifier needs, (G, m)."""
    return np.array([[each.name in group.classifiers for each in spec.classifiers] for group in spec.setup])
