"""Pictures of artifacts: accuracy against cost, with intervals and baselines, for every kind."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.pictures.canvas import (
    QUIET,
    SUFFIXES,
    make_logarithmic,
    make_panels,
    percent_axis,
    save,
    series_color,
    short_name,
)
from app.serving.catalog import LoadedArtifact
from app.serving.curve import curve_of
from models.curve import Baseline, CurvePoint
from models.savings import Interval
from solvers.base import Plan

__all__ = ["SUFFIXES", "draw", "save"]

MARKERS = ("s", "D", "x", "v", "^", "P", "*")


def draw(loaded: LoadedArtifact[Plan]) -> Figure:
    """Draw the trade-off curve and the savings of an artifact."""
    curve = curve_of(loaded, loaded.kind.curve_query())
    picture, (axes,) = make_panels(loaded.record, 4.0)
    for place, one in enumerate(one for one in curve.baselines if len(one.points) > 1):
        _draw_baseline(axes, one, place)
    _draw_points(axes, curve.points)
    make_logarithmic(axes, "x", np.array([point.expected.cost or point.expected.time or 0.0 for point in curve.points]))
    percent_axis(axes)
    axes.set(
        title="Accuracy against cost, with 95 % intervals",
        xlabel=f"cost of an item on average, {loaded.record.unit}",
        ylabel="accuracy",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), alignment="left")
    return picture


def _draw_points(axes: Axes, points: tuple[CurvePoint, ...]) -> None:
    known = [point.expected for point in points if point.expected.accuracy is not None]
    costs = [one.cost if one.cost is not None else one.time or 0.0 for one in known]
    accuracies = [one.accuracy or 0.0 for one in known]
    axes.errorbar(
        costs,
        accuracies,
        yerr=_distances(accuracies, [one.accuracy_interval for one in known]),
        xerr=_distances(costs, [one.cost_interval or one.time_interval for one in known]),
        fmt="o-",
        color=series_color(0),
        ecolor=QUIET,
        elinewidth=0.6,
        label="this artifact",
    )


def _distances(values: list[float], intervals: list[Interval | None]) -> list[list[float]]:
    """Return how far the ends of intervals are below and above values; 0 without an interval."""
    ends = [(value, value) if one is None else one for value, one in zip(values, intervals, strict=True)]
    below = [max(value - low, 0.0) for value, (low, _) in zip(values, ends, strict=True)]
    return [below, [max(high - value, 0.0) for value, (_, high) in zip(values, ends, strict=True)]]


def _draw_baseline(axes: Axes, one: Baseline, place: int) -> None:
    axes.plot(
        [point.cost for point in one.points],
        [point.accuracy for point in one.points],
        color=series_color(place + 1),
        linestyle="--",
        linewidth=1,
        marker=MARKERS[place % len(MARKERS)],
        markersize=4,
        label=short_name(one.name),
    )
