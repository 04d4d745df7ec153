"""Tables of features with categories and missing cells."""

import json
from typing import Any

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, InvalidRequest
from models.columns import Columns


def spec(**more: Any) -> FeaturesSpec:
    features = [{"name": name, "columns": [name], "cost": 1.0} for name in ("size", "colour")]
    return FeaturesSpec.model_validate_json(
        json.dumps({"kind": "features", "label": "y", "unit": "ms", "features": features} | more)
    )


def columns(**more: Any) -> Columns:
    plain: dict[str, Any] = {
        "size": np.array([1.0, np.nan, 3.0, 4.0]),
        "colour": np.array(["red", "blue", None, "red"], dtype=object),
        "y": np.array(["a", "b", "a", "b"], dtype=object),
    }
    return plain | more


def test_categories_become_codes_and_missing_cells_nan() -> None:
    table = FeatureTable.from_columns(spec(categorical=["colour"], missing=True), columns())
    assert table.categories == ((), ("blue", "red"))
    assert np.array_equal(table.values, np.array([[1, 1], [np.nan, 0], [3, np.nan], [4, 1]]), equal_nan=True)


def test_numbers_that_are_codes_keep_the_order_of_numbers() -> None:
    table = FeatureTable.from_columns(
        spec(categorical=["colour"]), columns(size=np.arange(4), colour=np.array([10, 9, 10.0, 2]))
    )
    assert table.categories[1] == ("2", "9", "10")
    assert table.values[:, 1].tolist() == [2, 1, 2, 0]


@pytest.mark.parametrize(
    ("given", "cells", "message"),
    [
        ({"categorical": ["colour"]}, {}, "table.size: must be finite and not missing; row 2 is missing"),
        ({"categorical": ["colour"]}, {"size": np.ones(4)}, "row 3 is missing"),
        ({"missing": True}, {}, "table.colour: must hold numbers"),
        ({"categorical": ["colour"], "missing": True}, {"size": np.array([1, np.inf, 2, 3])}, "row 2 is inf"),
        ({"categorical": ["colour"], "missing": True}, {"colour": np.full(4, np.nan)}, "missing in every row"),
        ({"categorical": ["shape"]}, {}, "categorical column 'shape' must be a column of a feature"),
    ],
)
def test_what_a_spec_does_not_allow_is_refused(given: dict[str, Any], cells: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidRequest, ValueError), match=message):
        FeatureTable.from_columns(spec(**given), columns(**cells))
