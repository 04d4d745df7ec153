"""The synthetic study as plots, one for each pair of the paper's figures: means, and one standard deviation as bars."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench._index_study import ALPHAS, COMBINERS, COUNTS, PLANNED, SHARES, TEST_SIZE, Measured, Study
from tests.bench._index_tables import COARSE, EXACT, EXTREMES

Lines = Mapping[str, Sequence[Sequence[float]]]
"""By label, for each place on the x axis the values of all instances."""


def plot(study: Study, folder: Path) -> list[Path]:
    """Write all plots into a folder, each with one panel for each combiner; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, label, lines in (
        ("metric-1-expanded", "feature sets expanded", expanded_lines),
        ("metric-2-index-size", "index size", size_lines),
        ("metric-3-retrieval", "microseconds for a decision", time_lines),
    ):
        figure, panels = _start()
        for combiner, axes in zip(COMBINERS, panels, strict=True):
            metrics = [study.metrics[combiner, features] for features in COUNTS]
            _draw(axes, COUNTS, lines(metrics))
            axes.set(title=EXTREMES[combiner], xlabel="features", ylabel=label, yscale="log")
        made.append(_save(figure, panels, folder / f"{name}.png"))
    figure, panels = _start()
    for combiner, axes in zip(COMBINERS, panels, strict=True):
        curve = study.accuracy[combiner][TEST_SIZE]
        _draw(axes, SHARES, {name: curve.accuracies[name].T.tolist() for name, _, _ in PLANNED})
        axes.set(title=EXTREMES[combiner], xlabel="budget, as a share of all features' cost", ylabel="accuracy")
        axes.set_xscale("symlog", linthresh=0.01)
    made.append(_save(figure, panels, folder / "metric-4-accuracy.png"))
    return made


def expanded_lines(metrics: Sequence[Measured]) -> Lines:
    """Metric 1."""
    lines: dict[str, list[list[float]]] = {"Naive-Expand-All": [[1 << features] for features in COUNTS]}
    for alpha in ALPHAS:
        lines[f"Poly-Dom {alpha:g}"] = [[*one.expanded[alpha]] for one in metrics]
    for name in metrics[0].greedy:
        lines[name] = [[*one.greedy[name]] for one in metrics]
    return lines


def size_lines(metrics: Sequence[Measured]) -> Lines:
    """Metric 2."""
    return {
        "Poly-Dom-Index-All: skylines": [one.points_if_all[EXACT] for one in metrics],
        "Poly-Dom-Index-All: entries": [one.entries_if_all[EXACT] for one in metrics],
        "Poly-Dom: skylines": [one.points[EXACT] for one in metrics],
        "Poly-Dom: entries": [one.entries[EXACT] for one in metrics],
        "Naive-Lookup: candidates": [one.candidates[EXACT] for one in metrics],
    }


def time_lines(metrics: Sequence[Measured]) -> Lines:
    """Metric 3."""
    kinds = {
        "Naive-Lookup 0": ("naive", EXACT),
        f"Naive-Lookup {COARSE:g}": ("naive", COARSE),
        "Poly-Dom 0": ("poly-dom", EXACT),
        f"Poly-Dom {COARSE:g}": ("poly-dom", COARSE),
        "Greedy": ("greedy", EXACT),
    }
    return {label: [[1e6 * each for each in one.seconds[kind]] for one in metrics] for label, kind in kinds.items()}


def _start() -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    return figure, figure.subplots(1, len(COMBINERS), squeeze=False)[0]


def _draw(axes: Axes, places: Sequence[float], lines: Lines) -> None:
    for (label, values), style in zip(lines.items(), cycle(("-", "--", "-.", ":")), strict=False):
        middle = np.array([np.mean(each) for each in values])
        off = np.array([np.std(each) for each in values])
        below = np.minimum(off, 0.9 * middle)  # a logarithmic axis shows no negative numbers
        axes.errorbar(
            places, middle, yerr=(below, off), linestyle=style, marker="o", markersize=3, elinewidth=0.5, label=label
        )


def _save(figure: Figure, panels: Sequence[Axes], path: Path) -> Path:
    panels[0].legend(fontsize=8)
    for axes in panels:
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    return path
