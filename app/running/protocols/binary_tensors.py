"""Binary tensors of the Open Inference Protocol, ``binary_tensor_data``.

A header has the length of the JSON. A tensor with the parameter ``binary_data_size`` has that many of the bytes after
the JSON. Numbers are little-endian in row-major order. Each text is preceded by its length in four bytes.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.running.request_templates import TemplateMismatch

LENGTH_HEADER = "inference-header-content-length"
EXTENSION = "binary_tensor_data"
_LENGTH = struct.Struct("<I")
_DTYPES = {
    "BOOL": "?",
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
}


def split_message(body: bytes, length: str | None) -> tuple[bytes, bytes]:
    """Split a message into its JSON and the binary data.

    Args:
        length: value of the header; None if the message is only JSON.

    >>> split_message(b'{}123', "2")
    (b'{}', b'123')
    """
    if length is None:
        return body, b""
    if not length.isascii() or not length.isdecimal() or len(length) > len(str(len(body))) or int(length) > len(body):
        raise TemplateMismatch(f"the header {LENGTH_HEADER} must be at most {len(body)}, got {length[:20]!r}")
    return body[: int(length)], body[int(length) :]


def read_elements(datatype: str, data: bytes) -> list[Any]:
    """Parse the elements of a binary tensor, row-major.

    Raises TemplateMismatch for malformed tensors, and for NaN and infinities.

    >>> read_elements("FP32", elements_as_bytes("FP32", [1.0, 0.5]))
    [1.0, 0.5]
    >>> read_elements("BYTES", elements_as_bytes("BYTES", ["cat"]))
    ['cat']
    """
    if datatype == "BYTES":
        return _texts(data)
    if datatype not in _DTYPES:
        raise TemplateMismatch(f"the datatype must be BYTES or one of {', '.join(_DTYPES)}, got {datatype[:20]!r}")
    dtype = np.dtype(_DTYPES[datatype])
    if len(data) % dtype.itemsize:
        raise TemplateMismatch(f"the size must be a multiple of {dtype.itemsize} bytes for {datatype}, got {len(data)}")
    numbers = np.frombuffer(data, dtype)
    if not np.isfinite(numbers).all():
        raise TemplateMismatch(f"{int((~np.isfinite(numbers)).sum())} of {len(numbers)} elements are not finite")
    listed: list[Any] = numbers.tolist()
    return listed


def elements_as_bytes(datatype: str, values: Sequence[Any]) -> bytes:
    """Return the elements of a tensor as bytes."""
    if datatype == "BYTES":
        encoded = [str(value).encode() for value in values]
        return b"".join(_LENGTH.pack(len(each)) + each for each in encoded)
    return np.asarray(values, dtype=_DTYPES[datatype]).tobytes()


def _texts(data: bytes) -> list[str]:
    texts, at = list[str](), 0
    while at < len(data):
        start = at + _LENGTH.size
        end = start + (_LENGTH.unpack_from(data, at)[0] if start <= len(data) else 0)
        if start > len(data) or end > len(data):
            raise TemplateMismatch(f"text {len(texts)} exceeds the {len(data)} bytes of the tensor")
        try:
            texts.append(data[start:end].decode())
        except UnicodeDecodeError as error:
            raise TemplateMismatch(f"text {len(texts)} must be UTF-8") from error
        at = end
    return texts
