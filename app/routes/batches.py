"""Batch routes: queue a file of items, follow it, cancel it, and get its answers."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Annotated, Any

import orjson
from fastapi import Depends, Path, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.datastructures import FormData, UploadFile

from app.http.json_bodies import JsonRouter, require_media_type
from app.http.problem_details import PROBLEMS
from app.routes.dependencies import AppContext, InContext, error_responses, get_loaded_artifact, require_store
from app.routes.forms import check_same_site, read_form
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, PageFields
from app.routes.runs import get_run_dependencies
from app.routes.team_names import has_team_names, require_own_work
from app.running.batches import (
    FILE,
    make_batch_facts,
    open_items,
    parse_batch_spec,
    require_runnable_batch,
    survey_items,
)
from app.store.disk_space import require_disk_space
from app.store.repositories import Repositories
from app.store.table_types import JSON_LINES_TYPES, PARQUET, PARQUET_TYPES, UNSPECIFIED_TYPES
from models import Fault, InvalidRequest
from models.batch import Batch, BatchSpec
from models.errors import UnsupportedMediaType
from solvers import KINDS

router = JsonRouter(prefix="/v1/batches", tags=["batches"], dependencies=[Depends(require_store)])
bodies = (BatchSpec,)
BatchId = Annotated[
    str, Path(description="the batch's id", examples=["batch-7d0c3b9a5e4f4d6c8a1b2c3d4e5f6a7b"], max_length=100)
]
_SPEC_BYTES = _PIECE_BYTES = 2**20
_STATUSES = {kind.__name__: status for kind, (status, _) in PROBLEMS.items()}
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["spec", "file"],
                    "properties": {
                        "spec": {
                            "allOf": [{"$ref": "#/components/schemas/BatchSpec"}],
                            "description": "JSON with the artifact and the limits of the items",
                        },
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "JSON Lines: a line per item with the fields of `items` of a run, "
                            '`{"item": …, "id": "a"}`; or Parquet, a row per item with these fields as columns',
                        },
                    },
                },
                "example": {"spec": {"kind": "cascade", "name": "digits"}, "file": "(file)"},
                "encoding": {
                    "spec": {"contentType": "application/json"},
                    "file": {"contentType": f"{JSON_LINES_TYPES[0]}, {PARQUET}"},
                },
            }
        },
    }
}


class BatchList(PageFields):
    """A page of batches."""

    items: Annotated[list[Batch], Field(description="the batches, newest first")]


@router.post(
    "",
    summary="Run a file of items",
    status_code=202,
    response_model=Batch,
    responses=error_responses(404, 409, 413, 415, 429, 503),
    openapi_extra=_UPLOAD,
)
async def start_batch(request: Request, context: InContext) -> Response:
    """Queue a file of items, which a worker runs.

    A portfolio assigns all items together within one budget.

    Rejected before any call:

    - an empty file, an invalid line (the error has its number), more items than PARSIMONY_MAX_BATCH_ITEMS, or in
      Parquet and for portfolios than PARSIMONY_MAX_BATCH
    - an unknown artifact, or a classifier without an endpoint
    - limits that the kind does not support or cannot keep
    """
    require_media_type(request, "multipart/form-data")
    check_same_site(request, context.settings)
    with require_disk_space():
        form = await read_form(request, 2, _SPEC_BYTES)
        try:
            batch = await _queued(context, form)
        finally:
            await form.close()
    return Response(batch.model_dump_json(), 202, {"Location": f"/v1/batches/{batch.id}"}, "application/json")


@router.get("", summary="List the batches", responses=error_responses(503))
def list_batches(context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> BatchList:
    """List the batches, newest first, in pages; they expire 7 days after their end."""
    page = context.repos.batches.list_page(limit=limit, cursor=cursor)
    return BatchList(items=page.items, next=page.next, total=page.total)


@router.get("/{batch_id}", summary="Show a batch", responses=error_responses(404, 503))
def show_batch(batch_id: BatchId, context: InContext) -> Batch:
    """Return a batch: progress, cost so far, and result."""
    return context.repos.batches.get(batch_id)


@router.delete("/{batch_id}", summary="Cancel a batch", responses=error_responses(403, 404, 503))
def cancel_batch(batch_id: BatchId, context: InContext) -> Batch:
    """Cancel a batch; its answers are kept. A batch that has ended does not change.

    Only a team with names of its own cancels its batches.
    """
    if has_team_names(context):
        require_own_work(context, context.repos.batches.get(batch_id).team or "")
    return context.repos.batches.cancel(batch_id)


@router.get(
    "/{batch_id}/output",
    summary="Get the answers of a batch",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {
                JSON_LINES_TYPES[0]: {"schema": {"type": "string"}},
                PARQUET: {"schema": {"type": "string", "format": "binary"}},
            },
            "description": "JSON Lines: a line per item that was run, with its `index` in the file, from 0, and the "
            "reply of a run or the error; or Parquet with a row per item, if Accept requests it",
        },
        **error_responses(404, 503),
    },
)
def batch_output(batch_id: BatchId, context: InContext, request: Request) -> StreamingResponse:
    """Return one line per completed item, in the order of the file.

    A line has the item's index and the reply of a run, or its error.

    With `Accept: application/vnd.apache.parquet`, the reply is a table with the columns `index`, `id`, `label`,
    `confidence`, `degraded`, `error`, `status`, `cost`, `decision`, and `line` (the complete line).
    """
    batch = context.repos.batches.get(batch_id)
    kind = next((each for each in PARQUET_TYPES if each in request.headers.get("accept", "")), JSON_LINES_TYPES[0])
    end = "jsonl" if kind == JSON_LINES_TYPES[0] else "parquet"
    headers = {"Content-Disposition": f'attachment; filename="{batch.id}.{end}"', "Cache-Control": "no-store"}
    lines: Iterator[str | bytes] = stream_json_lines(context.repos, batch)
    if end == "parquet":
        with require_disk_space():
            lines = stream_parquet_output(context.repos, batch)
    return StreamingResponse(lines, media_type=kind, headers=headers)


def stream_parquet_output(repos: Repositories, batch: Batch) -> Iterator[bytes]:
    """Yield a batch's output as Parquet bytes."""
    from app.store.item_tables import write_answers  # the writers of tables, which only this needs

    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(prefix="parsimony-"))
        write_answers(stream_json_lines(repos, batch), file)
        file.seek(0)
        return _pieces_of(file, stack.pop_all())


