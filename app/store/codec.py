"""Serialization of frozen dataclasses of arrays and plain values, without pickle.

The bytes are an uncompressed zip: ``sha256`` (digest of all that follows), ``manifest.json`` (the caller's metadata),
``fields.json`` (plain fields), and one ``.npy`` per array. Equal values have equal bytes: the order of entries and
keys, and all dates, are fixed. Reading cannot run code, and allocates no more memory than the size of the bytes. Object
arrays, compressed or unknown entries, and unknown formats are rejected.
"""

import ast
import io
import json
import math
import tokenize
import zipfile
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter, ValidationError

from app.store import plain_zip
from app.store.checksums import digest_entries
from models.errors import CorruptArtifact
from solvers.stored_zip import write_stored_zip

FORMAT = 1
_UNREADABLE = (ValueError, TypeError, LookupError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError)
"""What NumPy's and JSON's readers raise at headers and texts that were made up."""
_NPY_START = 10
"""The offset of a header's text, after its length."""
_SHORT_HEADER = 256
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
T = TypeVar("T")


def encode(value: Any, manifest: dict[str, Any]) -> bytes:
    """Serialize a frozen dataclass to bytes.

    Derived fields (``init=False``) are omitted, and so are plain fields with their default value, and empty arrays that
    are empty by default. So older versions, which do not have these fields, can read the bytes.
    """
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is not a dataclass")
    kept = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    for field in fields(value):
        if field.name in kept and _has_default(field, kept[field.name]):
            del kept[field.name]
    plain = {name: _plain(item) for name, item in kept.items() if not isinstance(item, np.ndarray)}
    entries = {
        "manifest.json": _json({"format": FORMAT, "type": type(value).__name__, **manifest}),
        "fields.json": _json(plain),
    }
    for name, item in sorted(kept.items()):
        if isinstance(item, np.ndarray):
            entries[f"{name}.npy"] = array_to_bytes(item)
    return write_stored_zip({"sha256": digest_entries(entries).encode(), **entries})


def _has_default(field: Field[Any], value: Any) -> bool:
    """Return whether a field has its default value, if that is None, a plain value, or an empty array."""
    if field.default_factory is not MISSING:
        default = field.default_factory()
        is_array = isinstance(default, np.ndarray) and default.size == 0
        return is_array and default.shape == value.shape and default.dtype == value.dtype
    return isinstance(field.default, str | int | float | tuple | None) and bool(value == field.default)


def decode(data: bytes, kind: type[T], *, is_verified: bool = False) -> T:
    """Parse bytes as a dataclass; raises CorruptArtifact if they are malformed.

    Fields with a default may be missing, as in bytes from older versions.

    Args:
        is_verified: whether the caller has checked the SHA-256 of all bytes; the inner digest is then not checked.
    """
    entries = _entries(data, is_verified=is_verified)
    manifest = _manifest(entries)
    if manifest.get("type") != kind.__name__:
        raise CorruptArtifact(f"the type must be {kind.__name__}, got {manifest.get('type')}")
    plain = _object(entries["fields.json"])
    field_types = _field_types(cast(Any, kind))
    later = {name for name in _later_fields(cast(Any, kind)) if name not in plain and f"{name}.npy" not in entries}
    names = [name for name in field_types if name not in later]
    arrays = {name for name in names if f"{name}.npy" in entries}
    if set(plain) != set(names) - arrays or len(entries) != len(arrays) + 3:
        raise CorruptArtifact(f"the fields of {kind.__name__} must be {sorted(names)}, got {sorted(entries)}")
    values = {
        name: _array(name, entries[f"{name}.npy"], field_types[name])
        if name in arrays
        else _value(name, plain[name], field_types[name])
        for name in names
    }
    try:
        return kind(**values)
    except _UNREADABLE as error:  # its own checks could not even compare them
        raise CorruptArtifact(f"the fields of {kind.__name__} are inconsistent: {error}") from error


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    """Return the types of the stored fields."""
    declared = get_type_hints(kind, include_extras=True)
    return {field.name: declared[field.name] for field in fields(kind) if field.init}


@cache
def _later_fields(kind: Any) -> frozenset[str]:
    """Return the fields with defaults, which may be missing in bytes from older versions."""
    return frozenset(
        one.name for one in fields(kind) if one.init and (one.default, one.default_factory) != (MISSING, MISSING)
    )


