"""The applications that the service is held against: a constant FastAPI route, and the decision in bare ASGI."""

import os
from hashlib import sha256
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.fast_router import parse_simple_query
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import decide_to_json
from app.store import codec
from app.store.artifacts import decode_manifest
from models import ArtifactRecord
from models.cascade import CascadeQuery
from solvers import KINDS


def constant() -> ASGIApp:
    api = FastAPI()

    @api.get("/v1/cascades/{name}/decision")
    async def decision(name: str) -> Response:
        return Response(b'{"cascade":["fast","strong"]}', media_type="application/json")

    return api


def bare() -> ASGIApp:
    """Make an ASGI application that decides, and does nothing else."""
    data = Path(os.environ["BENCH_PLAN"]).read_bytes()
    manifest = decode_manifest(data).model_dump(exclude={"format"})
    digest = sha256(data).hexdigest()
    record = ArtifactRecord(version=1, created_at="", sha256=digest, bytes=len(data), **manifest)
    loaded = LoadedArtifact.from_record(record, codec.decode(data, KINDS[record.kind].plan))

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = decide_to_json(loaded, CascadeQuery.model_validate_strings(parse_simple_query(scope["query_string"])))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application
