"""Pictures of artifacts: each subject's is written, tells what its plan says, and comes out the same every time."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from app.pictures import draw, save
from app.pictures.canvas import LEAST_SPAN, OWN_FONT, distinct_names, families, percents, shown
from app.pictures.index import MOST_NAMED
from app.serving.answers import expected_of
from app.serving.catalog import Live
from models import Dataset, FeaturesSpec, TraceSpec, dataset_from_columns
from models.cascade import CascadeQuery
from models.errors import Conflict
from solvers import KINDS
from solvers.index.assemble import plan_without_models
from solvers.index.costs import Costs
from tests.solvers.pipeline.test_fit import wide
from tests.solvers.policy.problems import QUICK
from tests.support import stored
from tests.support.replays import built
from tests.support.samples import trace_columns
from tests.support.subjects import SAMPLES, dataset

PARAMS: dict[str, dict[str, Any]] = {
    **{solver: sample.params for solver, sample in SAMPLES.items()},
    "portfolio": {"metric": "l2", "curve_points": 3, "samples": {"count": 10, "size": 50}},
    "policy": QUICK.model_dump(),
}
"""Those of the sample artifacts, but nothing is compiled."""


def dataset_for(solver: str) -> Dataset:
    """Make what a subject's sample artifact learns from."""
    name = SAMPLES[solver].dataset
    return stored.features(60) if name == "features" else dataset(name)


@cache
def sample(solver: str) -> Live[Any]:
    """Fit a subject's sample artifact."""
    return built(solver, dataset_for(solver), **PARAMS[solver])


def drawn(artifact: Live[Any], folder: Path) -> tuple[list[Axes], list[str]]:
    """Write a picture; give its panels above what it is worth and all that is written in it, once everything in it lies
    within its frame."""
    kept: list[Figure] = []

    def drawing() -> Figure:
        kept.append(draw(artifact))
        return kept[0]

    save(drawing, folder / "drawn.png")
    (figure,) = kept
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -0.01
    texts = [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]
    return [axes for axes in figure.axes if axes.get_ylabel() != "right"], texts


@pytest.mark.parametrize("solver", KINDS)
def test_every_subject_has_a_png_of_twice_a_page_and_an_svg(solver: str, tmp_path: Path) -> None:
    for path in (tmp_path / "a.png", tmp_path / "b.PNG", tmp_path / "a.svg", tmp_path / "b.svg"):
        save(lambda: draw(sample(solver)), path)
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(data[16:20]) == 1600
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert data == (tmp_path / "b.PNG").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("solver", KINDS)
def test_below_every_picture_stand_the_simple_alternatives_by_name(solver: str, tmp_path: Path) -> None:
    worth = sample(solver).record.worth
    assert worth is not None
    texts = " ".join(drawn(sample(solver), tmp_path)[1]).replace("\n", " ")
    assert worth.headline in texts
    assert shown(worth.decision) in texts
    best = max(worth.alternatives, key=lambda one: one.accuracy)
    assert best.name[:20] in texts


@pytest.mark.parametrize(
    ("solver", "labels"),
    [
        ("cascade", ["deadline, ms", "expected duration, ms", "fast", "middle", "strong"]),
        ("index", ["size", "budget, ms", "cost, ms", "accuracy"]),
        ("portfolio", ["budget of a query on average, ms", "accuracy", "whole batches, by OCCAM", "oracle", "middle"]),
        ("pipeline", ["cost of an item on average, min", "accuracy of accepted answers", "coverage"]),
        ("policy", ["cost of an item on average, ms", "errors", "sensors acquired", "fast", "are answered here"]),
    ],
)
def test_axes_are_labelled_with_their_unit_and_colours_explained(
    solver: str, labels: list[str], tmp_path: Path
) -> None:
    _, texts = drawn(sample(solver), tmp_path)
    assert set(labels) <= set(texts)


