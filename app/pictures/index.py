"""An index: which feature set wins for each size and budget, and the skyline at a size between."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from app.pictures.canvas import QUIET, legend, listed, logarithmic, ordered, panels, percents
from app.serving.catalog import Live
from models.arrays import Floats
from models.index import CurvesQuery, IndexCurves, SkylineItem
from solvers.index import IndexPlan
from solvers.index import draw as drawn

CELLS = 150
MOST_NAMED = 14
NOTHING = "no feature"


def draw(live: Live[IndexPlan]) -> Figure:
    """Draw the map above the skyline; where there is one size only, or sizes of several numbers, the skyline alone."""
    plan: IndexPlan = live.plan
    unit = live.record.unit
    if plan.powers.shape[1] != 1:
        return _alone(live)
    curves = drawn(plan, CurvesQuery(points=CELLS, budgets=CELLS))
    middle = float(np.sqrt(curves.sizes[0] * curves.sizes[-1]))
    picture, (above, below) = panels(live.record, 3.4, 2.2)
    colours = _map(above, curves, unit)
    _skyline(below, plan.skyline(middle), colours, unit, f" at size {middle:.3g}")
    return picture


def _alone(live: Live[IndexPlan]) -> Figure:
    plan, unit = live.plan, live.record.unit
    size = plan.median_size or None
    items = plan.skyline(size)
    colours = {item.features: each for item, each in zip(items, ordered(len(items)), strict=True)}
    picture, (axes,) = panels(live.record, 3.4)
    _skyline(axes, items, colours, unit, f" at size {' x '.join(f'{part:g}' for part in size)}" if size else "")
    _explain(axes, [(item.expected_accuracy, item.features) for item in items[-MOST_NAMED:]], colours, len(items))
    return picture


def _map(axes: Axes, curves: IndexCurves, unit: str) -> dict[tuple[str, ...], Any]:
    """Draw the map, name those that win most, and tell the colour of each."""
    there, places, cells = np.unique(np.array(curves.winners), return_inverse=True, return_counts=True)
    colours = ordered(len(there))
    sizes, budgets = _edges(np.array(curves.sizes)), _edges(np.array(curves.budgets))
    axes.pcolormesh(
        sizes,
        budgets,
        places.reshape(len(curves.budgets), -1),
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=len(there) - 0.5,
        rasterized=True,
    )
    axes.grid(visible=False)
    axes.set(title="Which features win for this size and budget", xlabel="size", ylabel=f"budget, {unit}")
    logarithmic(axes, "x", sizes)
    logarithmic(axes, "y", budgets)
    sets = [curves.feature_sets[place] for place in there.tolist()]
    tints = {each.features: tint for each, tint in zip(sets, colours, strict=True)}
    named = sorted(np.argsort(-cells, kind="stable")[:MOST_NAMED].tolist())
    _explain(axes, [(sets[i].accuracy, sets[i].features) for i in named], tints, len(sets))
    return tints


def _explain(axes: Axes, sets: Sequence[tuple[float, tuple[str, ...]]], tints: Mapping[Any, Any], count: int) -> None:
    """Name feature sets beside their colours, the most accurate first; there may be more than are named."""
    labels = [f"{accuracy:.1%}  {listed(features, NOTHING)}" for accuracy, features in reversed(sets)]
    left_out = f"\n{len(sets)} of {count}" if count > len(sets) else ""
    legend(axes, labels, [tints[features] for _, features in reversed(sets)], f"accuracy and features{left_out}")


def _edges(values: Floats) -> Floats:
    """Put a cell around each of some positive numbers that rise evenly by their logarithms, or around 0 alone.

    >>> _edges(np.array([1.0, 4.0, 16.0])).tolist(), _edges(np.array([0.0])).tolist()
    ([0.5, 2.0, 8.0, 32.0], [0.0, 1.0])
    """
    if values[-1] == 0:
        return np.array([0.0, 1.0])
    step = float(np.sqrt(values[1] / values[0])) if len(values) > 1 else 1.1
    return np.append(values / step, values[-1] * step)


def _skyline(
    axes: Axes, items: tuple[SkylineItem, ...], colours: Mapping[tuple[str, ...], Any], unit: str, at: str
) -> None:
    """Draw what accuracy each budget buys at one size."""
    costs, levels = (np.array([getattr(item, what) for item in items]) for what in ("cost", "expected_accuracy"))
    axes.step(costs, levels, where="post", color=QUIET, linewidth=1)
    axes.scatter(costs, levels, c=[colours.get(item.features, QUIET) for item in items], s=36, zorder=3)
    percents(axes)
    axes.set(title=f"Skyline{at}", xlabel=f"cost, {unit}", ylabel="accuracy")
