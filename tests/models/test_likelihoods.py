"""Scores of a trace: how likely each classifier is right, at a temperature."""

from typing import Any

import numpy as np
import pytest

from models import InvalidRequest, Trace, TraceSpec

SPEC: dict[str, Any] = {
    "kind": "trace",
    "label": "truth",
    "unit": "ms",
    "classifiers": [
        {"name": "scored", "cost": 1.0, "prediction": "a", "scores": {"cat": "a_cat", "dog": "a_dog", "owl": "a_owl"}},
        {"name": "plain", "cost": 2.0, "prediction": "b"},
        {"name": "two", "cost": 3.0, "prediction": "c", "scores": {"dog": "c_dog", "cat": "c_cat"}},
    ],
}
COLUMNS: dict[str, Any] = {"truth": ["cat", "dog"], "a": ["cat", "cat"], "b": ["dog", "dog"], "c": ["cat", "dog"]}
COLUMNS |= {"a_cat": [2.0, 1.0], "a_dog": [1.0, 0.5], "a_owl": [0.0, -3.0], "c_cat": [0.0, 0.0], "c_dog": [0.0, 900.0]}


def trace(spec: dict[str, Any] = SPEC, **columns: Any) -> Trace:
    every = {name: np.array(values) for name, values in (COLUMNS | columns).items()}
    return Trace.from_columns(TraceSpec.model_validate(spec), every)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_likelihood_is_the_softmax_at_the_temperature(temperature: float) -> None:
    likelihoods = trace().estimate_likelihoods(temperature)
    cat, dog = (np.exp(np.array(z) / temperature) for z in ([2.0, 1.0, 0.0], [1.0, 0.5, -3.0]))
    assert likelihoods[:, 0] == pytest.approx([cat[0] / cat.sum(), dog[1] / dog.sum()], rel=1e-6)
    assert likelihoods[:, 1].tolist() == [0.0, 1.0]  # no scores: right or wrong
    assert likelihoods[:, 2] == pytest.approx([0.5, 1.0])
    assert trace().estimate_likelihoods(1e-3)[:, 0] == pytest.approx([1.0, 0.0])
    spec = SPEC | {"classifiers": [SPEC["classifiers"][1]]}
    assert trace(spec).margins.shape == (2, 1, 0)
    assert trace(spec).estimate_likelihoods(temperature).tolist() == [[0.0], [1.0]]


def test_scores_are_needed_for_every_class_and_must_be_numbers() -> None:
    with pytest.raises(InvalidRequest, match=r"classifiers\.2\.scores: must have scores for class 'owl' of 'truth'"):
        trace(truth=["cat", "owl"], b=["cat", "owl"])
    with pytest.raises(InvalidRequest, match=r"table\.a_owl: must be finite and not missing; row 2"):
        trace(a_owl=[0.0, np.inf])
    with pytest.raises(InvalidRequest, match=r"a_owl"):
        trace(a_owl=["x", "y"])