def test_the_steps_are_those_of_the_plan(tmp_path: Path) -> None:
    panels, texts = drawn(sample("cascade"), tmp_path)
    ranges = sample("cascade").plan.ranges()
    line = panels[0].lines[0]
    assert np.asarray(line.get_xdata()).tolist() == [each.deadline_from for each in ranges]
    assert np.asarray(line.get_ydata()).tolist() == [each.expected_duration for each in ranges]
    worth = sample("cascade").record.worth
    assert worth is not None
    steps = sample("cascade").plan.decide(CascadeQuery.model_validate(worth.query)).steps
    bars = [patch for patch in panels[1].patches if isinstance(patch, Rectangle)]
    assert [bar.get_width() for bar in bars] == [step.execution_time for step in steps]
    assert [f" {step.probability_of_reaching:.1%} of items" in texts for step in steps] == [True] * len(steps)


def test_the_front_has_a_dot_for_each_configuration(tmp_path: Path) -> None:
    panels, _ = drawn(sample("pipeline"), tmp_path)
    scattered = [some for some in panels[0].collections if isinstance(some, PathCollection)]
    dots = [dot for some in scattered for dot in np.asarray(some.get_offsets()).tolist()]
    assert sorted(dots) == sorted([each.cost, each.conclusive_accuracy] for each in sample("pipeline").plan.frontier())


@pytest.mark.parametrize("at_the_end", ["reject", "answer"])
def test_many_numbers_of_stages_are_explained_beside_the_title_not_over_it(at_the_end: str, tmp_path: Path) -> None:
    front = built("pipeline", wide(features=7), confidence_threshold=0.6, max_stages=7, at_the_end=at_the_end)
    panels, texts = drawn(front, tmp_path)
    legend = panels[0].get_legend()
    assert legend is not None
    assert len(legend.get_texts()) >= 5
    titles = [text for text in panels[0].texts + panels[0].get_children() if isinstance(text, Text)]
    (title,) = [text for text in titles if text.get_text().startswith("Every configuration")]
    over, under = title.get_window_extent(), legend.get_window_extent()
    assert not over.overlaps(under)
    assert not under.overlaps(panels[0].bbox)
    assert ("coverage" in texts) == (at_the_end == "reject"), "the coverage of all is 1"


def test_the_front_shows_where_its_figures_lie(tmp_path: Path) -> None:
    panels, _ = drawn(sample("pipeline"), tmp_path)
    lines = [some for some in panels[0].collections if isinstance(some, LineCollection)]
    drawn_bars = {tuple(map(tuple, segment.tolist())) for some in lines for segment in some.get_segments()}
    plan = sample("pipeline").plan
    for item in plan.frontier():
        expected = expected_of(sample("pipeline"), None, item)
        (low, high), level = expected["cost_interval"], item.conclusive_accuracy
        assert any(np.allclose(bar, ((low, level), (high, level))) for bar in drawn_bars)


def test_every_method_and_budget_of_a_portfolio_is_drawn(tmp_path: Path) -> None:
    panels, _ = drawn(sample("portfolio"), tmp_path)
    curves = sample("portfolio").plan.curves()
    assert [np.asarray(line.get_ydata()).tolist() for line in panels[0].lines] == [
        [point.accuracy for point in curve.points] for curve in curves
    ]


def test_a_policy_without_counted_traffic_is_not_drawn(tmp_path: Path) -> None:
    artifact = sample("policy")
    older = replace(artifact, record=artifact.record.model_copy(update={"summary": {}}))
    with pytest.raises(Conflict, match="build it again"):
        save(lambda: draw(older), tmp_path / "x.svg")


