"""Evaluation of items of an artifact with losses: each true class must have a price, and rejects have theirs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.serving.evaluation import evaluate_in_batches, summarize_evaluation
from app.serving.loaded_artifact import LoadedArtifact
from models import ArtifactRecord, InvalidRequest
from models.losses import LossPrices
from models.pipeline import PipelineLimits, PipelineOptions
from solvers import KINDS
from solvers.base import IN_PROCESS, BuildContext
from solvers.evaluation import items_from_dataset
from solvers.pipeline import kind
from tests.solvers.pipeline.test_pipeline_losses import table
from tests.solvers.policy.test_classless import asked_trace


def test_a_true_class_without_a_loss_is_refused_by_item() -> None:
    dataset = table(600, 1)
    fitted = kind.fit(dataset, PipelineOptions(), np.random.default_rng(0), BuildContext())
    prices = LossPrices.from_losses(dataset.losses, dataset.loss_scale, dataset.classes, None)
    known: dict[str, Any] = {"kind": "pipeline", "name": "x", "version": 1, "losses": prices, "savings": None}
    loaded = LoadedArtifact.from_record(ArtifactRecord.model_construct(**known), fitted.plan)
    items = items_from_dataset(dataset)

    def evaluate(items: Any) -> list[Any]:
        batches = evaluate_in_batches(loaded, PipelineLimits(solution=0), items, IN_PROCESS)
        return [item for batch in batches for item in batch]

    losses = [item.loss for item in evaluate(items)]
    assert set(losses) <= {0.0, 8.0, 64.0}
    misspelled = replace(items, truths=(*items.truths[:7], "Sick", *items.truths[8:]))
    with pytest.raises(InvalidRequest) as refused:
        evaluate(misspelled)
    assert refused.value.faults[0].loc == ("items", 7, "truth")
    assert evaluate(replace(items, truths=(None, *items.truths[1:])))[0].loss is None


@pytest.mark.parametrize("kind_name", ["cascade", "policy"])
def test_without_classes_a_rejected_item_has_the_price_of_a_reject(kind_name: str) -> None:
    one, dataset = KINDS[kind_name], asked_trace(600, 1, reject_cost=6.0)
    fitted = one.fit(dataset, one.options(), np.random.default_rng(0), BuildContext())
    prices = LossPrices.from_losses(None, dataset.loss_scale, (), dataset.reject_loss)
    known: dict[str, Any] = {"kind": kind_name, "name": "x", "version": 1, "losses": prices, "savings": None}
    loaded = LoadedArtifact.from_record(ArtifactRecord.model_construct(**known), fitted.plan)
    chosen: dict[str, Any] = {"budget": 1.2}
    limits = one.evaluation.model_construct(**chosen)
    items = [
        item for batch in evaluate_in_batches(loaded, limits, items_from_dataset(dataset), IN_PROCESS) for item in batch
    ]
    ungraded = replace(
        items_from_dataset(dataset),
        values=tuple(
            {name: cell for name, cell in values.items() if not name.endswith((".correct", ".loss"))}
            for values in items_from_dataset(dataset).values
        ),
    )
    unknown = [item for batch in evaluate_in_batches(loaded, limits, ungraded, IN_PROCESS) for item in batch]
    assert [item.loss for item in unknown] == [None] * len(unknown)
    assert {item.loss for item in items if not item.accepted} == {6.0}
    assert {item.loss for item in items if item.accepted} <= {0.0, 20.0}
    summary = summarize_evaluation(items, ())
    assert summary.loss == pytest.approx(np.mean([item.loss for item in items]))
