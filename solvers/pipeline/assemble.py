"""The plan, put together from what a build found."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models import FeatureTable
from models.pipeline import PipelineOptions
from solvers.pipeline.bank import Masks
from solvers.pipeline.objectives import Scores
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.ready import Ready
from solvers.pipeline.search import Found
from solvers.pipeline.training import Answers, Learner, confident, predict, stacked

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """Trained models of feature sets, by rising mask, as bytes of a kind."""

    kind: str
    masks: Masks
    data: list[bytes]

    def answers(self, learner: Learner, table: Floats, masks: Masks) -> Answers:
        """Let kept models answer for prepared rows, as a bank asks."""
        found = []
        for mask in masks.tolist():
            data = self.data[int(np.searchsorted(self.masks, np.uint64(mask)))]
            own = table[:, learner.columns_of(mask)]
            found.append(confident(predict(self.kind, data, own, learner.classes, learner.modules)))
        return stacked(found)


def assemble(
    dataset: FeatureTable,
    options: PipelineOptions,
    ready: Ready,
    models: Models,
    found: Found,
    tested: Scores,
) -> PipelinePlan:
    """Put a plan together; configurations by rising cost on the test rows, then falling accuracy and coverage."""
    preparation, judge = ready.preparation, ready.judge
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
        costs=judge.costs,
        thresholds=judge.thresholds,
        positive_class=options.positive_class,
        exact=found.exact,
        held_out=tested.rows,
        fills=preparation.fills,
        shifts=preparation.shifts,
        scales=preparation.scales,
        offsets=preparation.offsets,
        codes=preparation.codes,
        chromosomes=found.chromosomes[order],
        validated=achieved(found.scores)[order],
        tested=achieved(tested)[order],
        model_kind=models.kind,
        model_masks=models.masks,
        model_offsets=np.cumsum([0, *(lengths if archived else lengths // 8)], dtype=np.int64),
        model_numbers=np.frombuffer(b"" if archived else every, dtype="<f8").copy(),
        model_bytes=np.frombuffer(every if archived else b"", dtype=np.uint8).copy(),
    )


def achieved(scores: Scores) -> Floats:
    """Tabulate coverage, accuracy, cost and false-positive rate, (c, 4); NaN where no class is positive."""
    alarms = np.full(len(scores.cost), np.nan) if scores.alarms is None else scores.false_positive_rate
    return np.column_stack((scores.coverage, scores.accuracy, scores.cost, alarms))
