"""Imports of logs of model calls as datasets."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Depends, Request
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import FormData

from app.http.json_bodies import JsonRouter
from app.importing.embedding_cache import EmbeddingCache
from app.importing.prompt_embeddings import embed_prompts, evict_prompts, find_embedder
from app.importing.stored_imports import LogUpload, read_log, store_log
from app.processes.clock import current_timestamp
from app.routes.dataset_uploads import receive_form, reply_stored
from app.routes.dependencies import AppContext, InContext, PathName, error_responses, require_store
from app.routes.entity_tags import IfMatch, IfNoneMatch, check_preconditions
from app.routes.forms import copy_part, read_bytes_part, read_file_part
from app.routes.runs import get_run_dependencies
from app.routes.team_names import OWN_NAME
from app.running.endpoint_caller import EndpointCaller
from app.store import codec
from app.store.uploads import run_in_reader
from models import InvalidRequest
from models.conversation import split_prompts
from models.errors import UnknownDataset
from models.log_import import ImportedDataset, ImportOptions
from models.prices import Prices
from models.word_embedding import WORDS

router = JsonRouter(prefix="/v1/datasets", tags=["datasets"], dependencies=[Depends(require_store)])
_PARTS = ("log", "feedback", "prices", "options")
_PRICES: TypeAdapter[dict[str, Prices]] = TypeAdapter(dict[str, Prices])
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["log"],
                    "properties": {
                        "log": {
                            "type": "string",
                            "format": "binary",
                            "description": "calls as LiteLLM, OpenAI, Langfuse, or OpenTelemetry keep them, or a table "
                            "with one row per call: JSON Lines, CSV, or Parquet, also gzipped",
                        },
                        "feedback": {
                            "type": "string",
                            "format": "binary",
                            "description": "outcomes: records with request_id and correct, quality, or score",
                        },
                        "prices": {
                            "type": "object",
                            "additionalProperties": {"$ref": "#/components/schemas/Prices"},
                            "description": "prices by model, for logs without costs",
                        },
                        "options": {"$ref": "#/components/schemas/ImportOptions"},
                    },
                },
                "example": {"log": "(file)"},
                "encoding": {
                    "prices": {"contentType": "application/json"},
                    "options": {"contentType": "application/json"},
                },
            }
        },
    }
}


@router.put(
    "/{name}/calls",
    summary="Store a dataset from a log of model calls",
    dependencies=[OWN_NAME],
    status_code=201,
    response_model=ImportedDataset,
    responses={
        200: {"model": ImportedDataset, "description": "an existing dataset was replaced"},
        **error_responses(409, 412, 413, 415, 503),
    },
    openapi_extra=_BODY,
)
async def put_calls(
    name: PathName, request: Request, context: InContext, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> JSONResponse:
    """Convert a log of model calls to a trace, and store it as a dataset.

    The trace has one row per prompt, and empty cells for models that were not called. The format of the log is
    recognized. Prompts are embedded by the built-in embedder or by a registered one; they are not stored.
    """
    allow = partial(check_preconditions, name, if_match, if_none_match)
    work = partial(_store, context, name, allow, get_run_dependencies(context).caller, asyncio.get_running_loop())
    return reply_stored(await receive_form(request, "a log", _PARTS, work))


def _store(
    context: AppContext,
    name: str,
    allow: Callable[[str | None], None],
    caller: EndpointCaller,
    loop: asyncio.AbstractEventLoop,
    form: FormData,
) -> ImportedDataset:
    """Import the form's parts, which are on disk, in other processes.

    The event loop embeds the prompts.
    """
    sandbox, max_bytes = context.upload_sandbox, context.settings.max_body_bytes
    options: ImportOptions = _parse(form, "options", ImportOptions.model_validate_json, ImportOptions())
    prices: Mapping[str, Prices] = _parse(form, "prices", _PRICES.validate_json, {})
    name_of_embedder = None if options.embedder == WORDS else options.embedder
    embedder = None if name_of_embedder is None else find_embedder(name_of_embedder, caller)
    with tempfile.TemporaryDirectory(prefix="parsimony-") as folder:
        log = copy_part(read_file_part(form, "log"), Path(folder) / "log")
        feedback = None
        if "feedback" in form:
            feedback = copy_part(read_file_part(form, "feedback"), Path(folder) / "feedback")
        read = run_in_reader(sandbox, read_log, LogUpload(log, feedback, prices, options, max_bytes))
        kept = EmbeddingCache(context.settings.data_dir / "import-embeddings.sqlite")
        parts = split_prompts(read.prompts, options.conversation)
        cost, vectors = None, None
        if name_of_embedder is not None and embedder is not None:
            allow(_stored_sha256(context, name))  # before embeddings are paid
            embedding = embed_prompts(name_of_embedder, embedder, parts.texts, kept, caller)
            made, cost = asyncio.run_coroutine_threadsafe(embedding, loop).result()
            averaged = parts.average_vectors(made)
            vectors = codec.array_to_bytes(averaged)
        store = context.repos.make_dataset_store()
        work = partial(store_log, read, vectors, store, name, current_timestamp(), allow, max_bytes)
        info, replaced = run_in_reader(sandbox, work)
        if embedder is not None:
            evict_prompts(embedder, parts.texts, kept)
    return ImportedDataset(
        **dict(info),
        replaced=replaced,
        records=read.report.records,
        calls=read.report.calls,
        unused=dict(read.report.unused),
        shortened_calls=read.report.shortened_calls,
        models=read.models,
        coverage=read.coverage,
        embedding_cost=cost,
    )


def _stored_sha256(context: AppContext, name: str) -> str | None:
    """Return the SHA-256 of a stored dataset; None if there is none."""
    try:
        return context.repos.datasets.get_info(name).sha256
    except UnknownDataset:
        return None


def _parse(form: FormData, part: str, parse: Callable[[bytes], Any], default: Any) -> Any:
    """Parse an optional JSON part."""
    if part not in form:
        return default
    try:
        return parse(read_bytes_part(form, part))
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, part) from error
