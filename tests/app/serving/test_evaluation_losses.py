"""Evaluation of items of an artifact with losses: each true class must have a price."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.serving.evaluation import evaluate_in_batches
from app.serving.loaded_artifact import LoadedArtifact
from models import ArtifactRecord, InvalidRequest
from models.losses import LossPrices
from models.pipeline import PipelineLimits, PipelineOptions
from solvers.base import IN_PROCESS, BuildContext
from solvers.evaluation import items_from_dataset
from solvers.pipeline import kind
from tests.solvers.pipeline.test_pipeline_losses import table


def test_a_true_class_without_a_loss_is_refused_by_item() -> None:
    dataset = table(600, 1)
    fitted = kind.fit(dataset, PipelineOptions(), np.random.default_rng(0), BuildContext())
    prices = LossPrices.from_losses(dataset.losses, dataset.loss_scale, dataset.classes)
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
