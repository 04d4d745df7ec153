"""Parsing of portfolio batches: JSON, ``.npy``, Parquet, or multipart forms."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from app.http.json_bodies import decode_json
from app.store.codec import array_from_bytes
from app.store.table_types import JSON, NPY, PARQUET, PARQUET_MAGIC
from models import Fault, InvalidRequest, Items
from models.errors import CorruptArtifact
from models.portfolio import AssignmentOptions, Text
from models.portfolio_constraints import ConstrainedRequest, LimitedOptions

FORM = "multipart/form-data"
QUERIES, TEXTS, CONSTRAINTS, SIZES, COSTS, USES = "queries", "texts", "constraints", "sizes", "costs", "uses."
"""Parts of a form; ``uses.`` is followed by the name of a resource."""
ReadTable = Callable[[bytes], dict[str, Any]]
"""Reads queries from Parquet."""
Queries = NDArray[Any] | tuple[str, ...]
"""Queries by their embeddings, (n, d), or by their texts."""
_TEXTS: TypeAdapter[tuple[str, ...]] = TypeAdapter(Annotated[Items[Text], Field(min_length=1)])


def binary_schema(description: str) -> dict[str, Any]:
    """Return the OpenAPI schema of a file."""
    return {"type": "string", "format": "binary", "description": description}


_PARTS: dict[str, Any] = {
    QUERIES: binary_schema(".npy or Parquet, as above"),
    TEXTS: {
        "type": "array",
        "items": {"type": "string"},
        "description": "instead of queries: a JSON list of texts, one per query",
    },
    CONSTRAINTS: {
        "type": "string",
        "contentMediaType": JSON,
        "description": "further fields of the JSON request, as JSON",
    },
    SIZES: binary_schema(".npy, a number for each query, or a row of numbers"),
    COSTS: binary_schema(".npy, queries x classifiers, instead of costs in the JSON"),
    f"{USES}tokens": binary_schema(".npy, queries x classifiers: what they use of a resource, `tokens`"),
}
REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        JSON: {"schema": {"$ref": "#/components/schemas/ConstrainedRequest"}},
        NPY: {
            "schema": binary_schema("a .npy array, float32, one row for each query; the rest as query parameters"),
            "example": "(the bytes that numpy.save writes)",
        },
        PARQUET: {
            "schema": binary_schema(
                "a column of numbers for each dimension, or one of lists, `embedding`, or one of texts, "
                "`text`; and those of `size`, `group` (text), `costs` (lists in the artifact's order) that "
                "there are; the rest as query parameters"
            ),
            "example": "(the bytes of a Parquet file)",
        },
        FORM: {
            "schema": {"type": "object", "properties": _PARTS},
            "example": {QUERIES: "(file)", CONSTRAINTS: '{"goal": "cost", "accuracy": {"at_least": 0.8}}'},
        },
    },
}
"""What a batch may come as, in OpenAPI's terms."""


def read_json(body: bytes, parameters: Mapping[str, Any]) -> tuple[Queries, AssignmentOptions]:
    """Parse a ``ConstrainedRequest`` from JSON.

    Raises InvalidRequest for invalid requests, and if the URL has query parameters.
    """
    given = [name for name, value in parameters.items() if value not in (None, {})]
    if given:
        raise InvalidRequest.from_faults(
            Fault((given[0],), f"must be in the JSON body; query parameters are supported for {NPY} only")
        )
    content = decode_json(body)
    try:
        request = ConstrainedRequest.model_validate(content)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from error
    if request.texts is not None:
        return request.texts, request
    widths = {len(query) for query in request.queries}
    if len(widths) > 1:
        raise InvalidRequest.from_faults(
            Fault(("queries",), f"must have equal lengths, got {min(widths)} to {max(widths)}")
        )
    return np.array(request.queries), request


def read_parts(
    parts: Mapping[str, bytes], parameters: Mapping[str, Any], read_table: ReadTable
) -> tuple[Queries, AssignmentOptions]:
    """Parse a batch from the parts of a form.

    Parts are queries (``.npy`` or Parquet) or texts (a JSON list). Optional parts are further limits (JSON), and
    sizes, costs, and uses of resources (``.npy`` each). Raises InvalidRequest.

    Args:
        parameters: options of the assignment.
    """
    if QUERIES not in parts and TEXTS not in parts:
        message = f"is missing; send it as .npy or Parquet, or send the part {TEXTS} as a JSON list"
        raise InvalidRequest.from_faults(Fault((QUERIES,), message))
    if QUERIES in parts and TEXTS in parts:
        raise InvalidRequest.from_faults(Fault((TEXTS,), f"cannot be combined with {QUERIES}"))
    columns: dict[str, Any] = {}
    vectors: Queries
    if TEXTS in parts:
        vectors = _read_texts(parts[TEXTS])
    elif parts[QUERIES].startswith(PARQUET_MAGIC):
        columns = read_table(parts[QUERIES])
        vectors = columns.pop("embedding") if "embedding" in columns else _read_texts(columns.pop("text"))
        if not len(vectors):
            raise InvalidRequest.from_faults(Fault((QUERIES,), "must have at least 1 row"))
    else:
        vectors = _vectors(parts[QUERIES])
    fields = _limits(parts, parameters)
    _put_arrays(fields, parts, columns)
    try:
        options = LimitedOptions.model_validate(fields)
        options.check_lengths(len(vectors))
    except (ValidationError, ValueError) as error:
        raise (
            InvalidRequest.from_validation(error) if isinstance(error, ValidationError) else InvalidRequest(str(error))
        ) from error
    return vectors, options


