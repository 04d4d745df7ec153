"""Shared parts of charts: figures, colors, axes, and files.

Color-blind readers can distinguish the colors. Figures are 8 inches wide, for a page of 800 pixels. PNGs have twice as
many pixels. Styles are not set globally.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, cast
from warnings import catch_warnings, simplefilter, warn_explicit

import numpy as np
from matplotlib import font_manager, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter, StrMethodFormatter

from models import ArtifactRecord
from models.arrays import Floats
from models.savings import Savings, SimpleBaseline

SUFFIXES = (".png", ".svg")
WIDTH, WORTH_HEIGHT, LINE = 8.0, 2.0, 0.16
"""Inches; the last is of a line of a headline."""
MAX_LINES = 14
"""Lines of a headline."""
MAX_ALTERNATIVES = 8
"""Baselines that are all named; of more, those on the Pareto front."""
DOTS = 200
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""The palette of Okabe and Ito; beyond its end it begins again."""
MUTED_COLOR = "#8A8A8A"
"""For what is not the point: frames, hints, baselines."""
MAX_NAME_LENGTH = 28
"""Letters of a name, or of a line of names."""
OWN_FONT = "DejaVu Sans"
FURTHER_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans CJK KR",
    "Source Han Sans",
    "IPAexGothic",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
)
"""Where letters that are not in it are looked for."""
MIN_SPAN = 0.02
"""An axis of shares goes over so much at least, so that differences that do not matter look small."""
_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED_COLOR,
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


def save(draw: Callable[[], Figure], path: Path) -> bool:
    """Draw a chart and write it as PNG or SVG, by the path's suffix.

    Equal charts have equal bytes.

    Returns:
        Whether the fonts have all letters.
    """
    kind = path.suffix.lower()
    metadata = {"Date": None} if kind == ".svg" else {"Software": None}
    with catch_warnings(record=True) as noted, style.context(["default", _STYLE, {"font.family": font_families()}]):
        simplefilter("always")
        draw().savefig(path, format=kind[1:], metadata=cast("dict[str, str]", metadata))
    others = [one for one in noted if "missing from font" not in str(one.message)]
    for one in others:
        warn_explicit(one.message, one.category, one.filename, one.lineno)
    return len(others) == len(noted)


def font_families() -> list[str]:
    """Return the fonts that are searched for letters, in order.

    The list has matplotlib's fonts, then installed fonts that contain further letters.
    """
    installed = set(font_manager.get_font_names())
    return [OWN_FONT, *(name for name in FURTHER_FONTS if name in installed)]


