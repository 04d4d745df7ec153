"""Labels in several spellings are noticed, whoever gives them."""

from typing import Any

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, TraceSpec, dataset_from_columns
from solvers.row_repeats import list_data_warnings

ROWS = 100
TRUTH = np.where(np.arange(ROWS) % 2 == 0, "spam", "ham")


def warnings_of(answers: Any, truth: Any = TRUTH) -> list[Any]:
    columns = {"truth": truth, "small says": answers, "large says": truth}
    classifiers = [{"name": name, "cost": 1.0, "prediction": f"{name} says"} for name in ("small", "large")]
    spec = {"kind": "trace", "label": "truth", "unit": "ms", "classifiers": classifiers}
    dataset = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    return [one for one in list_data_warnings(dataset) if one.code == "label-spellings"]


@pytest.mark.parametrize("other", ["Spam", " spam ", "SPAM"])
def test_a_classifier_that_spells_a_label_in_another_way_is_named(other: str) -> None:
    answers = np.where((np.arange(ROWS) < 50) & (TRUTH == "spam"), other, TRUTH)
    (warning,) = warnings_of(answers)
    assert warning.share == pytest.approx(0.25)
    assert repr(other) in warning.message
    assert "'spam'" in warning.message
    assert "small" in warning.message
    assert "large" not in warning.message


def test_labels_with_two_spellings_are_noticed_in_tables_of_features_too() -> None:
    labels = np.where(np.arange(ROWS) < 10, "Spam", TRUTH)
    feature = {"name": "x", "columns": ["x"], "cost": 1.0}
    spec = FeaturesSpec.model_validate({"kind": "features", "label": "y", "unit": "ms", "features": [feature]})
    table = FeatureTable.from_columns(spec, {"x": np.arange(ROWS) * 1.0, "y": labels})
    (warning,) = [one for one in list_data_warnings(table) if one.code == "label-spellings"]
    assert warning.share == pytest.approx(0.1)


def test_labels_and_answers_that_differ_in_more_than_case_get_no_warning() -> None:
    assert warnings_of(TRUTH) == []
    assert warnings_of(np.where(np.arange(ROWS) < 50, "spams", TRUTH)) == []
