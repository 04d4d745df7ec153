"""Errors: one small tree, whose messages hold the numbers."""

import json

import pytest
from pydantic import ValidationError

from models import Fault, FeaturesSpec, InvalidRequest, errors
from models.cascade import CascadeOptions
from models.portfolio import AssignmentRequest


def test_the_detail_is_the_first_fault_and_counts_the_others() -> None:
    error = InvalidRequest.from_faults(Fault(("items", 2, "x"), "is bad"), Fault(("y",), "is worse"))
    assert str(error) == "items.2.x: is bad (and 1 more)"
    assert [fault.loc for fault in error.faults] == [("items", 2, "x"), ("y",)]
    assert str(InvalidRequest.from_faults(Fault((), "is bad"))) == "is bad"


def refusal(spec: object) -> InvalidRequest:
    with pytest.raises(ValidationError) as caught:
        FeaturesSpec.model_validate(spec)
    return InvalidRequest.from_validation(caught.value, "spec")


def test_a_list_that_is_too_short_only_because_its_members_are_bad_is_no_fault() -> None:
    bad = {"kind": "features", "label": "y", "unit": "ms", "features": [{"name": "x", "columns": ["x"]}]}
    assert [fault.loc for fault in refusal(bad).faults] == [("spec", "features", 0, "cost")]
    assert [fault.loc for fault in refusal(bad | {"features": []}).faults] == [("spec", "features")]
    corrupt = errors.CorruptArtifact("the bytes are no artifact")
    assert (isinstance(corrupt, InvalidRequest), corrupt.faults) == (True, ())


def test_every_fault_that_pydantic_found_is_kept() -> None:
    with pytest.raises(ValidationError) as caught:
        CascadeOptions.model_validate({"target_precision": 2.0, "dependence": "none", "more": 1})
    error = InvalidRequest.from_validation(caught.value.errors(), "params")
    assert {fault.loc for fault in error.faults} == {
        ("params", "target_precision"),
        ("params", "dependence"),
        ("params", "more"),
    }
    assert str(error).endswith("(and 2 more)")


def test_very_many_faults_are_counted_and_found_in_no_time() -> None:
    """Each row is too short only because its numbers were text; comparing each with each would take minutes."""
    body = {"queries": [["x", "y"]] * 50_000, "budget": "50%"}
    with pytest.raises(ValidationError) as caught:
        AssignmentRequest.model_validate_json(json.dumps(body))
    error = InvalidRequest.from_validation(caught.value)
    assert len(error.faults) == 101
    assert error.faults[0].loc == ("queries", 0, 0)
    assert error.faults[100].msg.startswith("and ")
