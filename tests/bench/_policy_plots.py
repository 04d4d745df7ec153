"""The policy beside other methods as plots: error against features acquired, accuracy against money spent."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import _policy_features as features
from tests.bench import _policy_traces as traces

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_features(studies: Sequence[features.Compared], folder: Path) -> Path:
    """Draw test error against the features acquired, a panel for each data set."""
    figure = _figure(5 * len(studies), 4)
    for place, one in zip(figure.subplots(1, len(studies), squeeze=False).flat, studies, strict=True):
        for method, values in one.methods.items():
            accuracy, count = values.mean(axis=0).T
            place.plot(count, 100 * (1 - accuracy), marker="o", markersize=3, label=method)
        place.axhline(100 * (1 - one.whole.mean()), color="grey", linestyle=":", label=f"all {one.features} features")
        place.set(title=one.name, xlabel="features acquired, mean", ylabel="test error, %")
        place.legend(fontsize=8)
        place.grid(alpha=0.3)
    return _saved(figure, folder / "policy-features.png")


def plot_traces(compared: Sequence[traces.Compared], folder: Path) -> Path:
    """Draw test accuracy against spend, a panel for each trace."""
    rows = -(-len(compared) // 3)
    figure = _figure(13, 4 * rows)
    panels = figure.subplots(rows, min(len(compared), 3), squeeze=False).ravel()
    for one, place in zip(compared, panels, strict=False):
        place.plot(traces.SHARES, traces.FRUGALML[one.name], marker="s", markersize=3, label="FrugalML")
        for method, values in one.methods.items():
            accuracy, spent = values.mean(axis=0).T
            place.plot(spent * traces.SHARES, accuracy, marker="o", markersize=3, label=method)
        place.set(title=one.name, xlabel="spent, as a share of the dearest price", ylabel="test accuracy")
        place.legend(fontsize=8)
        place.grid(alpha=0.3)
    for place in panels[len(compared) :]:
        place.set_visible(False)
    return _saved(figure, folder / "policy-traces.png")


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _saved(figure: "Figure", path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
