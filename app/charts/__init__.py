"""Charts of artifacts: accuracy against cost, with intervals and baselines."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.charts.canvas import (
    MUTED_COLOR,
    SUFFIXES,
    format_percent_axis,
    make_panels,
    quality_label,
    save,
    series_color,
    set_log_scale,
    shorten_name,
)
from app.serving.catalog import LoadedArtifact
from app.serving.curve import make_curve_reply
from models.curve import Baseline, CurvePoint
from models.losses import LossPrices
from models.savings import ExpectedOutcome, Interval
from solvers.base import Plan

__all__ = ["SUFFIXES", "draw", "save"]

MARKERS = ("s", "D", "x", "v", "^", "P", "*")


def draw(loaded: LoadedArtifact[Plan]) -> Figure:
    """Draw the trade-off curve and the savings of an artifact."""
    curve = make_curve_reply(loaded, loaded.kind.curve_query())
    picture, (axes,) = make_panels(loaded.record, 4.0)
    for place, one in enumerate(one for one in curve.baselines if len(one.points) > 1):
        _draw_baseline(axes, one, place)
    losses = loaded.record.losses
    _draw_points(axes, curve.points, losses)
    set_log_scale(axes, "x", np.array([point.expected.cost or point.expected.time or 0.0 for point in curve.points]))
    format_percent_axis(axes)
    axes.set(
        title="Quality against cost, with 95 % intervals",
        xlabel=f"cost of an item on average, {loaded.record.unit}",
        ylabel=quality_label(losses is not None),
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), alignment="left")
    return picture


def _draw_points(axes: Axes, points: tuple[CurvePoint, ...], losses: LossPrices | None) -> None:
    known = [point.expected for point in points if point.expected.accuracy is not None or losses is not None]
    costs = [one.cost if one.cost is not None else one.time or 0.0 for one in known]
    qualities = [_quality(one, losses) for one in known]
    axes.errorbar(
        costs,
        [value for value, _ in qualities],
        yerr=_distances([value for value, _ in qualities], [interval for _, interval in qualities]),
        xerr=_distances(costs, [one.cost_interval or one.time_interval for one in known]),
        fmt="o-",
        color=series_color(0),
        ecolor=MUTED_COLOR,
        elinewidth=0.6,
        label="this artifact",
    )


def _quality(expected: ExpectedOutcome, losses: LossPrices | None) -> tuple[float, Interval | None]:
    """Return the accuracy and its interval.

    With losses, return the avoided share of the largest loss instead.
    """
    if losses is None:
        return expected.accuracy or 0.0, expected.accuracy_interval
    value, interval = 1 - (expected.loss or 0.0) / losses.largest, expected.loss_interval
    return value, None if interval is None else (1 - interval[1] / losses.largest, 1 - interval[0] / losses.largest)


def _distances(values: list[float], intervals: list[Interval | None]) -> list[list[float]]:
    """Return the distances from values to the ends of their intervals; 0 without intervals."""
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
        label=shorten_name(one.name),
    )
