"""The threat model: each claim has one name and a test that exists."""

import ast
import itertools
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy/THREATS.md").read_text()
CLAIMS = re.findall(r"^\| ([A-Z]\d+) \| .+ \| `(tests/\S+\.py)::(\w+)` \|$", TEXT, re.M)


def test_each_claim_has_a_name_of_its_own_in_a_table_and_a_test() -> None:
    names = [name for name, _, _ in CLAIMS]
    assert len(names) == len(set(names)) == len(re.findall(r"^\| [A-Z]\d+ \|", TEXT, re.M)) > 30
    before = [one for one, line in itertools.pairwise(TEXT.splitlines()) if re.match(r"\| [A-Z]\d+ \|", line)]
    assert {line[:2] for line in before} == {"| ", "|-"}
    functions = {
        path: {node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef)}
        for path in {path for _, path, _ in CLAIMS}
    }
    assert [(path, test) for _, path, test in CLAIMS if test not in functions[path]] == []
