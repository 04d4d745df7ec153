"""Packed bit sets of rows, 64 rows per word."""

import numpy as np

from models.arrays import Bools, Int64s, UInt64s


def pack_bits(flags: Bools) -> UInt64s:
    """Pack booleans (..., rows) into words (..., ceil(rows / 64)).

    Bit i of word w is row 64 w + i. Spare bits are 0.

    >>> pack_bits(np.array([[True, False, True], [False, False, False]])).tolist()
    [[5], [0]]
    """
    octets = np.packbits(np.ascontiguousarray(flags, dtype=bool), axis=-1, bitorder="little")
    spare = -octets.shape[-1] % 8
    if spare:
        octets = np.concatenate((octets, np.zeros((*octets.shape[:-1], spare), dtype=np.uint8)), axis=-1)
    return np.ascontiguousarray(octets).view(np.dtype("<u8")).astype(np.uint64, copy=False)


def unpack_bits(packed: UInt64s, rows: int) -> Bools:
    """Unpack words (..., w) into booleans (..., rows).

    >>> unpack_bits(np.array([[5]], dtype=np.uint64), 3).tolist()
    [[True, False, True]]
    """
    octets = np.ascontiguousarray(packed.astype("<u8", copy=False)).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=rows, bitorder="little").astype(bool)


def count_bits(packed: UInt64s) -> Int64s:
    """Count the bits of each set, (..., w) to (...).

    >>> count_bits(np.array([[5, 1], [0, 0]], dtype=np.uint64)).tolist()
    [3, 0]
    """
    return np.asarray(np.bitwise_count(packed).sum(axis=-1, dtype=np.int64))
