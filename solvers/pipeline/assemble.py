"""Assembly of a pipeline plan from the results of a build."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from models import FeatureTable
from models.arrays import Floats, UInt64s
from models.pipeline import PipelineOptions
from solvers.item_splits import effective_rows
from solvers.pipeline.classifiers import Answers, Learner, choose_answers, predict, stack_answers
from solvers.pipeline.front import FrontResult
from solvers.pipeline.objectives import ConfigurationScores, EvaluationCriteria
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.prepared_data import PreparedData


@dataclass(frozen=True, slots=True, eq=False)
class PipelineModels:
    """Serialized models of feature sets, by increasing mask."""

    kind: str
    masks: UInt64s
    data: list[bytes]

    def predict_sets(self, learner: Learner, table: Floats, masks: UInt64s) -> Answers:
        """Predict prepared rows with the models of feature sets."""
        answers = []
        for mask in masks.tolist():
            data = self.data[int(np.searchsorted(self.masks, np.uint64(mask)))]
            own = table[:, learner.columns_of(mask)]
            probabilities = predict(self.kind, data, own, learner.classes, learner.modules)
            answers.append(choose_answers(probabilities, learner.losses))
        return stack_answers(answers)


def assemble_plan(
    dataset: FeatureTable,
    options: PipelineOptions,
    data: PreparedData,
    models: PipelineModels,
    front: FrontResult,
    tested: ConfigurationScores,
    cost_errors: Floats,
) -> PipelinePlan:
    """Return a plan whose configurations are sorted by their scores on the test rows.

    The order is increasing cost, then decreasing accuracy and coverage.

    tested: scores of the front on the test rows. cost_errors: (s,), standard errors of its costs.
    """
    preparation, criteria = data.preparation, data.criteria
    order = np.lexsort((-tested.coverage, -tested.accuracy, tested.cost))
    lengths = np.array([len(data) for data in models.data], dtype=np.int64)
    archived = models.kind == "skops"
    every = b"".join(models.data)
    return PipelinePlan(
        features=tuple(feature.name for feature in dataset.spec.features),
        columns=tuple(feature.columns for feature in dataset.spec.features),
        classes=dataset.classes,
        categories=dataset.categories,
        missing=dataset.spec.missing,
        unit=dataset.spec.unit,
        costs=criteria.costs[: len(dataset.spec.features)],
        **_setup_fields(dataset, criteria),
        thresholds=criteria.thresholds,
        positive_class=options.positive_class,
        exact=front.exact,
        held_out=tested.rows,
        independence=effective_rows(dataset.item_codes[data.split.test]) / tested.rows,
        fills=preparation.fills,
        shifts=preparation.shifts,
        scales=preparation.scales,
        offsets=preparation.offsets,
        codes=preparation.codes,
        chromosomes=front.chromosomes[order],
        validated=tabulate_scores(front.scores)[order],
        tested=tabulate_scores(tested)[order],
        model_kind=models.kind,
        model_masks=models.masks,
        model_offsets=np.cumsum([0, *(lengths if archived else lengths // 8)], dtype=np.int64),
        model_numbers=np.frombuffer(b"" if archived else every, dtype="<f8").copy(),
        model_bytes=np.frombuffer(every if archived else b"", dtype=np.uint8).copy(),
        tested_cost_errors=cost_errors[order],
        after_last_stage="answer" if criteria.always_answers else "reject",
        loss_matrix=dataset.loss_matrix,
        quality_thresholds=np.empty(0) if front.thresholds is None else front.thresholds[order],
    )


def _setup_fields(dataset: FeatureTable, criteria: EvaluationCriteria) -> dict[str, Any]:
    setup = dataset.spec.setup
    if not setup:
        return {}
    costs = criteria.costs[len(dataset.spec.features) :]
    names = tuple(group.name for group in setup)
    return {"setup_names": names, "setup_members": criteria.groups.members, "setup_costs": costs}


def tabulate_scores(scores: ConfigurationScores) -> Floats:
    """Return coverage, accuracy, cost, and false-positive rate, (c, 4).

    The false-positive rate is NaN without a positive class.
    """
    alarms = np.full(len(scores.cost), np.nan) if scores.alarms is None else scores.false_positive_rate
    return np.column_stack((scores.coverage, scores.accuracy, scores.cost, alarms))
