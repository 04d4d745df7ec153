"""A portfolio: the accuracy of each method over budgets, and which classifiers whole batches are sent to."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.pictures.canvas import QUIET, colour, legend, panels, percents, shown
from app.serving.catalog import Live
from models.portfolio_curves import Curve
from solvers.portfolio import PortfolioPlan

OURS = ("batch", "route")
"""The others are baselines, and dashed."""
NAMES = {
    "batch": "whole batches",
    "route": "single queries",
    "single_best": "single best classifier",
    "random": "random",
    "frugal_mct": "FrugalMCT",
    "oracle": "oracle",
}
MARKERS = ("o", "s", "D", "x", "v", "^", "P", "*")


def draw(live: Live[PortfolioPlan]) -> Figure:
    """Draw accuracy above usage, over the same budgets."""
    curves: tuple[Curve, ...] = live.plan.curves()
    picture, (above, below) = panels(live.record, 3.3, 2.3)
    above.sharex(below)
    above.tick_params(labelbottom=False)
    _accuracies(above, curves, live.plan.estimator)
    batches = next((curve for curve in curves if curve.method == "batch"), curves[0])
    _usage(below, batches, f"budget of a query on average, {live.record.unit}")
    return picture


def _label(method: str, estimator: str) -> str:
    """Name a method; ours by the estimator that it uses."""
    name = NAMES.get(method, shown(method))
    return f"{name}, by {'OCCAM' if estimator == 'occam' else estimator}" if method in OURS else name


def _accuracies(axes: Axes, curves: tuple[Curve, ...], estimator: str) -> None:
    for place, curve in enumerate(curves):
        ours = curve.method in OURS
        axes.plot(
            [point.budget for point in curve.points],
            [point.accuracy for point in curve.points],
            color=colour(place),
            linestyle="-" if ours else "--",
            linewidth=2 if ours else 1,
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            label=_label(curve.method, estimator),
        )
    percents(axes)
    axes.set(title="Accuracy on held-out items over the budget", ylabel="accuracy")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), title="method", alignment="left")


def _usage(axes: Axes, curve: Curve, budget: str) -> None:
    """Stack the share of the queries that each classifier gets."""
    names = list(curve.points[0].usage)
    counts = np.array([[point.usage[name] for point in curve.points] for name in names], dtype=np.float64)
    shares = counts / np.maximum(counts.sum(axis=0), 1.0)
    used = [i for i in range(len(names)) if shares[i].any()]
    colours = [colour(i) for i in range(len(used))]
    budgets = [point.budget for point in curve.points]
    axes.stackplot(budgets, shares[used], colors=colours, edgecolor="white", linewidth=0.5)
    percents(axes)
    axes.set(title="Which classifiers whole batches are sent to", xlabel=budget, ylabel="queries", ylim=(0, 1))
    axes.spines["bottom"].set_color(QUIET)
    legend(axes, [shown(names[i]) for i in reversed(used)], colours[::-1], "classifier")
