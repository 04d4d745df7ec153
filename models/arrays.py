"""Type aliases of NumPy arrays; docstrings give their shapes.

Fields of plans also declare their ranges, which ``solvers.base.check_array_ranges`` checks.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from models.base import LARGEST

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Halves = NDArray[np.float16]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Int16s = NDArray[np.int16]
Int8s = NDArray[np.int8]
UInt64s = NDArray[np.uint64]
UInt16s = NDArray[np.uint16]
UInt8s = NDArray[np.uint8]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The allowed range of an array's numbers.

    Attributes:
        has_gaps: whether NaN is allowed, for missing numbers.
    """

    least: float
    most: float
    has_gaps: bool = False


Probabilities = Annotated[Floats, NumberRange(0, 1)]
"""Accuracies, error rates, and other shares."""
SingleProbabilities = Annotated[Singles, NumberRange(0, 1)]
Amounts = Annotated[Floats, NumberRange(0, LARGEST)]
"""Costs, durations, budgets, deadlines, and their standard errors."""
Thresholds = Annotated[Floats, NumberRange(-LARGEST, LARGEST, has_gaps=True)]
"""Accept thresholds on a confidence of any scale; NaN: every answer is accepted."""
