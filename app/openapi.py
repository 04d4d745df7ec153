"""The OpenAPI document: what FastAPI finds in the routes, and what a build's ``params`` may be for each solver."""

from typing import Any

from fastapi import FastAPI

from solvers import SOLVERS

_REFERENCE = "#/components/schemas/{model}"


def install(api: FastAPI) -> None:
    """Let the application's document tell the options of every solver."""
    found_in_routes = api.openapi

    def document() -> dict[str, Any]:
        if api.openapi_schema is None:
            _add_options(found_in_routes())
        assert api.openapi_schema is not None
        return api.openapi_schema

    api.openapi = document  # type: ignore[method-assign]


def _add_options(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    references = []
    for solver in SOLVERS.values():
        options = solver.options.model_json_schema(ref_template=_REFERENCE)
        schemas |= options.pop("$defs", {})
        schemas[solver.options.__name__] = options
        references.append({"$ref": _REFERENCE.format(model=solver.options.__name__)})
    params = schemas["BuildRequest"]["properties"]["params"]
    params.pop("type", None)
    params.pop("additionalProperties", None)
    params["anyOf"] = references
