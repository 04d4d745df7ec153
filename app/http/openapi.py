"""OpenAPI document: FastAPI's, with the build ``params`` of each kind."""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from app.http.conditional_requests import matches_etag
from solvers import KINDS

_REFERENCE = "#/components/schemas/{model}"


def serve_openapi(api: FastAPI, bodies: Sequence[type[BaseModel]]) -> None:
    """Serve the OpenAPI document.

    It includes the options of every kind, and the types in ``bodies`` that routes parse themselves.
    """
    found_in_routes = api.openapi

    def document() -> dict[str, Any]:
        if api.openapi_schema is None:
            found = found_in_routes()
            _add_schemas(found, bodies)
            _add_long_urls(found)
        assert api.openapi_schema is not None
        return api.openapi_schema

    api.openapi = document  # type: ignore[method-assign]
    prepared = _Prepared(document)

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        body, tag = await prepared.get()
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if matches_etag(tag.encode(), request.scope["headers"]):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)


class _Prepared:
    """The document as bytes, with its entity tag; created once, off the event loop."""

    def __init__(self, document: Callable[[], dict[str, Any]]) -> None:
        self._document = document
        self._writing = asyncio.Lock()
        self._written: tuple[bytes, str] | None = None

    async def get(self) -> tuple[bytes, str]:
        """Return the document's bytes and entity tag."""
        async with self._writing:
            if self._written is None:
                self._written = await asyncio.to_thread(self._write)
        return self._written

    def _write(self) -> tuple[bytes, str]:
        body = orjson.dumps(self._document())
        return body, f'"{sha256(body).hexdigest()}"'


def _add_long_urls(document: dict[str, Any]) -> None:
    """Describe the reply to URLs above 64 KiB, which long query lists may reach."""
    text = {"text/plain": {"schema": {"type": "string"}}}
    reply = {"description": "the URL exceeds 64 KiB; send fewer parameters", "content": text}
    for path in document["paths"].values():
        for operation in path.values():
            if any('"array"' in str(orjson.dumps(one)) for one in operation.get("parameters", ())):
                operation["responses"].setdefault("400", reply)


def _add_schemas(document: dict[str, Any], bodies: Sequence[type[BaseModel]]) -> None:
    schemas = document["components"]["schemas"]
    options = [kind.options for kind in KINDS.values()]
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