def _pieces_of(file: IO[bytes], stack: ExitStack) -> Iterator[bytes]:
    with stack:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def stream_json_lines(repos: Repositories, batch: Batch) -> Iterator[str]:
    """Yield the lines of a batch's output."""
    for place, text in repos.batches.iterate_answers(batch):
        fields = {"index": place, **orjson.loads(text)}
        if "kind" in fields:
            fields["status"] = _STATUSES.get(fields.pop("kind"), 500)
        yield orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE).decode()


async def _queued(context: AppContext, form: FormData) -> Batch:
    """Parse the parts of a form, validate the batch, and queue it."""
    unknown = sorted(set(form) - {"spec", FILE})
    if unknown:
        raise InvalidRequest.from_faults(Fault((unknown[0],), f"is not a part of a batch; available: spec, {FILE}"))
    spec = parse_batch_spec(await _text(form, "spec"))
    file = _file(form)
    loaded = await get_loaded_artifact(context, KINDS[spec.kind], spec.name, spec.version)
    dependencies = get_run_dependencies(context)
    items = await asyncio.to_thread(open_items, file.file, context.settings, context.table_sandbox)
    survey = await asyncio.to_thread(survey_items, loaded, items, spec.limits, dependencies)
    registered = await asyncio.to_thread(context.repos.endpoints.get_all)
    await require_runnable_batch(loaded, survey, spec.limits, dependencies, registered)
    facts = make_batch_facts(loaded, spec, survey.count, context.payer)
    return await asyncio.to_thread(context.repos.batches.enqueue_batch, facts, items)


async def _text(form: FormData, part: str) -> str | bytes:
    value = form.get(part)
    if value is None:
        raise InvalidRequest.from_faults(Fault((part,), "is missing"))
    return await value.read(_SPEC_BYTES) if isinstance(value, UploadFile) else value


def _file(form: FormData) -> UploadFile:
    value = form.get(FILE)
    if not isinstance(value, UploadFile):
        raise InvalidRequest.from_faults(Fault((FILE,), "is missing" if value is None else "must be sent as a file"))
    kind = (value.content_type or "").partition(";")[0].strip().lower()
    if kind not in (*JSON_LINES_TYPES, *PARQUET_TYPES, *UNSPECIFIED_TYPES):
        raise UnsupportedMediaType(f"the file must be {JSON_LINES_TYPES[0]} or {PARQUET}, got {kind}")
    return value
