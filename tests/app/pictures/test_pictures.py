"""Pictures of artifacts: each kind's is written, tells what its plan says, and comes out the same every time."""

from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from app.charts import draw, save
from app.charts.canvas import MIN_SPAN, OWN_FONT, font_families, format_percent_axis
from app.serving.catalog import LoadedArtifact
from app.serving.curve import make_curve_reply
from models import Dataset, FeaturesSpec, TraceSpec, dataset_from_columns
from solvers import KINDS
from tests.solvers.policy.problems import QUICK
from tests.support import stored
from tests.support.cases import first_quick
from tests.support.kinds import SAMPLES, dataset
from tests.support.replays import built
from tests.support.samples import trace_columns

PARAMS: dict[str, dict[str, Any]] = {
    **{kind: sample.params for kind, sample in SAMPLES.items()},
    "portfolio": {"curve_points": 3, "samples": {"count": 10, "size": 50}},
    "policy": QUICK.model_dump(),
}
"""Those of the sample artifacts, but nothing is compiled."""


def dataset_for(kind: str) -> Dataset:
    name = SAMPLES[kind].dataset
    return stored.features(60) if name == "features" else dataset(name)


@cache
def sample(kind: str) -> LoadedArtifact[Any]:
    return built(kind, dataset_for(kind), **PARAMS[kind])


def drawn(artifact: LoadedArtifact[Any], folder: Path) -> tuple[list[Axes], list[str]]:
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
    return [axes for axes in figure.axes if axes.get_ylabel() != "correct"], texts


@pytest.mark.parametrize("kind", first_quick(KINDS, 2))
def test_every_subject_has_a_png_of_twice_a_page_and_an_svg(kind: str, tmp_path: Path) -> None:
    for path in (tmp_path / "a.png", tmp_path / "b.PNG", tmp_path / "a.svg", tmp_path / "b.svg"):
        save(lambda: draw(sample(kind)), path)
    data = (tmp_path / "a.png").read_bytes()
    assert data == (tmp_path / "b.PNG").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(data[16:20]) == 1600
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_points_are_those_of_the_curve(kind: str, tmp_path: Path) -> None:
    (panel,), _ = drawn(sample(kind), tmp_path)
    points = make_curve_reply(sample(kind), KINDS[kind].curve_query()).points
    (line,) = [line for line in panel.lines if line.get_label() == "this artifact" or line.get_linestyle() == "-"][:1]
    assert np.asarray(line.get_xdata()).tolist() == [one.expected.cost or one.expected.time or 0 for one in points]
    assert np.asarray(line.get_ydata()).tolist() == [one.expected.accuracy for one in points]


def index_of(costs: list[Any], size: str | list[str] | None = None, **params: Any) -> LoadedArtifact[Any]:
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
    ("costs", "size", "params"),
    first_quick(
        [
            ([{"polynomial": [9.0, 0.1]}, {"polynomial": [0.0, 0.2]}], "s", {"fixed_budget": 9.5}),
            ([{"polynomial": [9.0, 0.1]}, {"polynomial": [0.0, 0.2]}], "s", {"fixed_size": 10.0}),
            ([{"polynomial": [0.0, 0.0]}, {"polynomial": [0.0, 0.0]}], "s", {}),
            ([2.0, 0.5], None, {}),
            ([SQUARE, 2.0], ["w", "h"], {}),
        ],
        2,
    ),
)
def test_indexes_of_all_kinds_are_drawn(costs: list[Any], size: Any, params: dict[str, Any], tmp_path: Path) -> None:
    drawn(index_of(costs, size, **params), tmp_path)


def test_shares_that_hardly_differ_are_drawn_hardly_apart_and_letters_without_a_font_are_known(tmp_path: Path) -> None:
    axes = Figure().subplots()
    axes.plot([0, 1], [0.999, 0.9995])
    format_percent_axis(axes)
    low, high = axes.get_ylim()
    assert high - low == pytest.approx(MIN_SPAN)
    assert low < 0.999 < 0.9995 < high
    assert font_families()[0] == OWN_FONT
    for text, legible in (("plain", True), ("\U0010fffd", False)):
        figure = Figure()
        figure.text(0.5, 0.5, text)
        assert save(lambda figure=figure: figure, tmp_path / "letters.png") is legible  # type: ignore[misc]


@pytest.mark.slow
def test_names_of_any_kind_fit_into_the_picture(tmp_path: Path) -> None:
    names = ["_hidden", "$x^{$", "w" * 200]
    columns = {each: np.array(cells) for each, cells in trace_columns(200).items()}
    spec = stored.trace().spec.model_dump()
    for classifier, name in zip(spec["classifiers"], names, strict=True):
        classifier["name"] = name
    dataset = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    more = PARAMS["policy"] | {"points": 10, "trees": 40}  # so that a way passes all sensors
    for kind, params in (("cascade", {"target_precision": 0.9}), ("policy", more)):
        _, texts = drawn(built(kind, dataset, **params), tmp_path)
        said = " ".join(texts)
        assert all(name in said for name in ("_hidden", "$x^{$", "www"))
