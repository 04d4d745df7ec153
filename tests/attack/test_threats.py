"""The threat model: each claim has one name and a test that exists."""

import ast
import itertools
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
CLAIMS = re.findall(
    r"^\| ([A-Z]\d+) \| .+ \| `(tests/\S+\.py)::(\w+)` \|$", (ROOT / "deploy/THREATS.md").read_text(), re.M
)


def test_each_claim_has_a_name_of_its_own() -> None:
    names = [name for name, _, _ in CLAIMS]
    rows = re.findall(r"^\| [A-Z]\d+ \|", (ROOT / "deploy/THREATS.md").read_text(), re.M)
    assert len(names) == len(set(names)) == len(rows) > 30


def test_each_claim_stands_in_a_table() -> None:
    lines = (ROOT / "deploy/THREATS.md").read_text().splitlines()
    before = [one for one, line in itertools.pairwise(lines) if re.match(r"\| [A-Z]\d+ \|", line)]
    assert {line[:2] for line in before} == {"| ", "|-"}


def test_each_claim_has_a_test() -> None:
    functions = {
        path: {node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef)}
        for path in {path for _, path, _ in CLAIMS}
    }
    assert [(path, test) for _, path, test in CLAIMS if test not in functions[path]] == []
