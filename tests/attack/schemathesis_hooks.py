"""What schemathesis cannot know of the service: its media types, and a name under which there is something to ask."""

from typing import Any
from zlib import crc32

import schemathesis
from hypothesis import strategies as st

BINARY = (
    "application/x-npy",
    "application/vnd.apache.parquet",
    "application/vnd.parsimony.artifact",
    "application/octet-stream",
    "application/offset+octet-stream",
)
NPY = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }".ljust(117) + b"\n"

for media_type in BINARY:
    whole = [NPY + bytes(16)] if "npy" in media_type else [b"PK\x03\x04"]
    schemathesis.openapi.media_type(media_type, st.one_of(st.sampled_from(whole), st.binary(max_size=200)))


@schemathesis.serializer(*BINARY)
def as_bytes(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    if path_parameters and isinstance(path_parameters.get("name"), str) and crc32(path_parameters["name"].encode()) % 4:
        return {**path_parameters, "name": "plan"}
    return path_parameters
