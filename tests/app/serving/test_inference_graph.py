"""A cascade written for KServe is what its custom resource may be."""

from typing import Any

import pytest

from app.serving.inference_graph import inference_graph
from models import InvalidRequest
from models.cascade import CascadeRunDecision, CascadeStep

ROUTERS = {"Sequence", "Splitter", "Ensemble", "Switch"}
STEP = {"condition", "data", "name", "nodeName", "serviceName", "serviceUrl"}
"""Fields of a step that are texts, as of the schema ``serving.kserve.io/v1alpha1``; an API server prunes any other."""


def decision(*names: str) -> CascadeRunDecision:
    """Make a cascade of these, the last one taken whatever it says."""
    steps = tuple(
        CascadeStep(
            classifier=name,
            confidence_threshold=None if name == names[-1] else 0.25,
            execution_time=1.0,
            worst_case_time=1.0,
            probability_of_reaching=1.0,
        )
        for name in names
    )
    facts: Any = {"expected_duration": 1.0, "maximum_duration": 1.0, "deadline": None, "algorithm": "set-states"}
    return CascadeRunDecision(cascade=names, steps=steps, optimal=True, lower_bound=1.0, **facts)


def test_a_graph_has_the_fields_of_its_schema_and_no_others() -> None:
    graph = inference_graph("digits.v2", decision("few pixels", "half", "all"), "outputs.1.data.0")
    assert set(graph) == {"apiVersion", "kind", "metadata", "spec"}
    assert graph["metadata"] == {"name": "digits-v2"}
    assert set(graph["spec"]) == {"nodes"}
    (node,) = graph["spec"]["nodes"].values()
    assert set(node) == {"routerType", "steps"}
    assert node["routerType"] in ROUTERS
    for step in node["steps"]:
        assert set(step) <= STEP
        assert all(isinstance(value, str) for value in step.values())
    assert [step["serviceName"] for step in node["steps"]] == ["few-pixels", "half", "all"]
    assert node["steps"][1]["condition"] == "[@this].#(outputs.1.data.0<0.25)"


def test_classifiers_that_would_have_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="a-b"):
        inference_graph("x", decision("a b", "A.b", "all"), "confidence")
