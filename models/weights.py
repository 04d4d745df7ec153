"""Weights of rows: how many rows of real traffic each row represents.

Weights correct a sample that was not drawn uniformly, for example a table with all frauds and one in ten other
payments. Builds repeat each row in proportion to its weight, as copies of one item. So all means are weighted means,
splits keep the copies together, and intervals count each row once.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from models.arrays import Floats, Int32s, Int64s
from models.base import LARGEST, Label, Value
from models.columns import Columns, read_numbers
from models.errors import Fault

Weight = Annotated[float, Field(gt=0, le=LARGEST)]
MAX_WEIGHTED_ROWS = 1_000_000
"""Rows after repetition, each as often as its weight is a multiple of the smallest."""


class HasWeights(Value):
    """Base class of specs with row weights."""

    weights: Label | Annotated[dict[Label, Weight], Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="how many rows of the real traffic a row represents: a column of numbers above 0, or a number for "
        "each class (1 for omitted classes). Only their ratios count. null: all rows weigh the same",
        examples=["sampling_weight", {"ok": 10}],
    )

    @property
    def weight_columns(self) -> tuple[str, ...]:
        """The column of weights, in a tuple; empty if there is none."""
        return (self.weights,) if isinstance(self.weights, str) else ()


def read_weights(
    spec: HasWeights, columns: Columns, classes: Sequence[str], labels: Int32s, faults: list[Fault]
) -> Floats:
    """Return the weight of each row, (n,); (0,) if all rows weigh the same.

    Args:
        classes: names of the true classes.
        labels: (n,), indices into classes.
        faults: receives unknown classes, weights that are not above 0, and weights with too large a ratio.
    """
    if spec.weights is None:
        return np.empty(0)
    if isinstance(spec.weights, dict):
        known = ", ".join(classes[:20])
        strangers = [name for name in spec.weights if name not in classes]
        faults += [Fault(("spec", "weights", name), f"must be a class of the label: {known}") for name in strangers]
        weights = np.array([spec.weights.get(name, 1.0) for name in classes])[labels]
    else:
        weights = read_numbers(columns, spec.weights, faults, above=0.0, at_most=LARGEST)
    if faults or not len(weights):
        return np.empty(0)
    rows = float((weights / weights.min()).sum())
    if rows > MAX_WEIGHTED_ROWS:
        faults.append(
            Fault(
                ("spec", "weights"),
                f"must add up to at most {MAX_WEIGHTED_ROWS:,} times the smallest weight ({weights.min():g}), got "
                f"{rows:,.0f} times; raise the smallest weights, or remove their rows",
            )
        )
    return np.asarray(weights)


def repeat_rows(weights: Floats) -> Int64s:
    """Return rising row indices, each repeated in proportion to its weight.

    Multiples are weights divided by the smallest weight. For each k, the number of copies of the first k rows differs
    from the sum of their multiples by at most 1/2.

    >>> repeat_rows(np.array([2.0, 1.0, 3.0])).tolist(), repeat_rows(np.array([1.0, 1.5, 1.5])).tolist()
    ([0, 0, 1, 2, 2, 2], [0, 1, 1, 2])
    """
    ends = np.floor(np.cumsum(weights / weights.min()) + 0.5).astype(np.int64)
    return np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))