def index_of(costs: list[Any], size: str | list[str] | None = None, **params: Any) -> Live[Any]:
    """Index features of one column each, with these costs; the first tells most."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 60)
    columns: dict[str, Any] = {f"f{i}": label + 0.5 * (i + 1) * rng.normal(size=60) for i in range(len(costs))}
    sides = {name: rng.integers(1, 100, 60) for name in ([size] if isinstance(size, str) else size or [])}
    listed = [{"name": f"f{i}", "columns": [f"f{i}"], "cost": cost} for i, cost in enumerate(costs)]
    spec = {"kind": "features", "label": "y", "unit": "ms", "size": size, "features": listed}
    table = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, **sides, "y": label})
    return built("index", table, folds=2, **params)


SQUARE = {"terms": [{"coefficient": 0.1, "powers": [1, 1]}]}


@pytest.mark.parametrize(
    ("costs", "size", "params", "panels"),
    [
        ([{"polynomial": [9.0, 0.1]}, {"polynomial": [0.0, 0.2]}], "s", {}, 2),
        ([{"polynomial": [9.0, 0.1]}, {"polynomial": [0.0, 0.2]}], "s", {"fixed_budget": 9.5}, 2),
        ([{"polynomial": [9.0, 0.1]}, {"polynomial": [0.0, 0.2]}], "s", {"fixed_size": 10.0}, 1),
        ([{"polynomial": [0.0, 0.0]}, {"polynomial": [0.0, 0.0]}], "s", {}, 2),
        ([2.0, 0.5], None, {}, 1),
        ([SQUARE, 2.0], ["w", "h"], {}, 1),
    ],
)
def test_indexes_of_all_kinds_are_drawn(
    costs: list[Any], size: Any, params: dict[str, Any], panels: int, tmp_path: Path
) -> None:
    drawn_panels, texts = drawn(index_of(costs, size, **params), tmp_path)
    assert len(drawn_panels) == panels
    assert ("budget, ms" in texts) == (panels == 2)


def test_of_many_sets_those_are_named_that_win_most(tmp_path: Path) -> None:
    costs = Costs(np.array([[0], [1]]), np.array([[2.0**f, 0.0] for f in range(5)]))
    plan = plan_without_models(lambda masks: [0.5 + mask / 100 for mask in masks], costs).plan
    _, texts = drawn(replace(index_of([2.0]), plan=plan), tmp_path)
    (title,) = [text for text in texts if text.startswith("accuracy and features")]
    assert title == f"accuracy and features\n{MOST_NAMED} of 31"  # every budget buys one feature
    assert len([text for text in texts if "%  " in text]) == MOST_NAMED


def test_shares_that_hardly_differ_are_drawn_hardly_apart() -> None:
    axes = Figure().subplots()
    axes.plot([0, 1], [0.999, 0.9995])
    percents(axes)
    low, high = axes.get_ylim()
    assert high - low == pytest.approx(LEAST_SPAN)
    assert low < 0.999 < 0.9995 < high


def test_names_of_any_kind_fit_into_the_picture(tmp_path: Path) -> None:
    names = ["_hidden", "$x^{$", "w" * 200]
    columns = {each: np.array(cells) for each, cells in trace_columns(200).items()}
    spec = stored.trace().spec.model_dump()
    for classifier, name in zip(spec["classifiers"], names, strict=True):
        classifier["name"] = name
    dataset = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    for solver, params in (("cascade", {"target_precision": 0.9}), ("policy", PARAMS["policy"])):
        _, texts = drawn(built(solver, dataset, **params), tmp_path)
        assert {" _hidden", "$x^{$", "w" * 27 + "…"} <= set(texts)


def test_whether_every_letter_has_a_font_is_known(tmp_path: Path) -> None:
    assert families()[0] == OWN_FONT
    for text, legible in (("plain", True), ("\U0010fffd", False)):
        figure = Figure()
        figure.text(0.5, 0.5, text)
        assert save(lambda figure=figure: figure, tmp_path / "letters.png") is legible  # type: ignore[misc]


def test_equal_beginnings_are_told_apart_in_a_legend() -> None:
    names = [f"one classifier on a very long name of a sensor + {last}" for last in ("near", "far", "wide", "near")]
    labels = distinct_names(names, [shown(name) for name in names])
    assert len(set(labels)) == len(names)
    assert all(len(label) <= len(shown(names[0])) for label in labels)
    assert distinct_names(["fast", "strong"], ["fast", "strong"]) == ["fast", "strong"]


def test_the_legend_of_a_cascade_does_not_cover_its_title(tmp_path: Path) -> None:
    figure = draw(sample("cascade"))
    figure.savefig(tmp_path / "drawn.png")
    axes = figure.axes[0]
    legend = axes.get_legend()
    title = next(text for text in axes.findobj(Text) if isinstance(text, Text) and "every deadline" in text.get_text())
    assert legend is not None
    assert not legend.get_window_extent().overlaps(title.get_window_extent())