@cache
def _adapter(field_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(field_type)


def read_manifest(data: bytes) -> dict[str, Any]:
    """Return the manifest after verifying the checksum; raises CorruptArtifact."""
    return _manifest(_entries(data))


def array_to_bytes(array: NDArray[Any]) -> bytes:
    """Serialize an array in the ``.npy`` format, version 1."""
    out = io.BytesIO()
    npy.write_array(out, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return out.getvalue()


def array_from_bytes(data: bytes) -> NDArray[Any]:
    """Parse ``.npy`` bytes as a read-only view; raises CorruptArtifact."""
    begin = _NPY_START + int.from_bytes(data[_NPY_START - 2 : _NPY_START], "little")
    shape, fortran, dtype = (_read_known if begin <= _SHORT_HEADER else _read_header)(data[:begin])
    if dtype.hasobject or dtype.kind not in "biuf":
        raise CorruptArtifact(f"the array must have numbers, got {dtype}")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size != len(data) - begin:
        raise CorruptArtifact(f"the array must have {size} bytes, as in its header, got {len(data) - begin}")
    flat = np.frombuffer(data, dtype=dtype, offset=begin)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:  # more dimensions, or beside a 0 longer ones, than there can be
        raise CorruptArtifact(f"the array does not have the shape of its header: {error}") from error


def _read_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read an array's shape, order and type; raises CorruptArtifact."""
    stream = io.BytesIO(header)
    try:
        if npy.read_magic(stream) != (1, 0):
            raise CorruptArtifact("the array must have .npy format version 1.0")
        ast.literal_eval(header[_NPY_START:].decode("latin1"))  # what NumPy would repair, with a warning, is refused
        shape, fortran, dtype = npy.read_array_header_1_0(stream)
    except _UNREADABLE as error:
        raise CorruptArtifact(f"the array must have a valid .npy header: {error}") from error
    return shape, fortran, dtype


_read_known = lru_cache(maxsize=4096)(_read_header)
"""Reads headers of the usual length; artifacts are much alike, and reading one takes longer than all else."""


def _manifest(entries: dict[str, bytes]) -> dict[str, Any]:
    manifest = _object(entries["manifest.json"])
    if manifest.get("format") != FORMAT:
        raise CorruptArtifact(f"the artifact format must be {FORMAT}, got {manifest.get('format')}")
    return manifest


def _object(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
        same = _json(content) == text  # no NaN, no half of a surrogate pair, nothing that could be read in two ways
    except _UNREADABLE as error:
        raise CorruptArtifact(f"the manifest must be JSON: {error}") from error
    if not same:
        raise CorruptArtifact("the manifest must be canonical JSON")
    if not isinstance(content, dict):
        raise CorruptArtifact("the manifest must be a JSON object")
    return content


def _array(name: str, data: bytes, field_type: Any) -> NDArray[Any]:
    wanted = _dtype_of(field_type)
    if wanted is None:
        raise CorruptArtifact(f"the field {name} is an array, must be a plain value")
    array = array_from_bytes(data)
    if array.dtype != wanted:
        raise CorruptArtifact(f"the array {name} must have type {wanted}, got {array.dtype}")
    return array


@cache
def _dtype_of(field_type: Any) -> np.dtype[Any] | None:
    """Return the dtype of an array field; None for other fields.

    >>> _dtype_of(NDArray[np.int32])
    dtype('int32')
    """
    if get_origin(field_type) is Annotated:
        field_type = get_args(field_type)[0]
    alias = getattr(get_origin(field_type), "__value__", None)  # NDArray, as NumPy writes it for Python 3.12 and later
    if alias is not None:
        field_type = alias[get_args(field_type)]
    return np.dtype(get_args(get_args(field_type)[1])[0]) if get_origin(field_type) is np.ndarray else None


def _value(name: str, value: Any, field_type: Any) -> Any:
    if _dtype_of(field_type) is not None:
        raise CorruptArtifact(f"the field {name} is a plain value, must be an array")
    if field_type in (str, bool, float) and type(value) is field_type:  # as JSON has it, which holds no NaN by now
        return value
    try:
        return _adapter(field_type).validate_json(_json(value))
    except (ValidationError, *_UNREADABLE) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise CorruptArtifact(f"the field {name} is of the wrong type: {what}") from error


def _entries(data: bytes, *, is_verified: bool = False) -> dict[str, bytes]:
    """Read all entries, which are uncompressed, and check their digest unless verified."""
    plain = plain_zip.read(data)
    entries = _general_entries(data) if plain is None else plain
    if not {"sha256", "manifest.json", "fields.json"} <= set(entries):
        raise CorruptArtifact(f"not a valid artifact archive; entries: {sorted(entries)[:5]}")
    if not is_verified and entries["sha256"] != digest_entries(entries).encode():
        raise CorruptArtifact("the archive does not match its SHA-256")
    if plain is None and write_stored_zip(entries) != data:
        raise CorruptArtifact("the archive has unexpected bytes between its entries")
    return entries


def _general_entries(data: bytes) -> dict[str, bytes]:
    """Read an archive that is not in the plain format.

    It is very large, or it is rejected with the reason.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise CorruptArtifact("the archive must not have compressed entries")
            if len({info.filename for info in infos}) != len(infos):
                raise CorruptArtifact("the archive has duplicate entries")
            entries = {info.filename: archive.read(info) for info in infos}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        raise CorruptArtifact(f"not a valid artifact archive: {error}") from error
    return entries


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()
