"""The pipeline and the index on tables of features of cost 1, at mean counts of features that a budget allows.

The pipeline rejects items that no stage is sure of; here its last stage answers them, so that it answers all, as the
others do. Of the fronts of several thresholds the configuration is taken that answers most rows rightly within the
budget, by the rows of the learning half that its classifiers have not seen. The index takes one set for all items: the
best one, or with many features the best of its greedy sequences.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import joblib
import numpy as np
from numpy.typing import NDArray

from models import FeatureTable
from models.index import IndexOptions, IndexQuery
from models.pipeline import Evolution, PipelineOptions
from solvers import Run, index, pipeline
from solvers.learners.table_preparation import Preparation
from solvers.pipeline.classifiers import confident, predict
from solvers.pipeline.configurations import stage_masks
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.prepared_data import cut_rows

Reached = tuple[float, float]

THRESHOLDS = (0.4, 0.75, 0.9)
EVOLUTION = Evolution(population=60, generations=12)
"""Where there are too many configurations to look at all of them."""
MANY = 10
"""Features above which the index cannot compare all sets in minutes, nor logistic regressions of so many classes."""
COARSE = 6.0
"""The index's alpha there: it compares sets of one or two features, the rest are greedy sequences."""
DISCRIMINANT = "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"
NONE = (float("nan"), float("nan"))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a pipeline's classifiers say of rows: confidences and codes, (n,), by feature set."""

    plan: PipelinePlan
    labels: NDArray[np.int32]
    by_mask: dict[int, tuple[NDArray[np.floating], NDArray[np.intp]]]

    @classmethod
    def of(cls, plan: PipelinePlan, table: FeatureTable) -> "Answers":
        """Ask every classifier of the plan about every row."""
        preparation = Preparation(plan.fills, plan.shifts, plan.scales, plan.offsets, plan.codes)
        prepared = preparation.apply(table.values)
        by_mask: dict[int, tuple[NDArray[np.floating], NDArray[np.intp]]] = {}
        for at, mask in enumerate(plan.model_masks.tolist()):
            model = plan.model_numbers[slice(*plan.model_offsets[at : at + 2].tolist())].tobytes()
            own = prepared[:, [mask >> f & 1 == 1 for f in range(prepared.shape[1])]]
            by_mask[mask] = confident(predict(plan.model_kind, model, own, len(plan.classes)))
        return cls(plan, table.labels, by_mask)

    def walk(self, masks: Sequence[int], rows: NDArray[np.int64]) -> Reached:
        """Walk some rows through stages, the last of which always answers."""
        right, cost = np.zeros(len(rows), dtype=bool), np.zeros(len(rows))
        waiting = np.ones(len(rows), dtype=bool)
        for mask in masks:
            sure, codes = (each[rows] for each in self.by_mask[mask])
            done = waiting & ((sure >= self.plan.thresholds[codes]) | (mask == masks[-1]))
            right[done] = codes[done] == self.labels[rows][done]
            cost[done] = mask.bit_count()
            waiting &= ~done
        return float(right.mean()), float(cost.mean())


def pipelines(train: FeatureTable, test: FeatureTable, budgets: Sequence[float], seed: int) -> list[Reached]:
    """Take for each budget the best configuration of the fronts of all thresholds."""
    split = cut_rows(train, np.random.default_rng(seed))
    unseen = np.concatenate((split.validation, split.test))
    every, pairs = np.arange(test.rows), []
    for level in THRESHOLDS:
        options = PipelineOptions(confidence_threshold=level, evolution=EVOLUTION)
        plan = pipeline.fit(train, options, np.random.default_rng(seed), Run()).plan
        mine, theirs = Answers.of(plan, train), Answers.of(plan, test)
        counts = (plan.chromosomes.max(axis=1) + 1).tolist()
        for row, count in zip(stage_masks(plan.chromosomes, max(counts)).tolist(), counts, strict=True):
            pairs.append((mine.walk(row[:count], unseen), theirs.walk(row[:count], every)))
    reached = []
    for budget in budgets:
        within = [pair for pair in pairs if pair[0][1] <= budget]
        reached.append(max(within, key=lambda pair: (pair[0][0], -pair[0][1]))[1] if within else NONE)
    return reached


def indexed(train: FeatureTable, test: FeatureTable, budgets: Sequence[float], seed: int) -> list[Reached]:
    """Let the index choose a set for each budget, and its model answer."""
    many = len(train.spec.features) > MANY
    options = IndexOptions(alpha=COARSE, learner=DISCRIMINANT) if many else IndexOptions()
    with joblib.parallel_config(backend="loky", n_jobs=-1):
        plan = index.fit(train, options, np.random.default_rng(seed), Run()).plan
    columns = train.spec.feature_columns
    items = [dict(zip(columns, row, strict=True)) for row in test.values.tolist()]
    truth, reached = np.array(test.classes)[test.labels], []
    for budget in budgets:
        decision = plan.decide(IndexQuery(budget=budget, method="greedy" if many else "poly-dom"))
        labels = np.array(plan.predict(decision, items).labels)
        reached.append((float((labels == truth).mean()), decision.cost))
    return reached
