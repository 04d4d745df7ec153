"""Build options that concern chats."""

import pytest

from models import DatasetFacts, InvalidRequest, TraceSpec
from models.cascade import CascadeOptions
from solvers.chat_rules import check_tool_rule

SPEC = TraceSpec.model_validate(
    {
        "kind": "trace",
        "unit": "USD",
        "classifiers": [{"name": name, "cost": 1.0, "correct": name, "confidence": name} for name in ("a", "b")],
    }
)
FACTS = DatasetFacts(spec=SPEC, rows=100, columns=(), classes=(), embedding_dimensions=0)


@pytest.mark.parametrize("rule", ["decide", "strongest", "a", "b"])
def test_a_rule_for_tools_names_a_classifier_of_the_dataset(rule: str) -> None:
    check_tool_rule(FACTS, CascadeOptions(tools=rule))


def test_other_rules_for_tools_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidRequest, match="decide, strongest, a, b, got 'c'"):
        check_tool_rule(FACTS, CascadeOptions(tools="c"))
