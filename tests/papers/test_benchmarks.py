"""The reader of KEEL tables, and the benchmarks that reproduce the papers' results, on tiny settings."""

import argparse
import math
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from solvers.cascade import solve
from tests.bench import _keel, features, index, pipeline, routing
from tests.bench._outcomes import Outcomes
from tests.papers.idk_examples import EXAMPLES, Example

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"
COMMANDS = sorted(set(re.findall(r"`parsimony bench ([^`]+)`", PAGE.read_text())))


@pytest.fixture
def keel() -> None:
    """Skip a test where the tables are missing."""
    if not _keel.DATA.exists():
        pytest.skip("the KEEL tables are missing; run make bench-data")


TEXT = """@relation drinks
@attribute strength real [0.0, 9.0]
@attribute color {red, blue}
@attribute class {weak, strong}
@inputs strength, color
@outputs class
@data
1.5, red, weak
9, blue, strong

?, blue, weak
"""


def test_a_keel_table_has_numbers_names_and_missing_cells() -> None:
    table = _keel.parse_table(TEXT)
    assert table.values[:2].tolist() == [[1.5, 1.0], [9.0, 0.0]]
    assert math.isnan(table.values[2, 0])
    assert table.nominal == (1,)
    assert table.classes == ("strong", "weak")
    assert table.labels.tolist() == [1, 0, 1]


def test_a_keel_table_needs_no_header() -> None:
    assert _keel.parse_table("3,1\n4,0").values.tolist() == [[3.0], [4.0]]


def test_groups_of_columns_are_features_of_cost_1() -> None:
    dataset = _keel.parse_table("1,2,3,no\n4,5,6,yes\n").to_features({"first": (0, 2), "second": (1,)})
    assert [feature.name for feature in dataset.spec.features] == ["first", "second"]
    assert dataset.values.tolist() == [[1.0, 3.0, 2.0], [4.0, 6.0, 5.0]]


def test_missing_data_exit_with_status_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_keel, "DATA", tmp_path)
    with pytest.raises(SystemExit) as exit_:
        _keel.load_table("pima")
    assert exit_.value.code == 2


class Parsed(Exception):
    """The arguments were parsed."""


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_the_papers_page_parses(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_only(self: argparse.ArgumentParser, arguments: list[str]) -> None:
        parse(self, arguments)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    name, *arguments = command.split()
    with pytest.raises(Parsed):
        import_module(f"tests.bench.{name}").main(arguments)


def test_the_papers_page_has_a_command_for_each_kind() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"cascade", "features", "index", "pipeline", "routing"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: f"{one.name}, deadline {one.deadline}")
def test_each_example_that_the_benchmark_prints_has_the_papers_optimum(example: Example) -> None:
    found = solve(example.classifiers, deadline=example.deadline, dependence=example.dependence)
    assert " ".join(found.cascade) == example.cascade
    assert found.expected_duration == pytest.approx(example.expected, rel=1e-12)


@pytest.mark.parametrize("interaction", [0.0, 1.0])
def test_the_synthetic_study_prunes_and_is_never_behind_greedy(interaction: float) -> None:
    drawn = index.Studied.draw(0, interaction)
    exact, within_alpha, greedy, candidates, entries, every = drawn.counts
    assert within_alpha <= exact <= 1024
    assert greedy <= 1024
    assert candidates <= exact
    assert entries <= every
    assert np.all(drawn.accuracies[0] >= drawn.accuracies[1:])


@pytest.mark.usefixtures("keel")
def test_pipelines_are_measured_on_a_split() -> None:
    achieved = pipeline.measure_split(pipeline.CASES["pima"], 0)
    assert achieved["single stage"].coverage == 1
    assert achieved["single stage"].cost == 1600
    assert achieved["EMSCO"].cost < achieved["n stages"].cost < 1600
    assert achieved["EMSCO"].right <= 192


@pytest.mark.usefixtures("keel")
def test_the_exact_front_of_pima_is_found_by_emsco() -> None:
    prepared = pipeline.Prepared.cut(pipeline.CASES["pima"], 0)
    size, found = pipeline.count_found(prepared, 2, 0)
    assert found == size


@pytest.mark.usefixtures("keel")
def test_three_sensors_of_pima_are_compared() -> None:
    learn, test = features.parts("pima-sensors", 1000)
    assert [feature.name for feature in learn.spec.features] == list(features.PIMA_SENSORS)
    assert (learn.rows + test.rows, learn.values.shape[1]) == (768, 8)


@pytest.mark.slow
@pytest.mark.usefixtures("keel")
def test_accuracy_drops_of_routers_are_measured() -> None:
    lost = routing.measure_lost_accuracy(Outcomes.of("optdigits"), 0)
    assert {values.shape for values in lost.values()} == {(3,)}
    assert np.all(lost["OCCAM"] < lost["random"])
