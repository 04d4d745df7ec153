"""What the pictures share: a figure, colours that colour-blind people tell apart, axes, and the file.

Figures are 8 inches wide, which is a page's width of 800 pixels; PNGs have twice as many. Nothing global is changed:
styles hold while a picture is drawn and written.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, cast

import numpy as np
from matplotlib import colormaps, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter, PercentFormatter, StrMethodFormatter

from solvers.arrays import Floats

SUFFIXES = (".png", ".svg")
WIDTH = 8.0
"""Inches."""
DOTS = 200
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""The palette of Okabe and Ito; beyond its end it begins again."""
QUIET = "#8A8A8A"
"""For what is not the point: frames, hints, baselines."""
ORDERED = "viridis"
"""For what has an order, dark to light."""
LONGEST = 28
"""Letters of a name, or of a line of names."""
LEAST_SPAN = 0.02
"""An axis of shares goes over so much at least, so that differences that do not matter look small."""
_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "parsimony",  # else ids of elements differ from run to run
    "text.parse_math": False,  # names of classifiers may hold a dollar
}


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Draw a picture and write it, PNG or SVG by the path's suffix; the same picture has the same bytes."""
    kind = path.suffix.lower()
    metadata = {"Date": None} if kind == ".svg" else {"Software": None}
    with style.context(["default", _STYLE]):
        draw().savefig(path, format=kind[1:], metadata=cast("dict[str, str]", metadata))


def figure(height: float) -> Figure:
    """Start a picture of this height in inches."""
    return Figure(figsize=(WIDTH, height), dpi=DOTS, layout="constrained")


def shown(name: str) -> str:
    """Shorten a name so that it fits beside others; what begins with an underscore would be left out of legends.

    >>> shown("fast"), shown("_fast"), len(shown("x" * 200))
    ('fast', ' _fast', 28)
    """
    cut = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return f" {cut}" if cut.startswith("_") else cut


def listed(names: Sequence[str], nothing: str) -> str:
    """Name several, on two lines at most, or say that there are none.

    >>> listed(["a", "b"], "none"), listed([], "none")
    ('a, b', 'none')
    """
    lines = wrap(", ".join(map(shown, names)), LONGEST, max_lines=2, placeholder=" …")
    return "\n".join(map(shown, lines)) if names else nothing


def colour(place: int) -> str:
    """Give the colour of a place among a few."""
    return COLOURS[place % len(COLOURS)]


def ordered(count: int) -> list[Any]:
    """Give as many colours in an order, the lightest last."""
    return [colormaps[ORDERED](share) for share in np.linspace(0.0, 0.95, max(count, 1)).tolist()]


def percents(axes: Axes) -> None:
    """Write the shares of the upright axis, from 0 to 1, as percents."""
    low, high = axes.get_ylim()
    if high - low < LEAST_SPAN and axes.get_yscale() == "linear":
        middle = min((low + high) / 2, 1.0 - 0.4 * LEAST_SPAN)
        axes.set_ylim(middle - LEAST_SPAN / 2, middle + LEAST_SPAN / 2)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes.yaxis.set_minor_formatter(NullFormatter())


def logarithmic(axes: Axes, name: Literal["x", "y"], values: Floats) -> None:
    """Make an axis logarithmic if its values need it to be told apart."""
    if spread_widely(values):
        axes.set(**{f"{name}scale": "log"})
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def legend(axes: Axes, labels: Sequence[str], colours: Sequence[Any], title: str, **more: Any) -> None:
    """Explain colours to the right of a panel, where no data are."""
    handles = [Patch(facecolor=each, label=label) for label, each in zip(labels, colours, strict=True)]
    axes.legend(handles=handles, title=title, loc="upper left", bbox_to_anchor=(1.01, 1.0), alignment="left", **more)


def spread_widely(values: Floats) -> bool:
    """Tell whether values need a logarithmic axis to be told apart.

    >>> spread_widely(np.array([1.0, 2.0])), spread_widely(np.array([0.0, 1.0, 100.0]))
    (False, True)
    """
    some = values[values > 0]
    return len(some) > 1 and float(some.max() / some.min()) >= 30
