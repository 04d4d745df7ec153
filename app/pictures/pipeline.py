"""A pipeline: every configuration of the front, accuracy over cost, coloured by coverage."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from app.pictures.canvas import ORDERED, QUIET, logarithmic, panels, percents
from app.serving.answers import expected_of
from app.serving.catalog import Live
from models.pipeline import Configuration
from models.worth import Interval
from solvers.pipeline import PipelinePlan

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""By the number of stages; more take the last one."""
MOST_IN_A_LINE, LINE_POINTS = 4, 14
"""Numbers of stages that are explained in one line; the height of a line."""
LEAST_SPAN = 0.05
"""Colours go over so much of the coverage at least."""


def draw(live: Live[PipelinePlan]) -> Figure:
    """Draw the front; markers tell the number of stages."""
    items: tuple[Configuration, ...] = live.plan.frontier()
    picture, (axes,) = panels(live.record, 4.0)
    costs, levels, covered = (
        np.array([getattr(item, what) for item in items]) for what in ("cost", "conclusive_accuracy", "coverage")
    )
    stages = np.array([len(item.stages) for item in items])
    most = float(covered.max())
    least = max(min(float(covered.min()), most - LEAST_SPAN), 0.0)
    _bars(axes, live, items)
    for count in np.unique(stages).tolist():
        some = stages == count
        dots = axes.scatter(
            costs[some],
            levels[some],
            c=covered[some],
            vmin=least,
            vmax=max(most, least + LEAST_SPAN),
            cmap=ORDERED,
            marker=_marker(count),
            s=32,
            edgecolors=QUIET,
            linewidths=0.5,
        )
    percents(axes)
    axes.set(
        xlabel=f"cost of an item on average, {live.record.unit}",
        ylabel="accuracy of accepted answers",
    )
    logarithmic(axes, "x", costs)
    if live.plan.at_the_end == "reject":
        picture.colorbar(dots, ax=axes, label="coverage", format=PercentFormatter(xmax=1.0, decimals=0), pad=0.02)
    _explain(axes, np.unique(stages).tolist())
    return picture


def _bars(axes: Axes, live: Live[PipelinePlan], items: tuple[Configuration, ...]) -> None:
    """Draw where cost and accuracy of each lie, with 95 % confidence."""
    for item in items:
        expected = expected_of(live, None, item)
        level = item.conclusive_accuracy
        off = _off(item.cost, expected.get("cost_interval")), _off(level, expected.get("accuracy_interval"))
        axes.errorbar(item.cost, level, yerr=off[1], xerr=off[0], ecolor=QUIET, elinewidth=0.6, fmt="none", zorder=0)


def _off(value: float, interval: Interval | None) -> list[list[float]] | None:
    """Say how far the ends of an interval are from what it is of: below and above; None without an interval."""
    if interval is None:
        return None
    return [[max(value - interval[0], 0.0)], [max(interval[1] - value, 0.0)]]


def _marker(count: int) -> str:
    return MARKERS[min(count, len(MARKERS)) - 1]


def _explain(axes: Axes, counts: list[int]) -> None:
    """Explain the markers above the panel, where no data are, and above them say what is drawn."""
    handles = [
        Line2D(
            [], [], marker=_marker(count), linestyle="", color=QUIET, label=f"{count} stage{'s' if count > 1 else ''}"
        )
        for count in counts
    ]
    columns = min(len(counts), MOST_IN_A_LINE)
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.2)
    axes.set_title("Every configuration that no other one beats", pad=6 + LINE_POINTS * -(-len(counts) // columns))
