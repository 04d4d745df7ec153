"""A policy: the curve of cost against error, and the DAG with the items on its edges, for the fewest errors."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from app.pictures.canvas import COLOURS, QUIET, colour, distinct_names, listed, logarithmic, panels, percents
from app.serving.catalog import Live
from models.policy import PolicyTarget
from models.policy_curves import PolicyPoint, Traffic, TrafficEdge
from solvers.policy import PolicyPlan, traffic

Places = dict[int, tuple[float, float]]
LEAST_SHARE = 0.01
"""Ways that fewer of the items take are left out."""
LARGEST = 420.0
"""The area of a node to which all items come, in square points."""
WIDEST = 7.0
"""The width of an edge that all items take, in points."""
MOST_NAMED = 7
"""Steps that have a colour of their own; the others are grey."""


def draw(live: Live[PolicyPlan]) -> Figure:
    """Draw the curve above the DAG; raises Conflict for a version that was built before traffic was counted."""
    flow = traffic(live.plan, live.record.summary, PolicyTarget())
    edges = [edge for edge in flow.edges if edge.share >= LEAST_SHARE]
    layers = _layers(flow, edges)
    height = 1.5 + 0.35 * max(map(len, layers.values()))
    picture, (above, below) = panels(live.record, 2.4, 0.2 + height)
    _curve(above, live.plan.curve(), live.record.unit)
    _graph(below, flow, edges, _places(layers, edges))
    return picture


def _curve(axes: Axes, points: Sequence[PolicyPoint], unit: str) -> None:
    axes.plot([p.cost for p in points], [p.error for p in points], "o-", color=COLOURS[0], markersize=4)
    axes.plot(points[-1].cost, points[-1].error, "o", color=COLOURS[5], markersize=8, label="drawn below")
    errors = np.array([p.error for p in points])
    if errors.min() > 0:
        logarithmic(axes, "y", errors)
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
    percents(axes)
    axes.set(title="Cost against error", xlabel=f"cost of an item on average, {unit}", ylabel="errors")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)


def _graph(axes: Axes, flow: Traffic, edges: Sequence[TrafficEdge], at: Places) -> None:
    """Draw the states from left to right by the number of sensors acquired, with what most items do."""
    colours = _colours(edges)
    for edge in edges:
        (x, y), (to_x, to_y) = at[edge.source], at[edge.target]
        tint = colours.get(edge.sensors, QUIET)
        axes.plot([x, to_x], [y, to_y], color=tint, linewidth=max(WIDEST * edge.share, 0.7), zorder=1, alpha=0.9)
    for node in at:
        state = flow.nodes[node]
        axes.scatter(*at[node], s=LARGEST * state.share, color="white", edgecolors="black", linewidths=0.8, zorder=2)
        axes.scatter(*at[node], s=LARGEST * state.stopped / flow.rows, color="black", linewidths=0, zorder=3)
    axes.set(title=f"The ways that {flow.rows} items take, for the fewest errors", xlabel="sensors acquired")
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.margins(x=0.05, y=0.15)
    axes.set_xticks(sorted({x for x, _ in at.values()}))
    axes.spines["left"].set_visible(False)
    _explain(axes, colours)


def _layers(flow: Traffic, edges: Sequence[TrafficEdge]) -> dict[int, list[int]]:
    """Gather the states by the number of sensors acquired."""
    layers: dict[int, list[int]] = defaultdict(list)
    for node in sorted({0} | {edge.source for edge in edges} | {edge.target for edge in edges}):
        layers[len(flow.nodes[node].sensors)].append(node)
    return layers


def _places(layers: dict[int, list[int]], edges: Sequence[TrafficEdge]) -> Places:
    """Place the states of each layer evenly, near those that items come from."""
    at: Places = {}
    for count, nodes in sorted(layers.items()):
        before = {node: [(at[e.source][1], e.items) for e in edges if e.target == node] for node in nodes}
        ordered = sorted(nodes, key=lambda node: (_mean(before[node]), node))
        for rank, node in enumerate(ordered):
            at[node] = (float(count), (rank + 0.5) / len(ordered) - 0.5)
    return at


def _mean(pairs: Sequence[tuple[float, float]]) -> float:
    values, weights = np.array([value for value, _ in pairs]), np.array([weight for _, weight in pairs])
    return float((values * weights).sum() / weights.sum()) if len(pairs) else 0.0


def _colours(edges: Sequence[TrafficEdge]) -> dict[tuple[str, ...], str]:
    """Give the steps that most items take a colour each."""
    items: dict[tuple[str, ...], float] = defaultdict(float)
    for edge in edges:
        items[edge.sensors] += edge.items
    most = sorted(items, key=lambda sensors: (-items[sensors], sensors))[:MOST_NAMED]
    return {sensors: colour(place) for place, sensors in enumerate(most)}


def _explain(axes: Axes, colours: dict[tuple[str, ...], str]) -> None:
    labels = distinct_names([", ".join(names) for names in colours], [listed(names, "") for names in colours])
    tints = zip(labels, colours.values(), strict=True)
    steps = [Line2D([], [], color=tint, linewidth=3, label=label) for label, tint in tints]
    dots = [
        Line2D(
            [], [], marker="o", linestyle="", markersize=9, markeredgecolor="black", color="white", label="come here"
        ),
        Line2D([], [], marker="o", linestyle="", markersize=6, color="black", label="are answered here"),
    ]
    axes.legend(
        handles=[*steps, *dots],
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        title=f"acquired next\n(by {LEAST_SHARE:.0%} of items or more)",
        alignment="left",
    )
