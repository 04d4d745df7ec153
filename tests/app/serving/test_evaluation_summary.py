"""Summaries of evaluations: weighted means with intervals, and the reliability of confidences."""

from typing import Any

import numpy as np
import pytest

from app.serving.evaluation import BINS, summarize_evaluation
from models.evaluation import EvaluatedItem


def item(**fields: Any) -> EvaluatedItem:
    known = {"id": "0", "label": "a", "confidence": None, "probabilities": None, "classifier": None, "path": ()}
    return EvaluatedItem(**{**known, "accepted": True, "cost": 1.0, "correct": None, **fields})


def test_means_are_weighted() -> None:
    items = [item(correct=1.0, cost=2.0, weight=3.0), item(correct=0.0, cost=6.0, accepted=False, loss=4.0)]
    summary = summarize_evaluation(items, ())
    assert (summary.accuracy, summary.cost, summary.coverage, summary.loss) == (0.75, 3.0, 0.75, 4.0)
    assert summary.loss_interval is None


def test_copies_and_weights_give_equal_means_and_about_equal_intervals() -> None:
    rng = np.random.default_rng(0)
    items = [item(correct=float(rng.random() < 0.7), cost=rng.random(), weight=float(1 + at % 3)) for at in range(600)]
    weighted, plain = (
        summarize_evaluation(items, ()),
        summarize_evaluation([one.model_copy(update={"weight": 1.0}) for one in items], ()),
    )
    assert weighted.accuracy == pytest.approx(
        np.average([one.correct for one in items], weights=[1 + at % 3 for at in range(600)])
    )
    assert weighted.accuracy_interval is not None
    assert plain.accuracy_interval is not None
    widths = [high - low for low, high in (weighted.accuracy_interval, plain.accuracy_interval)]
    assert 1 < widths[0] / widths[1] < 1.2


def test_reliability_has_bins_of_rising_confidence() -> None:
    rng = np.random.default_rng(1)
    sure = rng.random(4000)
    items = [item(confidence=each, correct=float(rng.random() < each)) for each in sure.tolist()]
    bins = summarize_evaluation(items, ()).reliability
    assert [one.items for one in bins] == [400] * BINS
    assert [one.confidence for one in bins] == sorted(one.confidence for one in bins)
    assert sum(one.accuracy_interval[0] <= one.confidence <= one.accuracy_interval[1] for one in bins) >= 8


def test_without_truths_or_confidences_there_is_no_reliability() -> None:
    assert summarize_evaluation([item(confidence=0.5), item(correct=1.0)], ()).reliability == ()
    assert len(summarize_evaluation([item(confidence=0.5, correct=1.0)], ()).reliability) == 1