def make_panels(record: ArtifactRecord, *heights: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels of these heights in inches, from top to bottom.

    The last panel is for savings, if they were measured.
    """
    every = heights if record.savings is None else (*heights, WORTH_HEIGHT + LINE * len(_headline(record.savings)))
    picture = Figure(figsize=(WIDTH, sum(every)), dpi=DOTS, layout="constrained")
    made = picture.subplots(len(every), 1, height_ratios=every, squeeze=False)[:, 0].tolist()
    if record.savings is not None:
        draw_savings(made[-1], record.savings, record.unit)
    return picture, made[: len(heights)]


def draw_savings(axes: Axes, savings: Savings, unit: str) -> None:
    """Draw the baselines and the artifact on holdout rows."""
    every = select_drawn_baselines(savings)
    names = shorten_names_distinctly([one.name for one in every], [shorten_name(one.name) for one in every])
    for place, (one, name) in enumerate(zip(every, names, strict=True)):
        axes.plot(one.cost, one.accuracy, "X", color=series_color(place), markersize=7, label=name)
    axes.plot(savings.cost, savings.accuracy, "o", color="black", markersize=8, label=shorten_name(savings.decision))
    axes.margins(0.1, 0.2)
    set_log_scale(axes, "x", np.array([savings.cost, *(one.cost for one in every)]))
    format_percent_axis(axes)
    axes.set_title("\n".join(_headline(savings)), fontsize=9)
    axes.set(
        xlabel=f"cost of an item on average, {unit}", ylabel="correct" if savings.loss is None else quality_label(True)
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), title="crosses: instead of this plan", alignment="left")


def quality_label(has_losses: bool) -> str:
    """Return the label of the accuracy axis.

    With losses, the axis shows shares of the largest loss.
    """
    return "share of the largest loss avoided" if has_losses else "accuracy"


def _headline(savings: Savings) -> list[str]:
    return wrap(" ".join(map(shorten_name, savings.headline.split())), 50, max_lines=MAX_LINES, placeholder=" …")


def select_drawn_baselines(savings: Savings) -> list[SimpleBaseline]:
    """Return the baselines to draw: the Pareto-optimal ones, and single classifiers."""
    picked, best = [], -1.0
    for one in savings.baselines:
        if one.accuracy > best or len(savings.baselines) <= MAX_ALTERNATIVES:
            picked.append(one)
            best = max(best, one.accuracy)
    return picked


def shorten_name(name: str) -> str:
    """Shorten a name to fit; escape a leading underscore, which hides it in legends.

    >>> shorten_name("fast"), shorten_name("_fast"), len(shorten_name("x" * 200))
    ('fast', ' _fast', 28)
    """
    cut = name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"
    return f" {cut}" if cut.startswith("_") else cut


def shorten_names_distinctly(names: Sequence[str], shortened: Sequence[str]) -> list[str]:
    """Return distinct shortened names for a legend.

    If shortened names are equal, the ends of the names are shown, too. Names that are still equal are numbered.

    >>> shorten_names_distinctly(["x" * 40 + "-near", "x" * 40 + "-far", "y"], ["xx…", "xx…", "y"])
    ['xxxxxxxxxxxxx…xxxxxxxxx-near', 'xxxxxxxxxxxxx…xxxxxxxxxx-far', 'y']
    >>> shorten_names_distinctly(["x" * 40 + "a" + "x" * 40, "x" * 90], ["xx…", "xx…"])
    ['xxxxxxxxxxxxx…xxxxxxxxxxxxxx', 'xxxxxxxxxxxxx…xxxxxxxxxx (2)']
    """
    count = Counter(shortened)
    labels = [_middle_cut(name) if count[short] > 1 else short for name, short in zip(names, shortened, strict=True)]
    for place, label in enumerate(labels):
        number = f" ({labels[:place].count(label) + 1})"
        if label in labels[:place]:
            labels[place] = f"{label[: MAX_NAME_LENGTH - len(number)]}{number}"
    return labels


def _middle_cut(name: str) -> str:
    """Cut the middle out of a name that is too long."""
    half = MAX_NAME_LENGTH // 2
    return shorten_name(name if len(name) <= MAX_NAME_LENGTH else f"{name[: half - 1]}…{name[-half:]}")


def series_color(index: int) -> str:
    """Return the color of a series by its position."""
    return COLOURS[index % len(COLOURS)]


def format_percent_axis(axes: Axes) -> None:
    """Format the vertical axis, with shares from 0 to 1, as percentages."""
    low, high = axes.get_ylim()
    if high - low < MIN_SPAN and axes.get_yscale() == "linear":
        middle = min((low + high) / 2, 1.0 - 0.4 * MIN_SPAN)
        axes.set_ylim(middle - MIN_SPAN / 2, middle + MIN_SPAN / 2)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes.yaxis.set_minor_formatter(NullFormatter())


def set_log_scale(axes: Axes, name: Literal["x", "y"], values: Floats) -> None:
    """Make an axis logarithmic if its values have a wide range."""
    if needs_log_scale(values):
        axes.set(**{f"{name}scale": "log"})
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def needs_log_scale(values: Floats) -> bool:
    """Return whether values need a logarithmic axis.

    >>> needs_log_scale(np.array([1.0, 2.0])), needs_log_scale(np.array([0.0, 1.0, 100.0]))
    (False, True)
    """
    some = values[values > 0]
    return len(some) > 1 and float(some.max() / some.min()) >= 30
