"""The OpenAPI document: what FastAPI finds in the routes, and what a build's ``params`` may be for each solver."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from solvers import SOLVERS

_REFERENCE = "#/components/schemas/{model}"


def install(api: FastAPI, bodies: Sequence[type[BaseModel]]) -> None:
    """Let the document tell the options of every solver, and ``bodies``, which their routes read themselves."""
    found_in_routes = api.openapi

    def document() -> dict[str, Any]:
        if api.openapi_schema is None:
            _add_schemas(found_in_routes(), bodies)
        assert api.openapi_schema is not None
        return api.openapi_schema

    api.openapi = document  # type: ignore[method-assign]


def _add_schemas(document: dict[str, Any], bodies: Sequence[type[BaseModel]]) -> None:
    schemas = document["components"]["schemas"]
    options = [solver.options for solver in SOLVERS.values()]
    described: list[type[BaseModel]] = [*options, *bodies]
    for model in described:
        schema = model.model_json_schema(ref_template=_REFERENCE)
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in options]
    params = schemas["BuildRequest"]["properties"]["params"]
    params.pop("type", None)
    params.pop("additionalProperties", None)
    params["anyOf"] = references
