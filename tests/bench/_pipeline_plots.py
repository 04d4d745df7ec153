"""The figures of the paper's experiments as plots of what was measured here: Figure 8, and 9 to 13 in one each."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.bench._pipeline_fronts import NAMES, STAGES, Compared
from tests.bench._pipeline_study import METHODS, Study, margin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = ("conclusive accuracy", "coverage", "cost")


def plot_fronts(panels: Sequence[Compared], folder: Path) -> Path:
    """Draw Figure 8: the share of the exact front by generation, a panel for each data set and k."""
    figure = _figure(11, 8)
    axes = figure.subplots(len(NAMES), len(STAGES), sharex=True, sharey=True)
    for place, one in zip(axes.flat, panels, strict=True):
        for label, shares in (("as the paper", one.paper), ("distinct", one.distinct)):
            middle = shares.whole.mean(axis=0)
            spread = 1.96 * shares.whole.std(axis=0) / len(shares.whole) ** 0.5
            steps = np.arange(len(middle))
            place.plot(steps, middle, label=label)
            place.fill_between(steps, middle - spread, middle + spread, alpha=0.3)
        place.set(title=f"{one.name}, k = {one.stages}: front of {one.size}", ylim=(0, 1.02))
        place.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8)
    figure.supxlabel("generation")
    figure.supylabel("share of the exact front found")
    return _saved(figure, folder / "figure-8-fronts.png")


def plot_study(studies: Sequence[Study], folder: Path) -> list[Path]:
    """Draw Figures 9 to 12, one for each data set, and 13, the correct accepted answers of all."""
    made = []
    for one in studies:
        figure = _figure(11, 3.6)
        for column, (place, label) in enumerate(zip(figure.subplots(1, len(MEASURES)), MEASURES, strict=True)):
            values = [achieved[:, column] for achieved in one.methods.values()]
            place.bar(list(one.methods), [v.mean() for v in values], yerr=[margin(v) for v in values], capsize=3)
            place.set(title=f"{one.name}: {label}")
            place.tick_params("x", rotation=30)
        made.append(_saved(figure, folder / f"figures-9-to-12-{one.name}.png"))
    figure = _figure(9, 4)
    place = figure.subplots()
    width = 0.8 / len(METHODS)
    for i, method in enumerate(METHODS):
        own = [(j, one.methods[method][:, 3]) for j, one in enumerate(studies) if method in one.methods]
        places = [j + (i - (len(METHODS) - 1) / 2) * width for j, _ in own]
        place.bar(places, [v.mean() for _, v in own], width, yerr=[margin(v) for _, v in own], label=method)
    place.set_xticks(range(len(studies)), [f"{one.name}\n{one.rows} rows" for one in studies])
    place.set(ylabel="correct accepted answers")
    place.legend(fontsize=8)
    return [*made, _saved(figure, folder / "figure-13-correct.png")]


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _saved(figure: "Figure", path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