def _limits(parts: Mapping[str, bytes], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the options with further limits in JSON; raises InvalidRequest."""
    given: Any = {}
    if CONSTRAINTS in parts:
        try:
            given = decode_json(parts[CONSTRAINTS])
        except RequestValidationError as error:
            raise InvalidRequest.from_faults(Fault((CONSTRAINTS,), "must be JSON")) from error
        if not isinstance(given, dict):
            raise InvalidRequest.from_faults(Fault((CONSTRAINTS,), 'must be a JSON object, such as {"goal": "cost"}'))
    options = {name: value for name, value in parameters.items() if value is not None}
    twice = next((name for name in given if name in options), None)
    if twice is not None:
        raise InvalidRequest.from_faults(Fault((twice,), "is an option and part of the constraints; send it once"))
    return {**options, **given}


def _put_arrays(fields: dict[str, Any], parts: Mapping[str, bytes], columns: Mapping[str, Any]) -> None:
    """Write arrays with a value per query into the fields of the options."""
    if "group" in columns:
        groups = fields.get("groups") or {}
        if not isinstance(groups, dict) or "labels" in groups:
            raise InvalidRequest.from_faults(Fault(("groups", "labels"), "is also in the table; send it once"))
        fields["groups"] = {"labels": columns["group"], **groups}
    own = {SIZES: columns.get("size"), COSTS: columns.get("costs")}
    for name, column in own.items():
        if column is not None or name in parts:
            if name in fields or (column is not None and name in parts):
                raise InvalidRequest.from_faults(Fault((name,), "is repeated; send it once"))
            fields[name] = (_array(name, parts[name]) if column is None else column).tolist()
    for part in parts:
        if part.startswith(USES):
            name = part.removeprefix(USES)
            resources = fields.get("resources")
            resource = resources.get(name) if isinstance(resources, dict) else None
            if not isinstance(resource, dict) or "uses" in resource:
                raise InvalidRequest.from_faults(Fault((part,), "must name a resource of the limits without uses"))
            resource["uses"] = _array(part, parts[part]).tolist()
        elif part not in (QUERIES, TEXTS, CONSTRAINTS, SIZES, COSTS):
            known = ", ".join((QUERIES, TEXTS, CONSTRAINTS, SIZES, COSTS, f"{USES}<resource>"))
            raise InvalidRequest.from_faults(Fault((part,), f"is not a known part; available: {known}"))


def _array(part: str, body: bytes) -> NDArray[np.float64]:
    """Read an array with a row of numbers per query, (n,) or (n, k)."""
    try:
        array = array_from_bytes(body)
    except CorruptArtifact as error:
        raise InvalidRequest.from_faults(Fault((part,), f"{error}; write them with numpy.save")) from error
    if array.ndim not in (1, 2) or not np.isfinite(array).all():
        shape = " x ".join(map(str, array.shape)) or "none"
        raise InvalidRequest.from_faults(
            Fault((part,), f"must be finite numbers with one row per query, got shape {shape}")
        )
    return array.astype(np.float64)


def _read_texts(texts: bytes | list[str]) -> tuple[str, ...]:
    """Read texts from a JSON list, or from a column of them."""
    try:
        return _TEXTS.validate_json(texts) if isinstance(texts, bytes) else _TEXTS.validate_python(texts)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, TEXTS) from error


def _vectors(body: bytes) -> NDArray[Any]:
    """Read an array of float32 or float64; raises InvalidRequest."""
    try:
        queries = array_from_bytes(body)
    except CorruptArtifact as error:
        raise InvalidRequest.from_faults(Fault((QUERIES,), f"{error}; write them with numpy.save")) from error
    if queries.dtype not in (np.float32, np.float64):
        raise InvalidRequest.from_faults(Fault((QUERIES,), f"must be float32, got {queries.dtype}"))
    if queries.ndim != 2 or not len(queries):
        shape = " x ".join(map(str, queries.shape)) or "none"
        raise InvalidRequest.from_faults(Fault((QUERIES,), f"must have shape (queries, dimensions), got {shape}"))
    return queries
