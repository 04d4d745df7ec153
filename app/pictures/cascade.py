"""A cascade: how long an item takes for every deadline, and the cascade without limits, call by call."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.pictures.canvas import COLOURS, QUIET, logarithmic, panels, percents, shown, spread_widely
from app.serving.answers import with_default_limits
from app.serving.catalog import Live
from models import ArtifactRecord
from models.cascade import CascadeQuery, CascadeRunDecision, DeadlineRange, FrontierPoint
from solvers.cascade import CascadePlan

BEYOND = 1.15
"""The last range, which does not end, is drawn as far as this times its start."""


def draw(live: Live[CascadePlan]) -> Figure:
    """Draw the step function above the timeline, and the frontier below."""
    decision: CascadeRunDecision = live.plan.decide(with_default_limits(live, CascadeQuery()))
    has_frontier = len(live.plan.point_maxima) > 0
    picture, (above, below, *rest) = panels(
        live.record, 2.4, 0.8 + 0.26 * len(decision.steps), *([2.6] if has_frontier else [])
    )
    for axes in rest:
        _frontier(axes, live.plan.points(None), live.record)
    _step_function(above, live.plan.ranges(), live.record.unit)
    _timeline(below, decision, live.record.unit)
    return picture


def _frontier(axes: Axes, points: tuple[FrontierPoint, ...], record: ArtifactRecord) -> None:
    """Draw accuracy over cost, with where each lies, and each classifier alone."""
    costs, accuracies = (np.array([getattr(one, what) for one in points]) for what in ("cost", "accuracy"))
    off = [
        np.abs(np.array([getattr(one, f"{what}_interval") for one in points]) - values[:, None]).T
        for what, values in (("cost", costs), ("accuracy", accuracies))
    ]
    axes.errorbar(
        *(costs, accuracies, off[1], off[0]), fmt="-o", color=COLOURS[0], markersize=4, ecolor=QUIET, elinewidth=0.6
    )
    for one in record.worth.alternatives if record.worth else ():
        axes.plot(one.cost, one.accuracy, "x", color=COLOURS[1])
        axes.annotate(shown(one.name), (one.cost, one.accuracy), (4, -9), textcoords="offset points", fontsize=8)
    percents(axes)
    axes.set(
        title="Accuracy against cost, on held-out rows",
        xlabel=f"cost of an item on average, {record.unit}",
        ylabel="accuracy",
    )
    logarithmic(axes, "x", costs)


def _step_function(axes: Axes, ranges: tuple[DeadlineRange, ...], unit: str) -> None:
    starts = np.array([each.deadline_from for each in ranges])
    durations = np.array([each.expected_duration for each in ranges])
    end = float(starts[-1]) * BEYOND or 1.0
    axes.stairs(durations, np.append(starts, end), baseline=None, color=COLOURS[0], linewidth=2)
    axes.plot(starts, durations, "o", color=COLOURS[0], markersize=4)
    low = float(starts[0]) / BEYOND if spread_widely(starts) else 0.0
    axes.axvspan(low, float(starts[0]), color=QUIET, alpha=0.15, linewidth=0, label="no cascade is fast enough")
    axes.set(
        title="Expected duration for every deadline",
        xlabel=f"deadline, {unit}",
        ylabel=f"expected duration, {unit}",
    )
    logarithmic(axes, "x", starts)
    axes.set_xlim(low, end)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _timeline(axes: Axes, decision: CascadeRunDecision, unit: str) -> None:
    """Draw a bar for each call, as long as it takes on average and as dark as it is likely."""
    start = 0.0
    for place, step in enumerate(decision.steps):
        opacity = 0.25 + 0.75 * min(max(step.probability_of_reaching, 0.0), 1.0)
        axes.barh(place, step.execution_time, left=start, height=0.6, color=COLOURS[0], alpha=opacity)
        start += step.execution_time
        axes.text(start, place, f" {step.probability_of_reaching:.1%} of items", va="center", fontsize=8)
    axes.set_yticks(range(len(decision.steps)), [shown(step.classifier) for step in decision.steps])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(
        title="The cascade that answers queries without limits, call by call",
        xlabel=f"time from the start if no call is sure enough, {unit}",
        xlim=(0, start * 1.2 or 1.0),
    )
