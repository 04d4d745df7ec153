"""Set-up groups of feature tables: what a spec may declare, and refusals that name the group."""

from typing import Any

import pytest
from pydantic import ValidationError

from models import FeaturesSpec, InvalidRequest
from models.index import IndexOptions
from models.pipeline import PipelineOptions
from solvers import KINDS, BuildContext
from solvers.base import make_generator
from tests.solvers.setup.tables import OWN, QUICK, SETUP, patients, patients_spec

BLOOD = {"name": "blood", "cost": 10, "features": ["glucose"]}


def test_groups_may_overlap_and_depend_on_size() -> None:
    spec = FeaturesSpec.model_validate(patients_spec())
    assert [each.name for each in spec.cost_specs] == [*OWN, *SETUP]
    assert FeaturesSpec.model_validate_json(spec.model_dump_json()) == spec
    sized = [{**BLOOD, "cost": {"polynomial": [1.0, 0.5]}}]
    assert FeaturesSpec.model_validate(patients_spec(size="beds", setup=sized)).setup[0].cost != 10


def test_specs_without_groups_are_stored_as_before() -> None:
    plain = FeaturesSpec.model_validate(patients_spec(setup=[]))
    assert "setup" not in plain.model_dump(mode="json")
    assert "setup" not in plain.model_dump_json()
    assert FeaturesSpec.model_validate_json(plain.model_dump_json()) == plain
    assert FeaturesSpec.model_json_schema(mode="serialization")["properties"].keys() == plain.model_fields_set | {
        *FeaturesSpec.model_fields
    }


REFUSED: list[tuple[dict[str, Any], tuple[Any, ...], str]] = [
    ({"setup": [{**BLOOD, "features": ["glucos"]}]}, (), "'blood' has unknown feature 'glucos'"),
    ({"setup": [BLOOD, BLOOD]}, (), "setup name must be unique, got 'blood' twice"),
    ({"setup": [{**BLOOD, "name": "glucose"}]}, (), "differ from all feature names, got 'glucose'"),
    (
        {"setup": [{**BLOOD, "features": ["glucose"] * 2}]},
        (),
        "'blood' must list each feature once, got 'glucose' 2 times",
    ),
    ({"setup": [{**BLOOD, "cost": -1.5}]}, ("setup", 0, "cost", "amount"), "-1.5"),
    ({"setup": [{**BLOOD, "features": []}]}, ("setup", 0, "features"), "1"),
    ({"setup": [{**BLOOD, "time": -2}]}, ("setup", 0, "time"), "-2"),
    ({"setup": [{**BLOOD, "time": 2}]}, (), "time must be set for all or none; 'blood' has one"),
    ({"setup": [{**BLOOD, "feature": ["glucose"]}]}, ("setup", 0, "feature"), ""),
]


@pytest.mark.parametrize(("fields", "place", "words"), REFUSED)
def test_refusals_name_the_field_the_group_and_the_number(
    fields: dict[str, Any], place: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        FeaturesSpec.model_validate(patients_spec(**fields))
    error = InvalidRequest.from_validation(caught.value)
    assert tuple(error.faults[0].loc) == place
    assert words in error.faults[0].msg


@pytest.mark.parametrize("kind", ["index", "pipeline", "policy"])
def test_costs_by_size_need_the_sizes_of_the_table(kind: str) -> None:
    options = {"index": IndexOptions(folds=2), "pipeline": PipelineOptions(), "policy": QUICK}[kind]
    sized = [{"name": "blood", "cost": {"terms": [{"coefficient": 1.0, "powers": [1, 1]}]}, "features": ["glucose"]}]
    columns = patients(60, spec=patients_spec(setup=sized))
    if kind == "index":  # whose sizes are in its queries
        KINDS[kind].fit(columns, options, make_generator(0), BuildContext())
        return
    with pytest.raises(InvalidRequest) as caught:
        KINDS[kind].fit(columns, options, make_generator(0), BuildContext())
    assert caught.value.faults[0].loc[0] == "dataset"
    assert "'blood'" in caught.value.faults[0].msg
