"""A cascade written for KServe is what its custom resource may be."""

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from app.serving.inference_graph import inference_graph
from models import InvalidRequest
from models.cascade import CascadeRunDecision, CascadeStep

TEXT, DNS_LABEL = {"type": "string"}, {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
STEP = {
    **dict.fromkeys(("condition", "data", "nodeName", "serviceUrl"), TEXT),
    **dict.fromkeys(("name", "serviceName"), DNS_LABEL),
    "dependency": {"enum": ["Soft", "Hard"]},
    "weight": {"type": "integer"},
}
NODE = {
    "type": "object",
    "required": ["routerType"],
    "properties": {
        "routerType": {"enum": ["Sequence", "Splitter", "Ensemble", "Switch"]},
        "steps": {"type": "array", "items": {"type": "object", "properties": STEP, "additionalProperties": False}},
    },
    "additionalProperties": False,
}
GRAPH = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "serving.kserve.io/v1alpha1"},
        "kind": {"const": "InferenceGraph"},
        "metadata": {"type": "object", "properties": {"name": DNS_LABEL}, "required": ["name"]},
        "spec": {
            "type": "object",
            "required": ["nodes"],
            "properties": {"nodes": {"type": "object", "required": ["root"], "additionalProperties": NODE}},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
"""What KServe's resource definition says of the fields written here, and Kubernetes of names; an API server prunes
fields that a definition does not have, so none may be there."""


def decision(*names: str) -> CascadeRunDecision:
    times: Any = {"execution_time": 1.0, "worst_case_time": 1.0, "probability_of_reaching": 1.0}
    steps = tuple(
        CascadeStep(classifier=name, confidence_threshold=None if name == names[-1] else 0.25, **times)
        for name in names
    )
    facts: Any = {"expected_duration": 1.0, "maximum_duration": 1.0, "deadline": None, "algorithm": "set-states"}
    return CascadeRunDecision(cascade=names, steps=steps, optimal=True, lower_bound=1.0, **facts)


@pytest.mark.parametrize(
    ("name", "classifiers"),
    [
        ("digits.v2", ("few pixels", "half", "all")),
        ("-" * 70, ("Ünïcode/1", "gpt-4o-mini@2024", "x" * 300)),
        ("A", ("alone",)),
    ],
)
def test_a_graph_is_what_its_schema_allows_and_no_more(name: str, classifiers: tuple[str, ...]) -> None:
    graph = inference_graph(name, decision(*classifiers), "outputs.1.data.0")
    assert [str(error) for error in Draft202012Validator(GRAPH).iter_errors(graph)] == []
    assert len(graph["spec"]["nodes"]["root"]["steps"]) == len(classifiers)


def test_a_step_is_taken_while_the_one_before_was_not_sure() -> None:
    graph = inference_graph("digits.v2", decision("few pixels", "half", "all"), "outputs.1.data.0")
    assert graph["metadata"] == {"name": "digits-v2"}
    node = graph["spec"]["nodes"]["root"]
    assert node["routerType"] == "Sequence"
    assert [step["serviceName"] for step in node["steps"]] == ["few-pixels", "half", "all"]
    assert node["steps"][1]["condition"] == "[@this].#(outputs.1.data.0<0.25)"
    with pytest.raises(InvalidRequest, match="a-b"):
        inference_graph("x", decision("a b", "A.b", "all"), "confidence")
