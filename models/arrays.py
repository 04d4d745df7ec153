"""Names for arrays of one type: what a signature says of an array beside its shape, which docstrings give."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Int16s = NDArray[np.int16]
Int8s = NDArray[np.int8]
UInt64s = NDArray[np.uint64]
UInt16s = NDArray[np.uint16]
UInt8s = NDArray[np.uint8]
Bools = NDArray[np.bool_]
