"""Recording routes: set, show, and delete recordings, and use their rows."""

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import Field

from app.http.json_bodies import JsonRouter
from app.importing.call_coverage import measure_coverage
from app.importing.frozen_recordings import freeze_by_name
from app.processes.clock import format_timestamp
from app.recording.report import count_rows
from app.recording.row_lines import make_posted_lines, make_truth_lines
from app.recording.segments import measure_bytes
from app.recording.writer import Stream
from app.routes.dependencies import (
    AppContext,
    InContext,
    describe_body,
    error_responses,
    get_loaded_artifact,
    path_name,
    read_batch,
    require_json_body,
    require_store,
)
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, PageFields
from app.routes.team_names import OWN_NAME, require_own_names
from app.serving.classifier_names import iterate_row_classifiers, iterate_truth_classifiers
from app.store.paging import make_page, read_cursor
from app.store.recordings import StoredRecording
from models import Fault, InvalidRequest
from models.recording import (
    MAX_ROWS,
    MAX_TRUTHS,
    AcceptedRows,
    FreezeRequest,
    FrozenDataset,
    Grouping,
    RecordingReport,
    RecordingSpec,
    RowsRequest,
    ShownRecording,
    TruthsRequest,
)
from solvers import KINDS

router = JsonRouter(prefix="/v1/recordings", tags=["recordings"], dependencies=[Depends(require_store)])
bodies = (RowsRequest, TruthsRequest)
RecordingName = Annotated[str, path_name("digits")]
CoverageBy = Annotated[
    Grouping | None,
    Query(description="how the rows of `coverage` are grouped; default: no coverage", examples=["hour"]),
]
_KIND = "recording"


class RecordingList(PageFields):
    """A page of recordings."""

    items: Annotated[list[ShownRecording], Field(description="the recordings, by name")]


@router.put(
    "/{name}",
    summary="Set a recording",
    dependencies=[OWN_NAME],
    response_model=ShownRecording,
    responses={
        201: {"model": ShownRecording, "description": "the recording is new"},
        **error_responses(404, 409, 413, 415, 503),
    },
)
async def put_recording(
    name: RecordingName, recording: RecordingSpec, context: InContext, response: Response
) -> ShownRecording:
    """Record the runs of an artifact, or rows that you post.

    The recording replaces one of the same name, and keeps its rows. A recording of another artifact or in another unit
    is not replaced (409). Other servers apply the recording within seconds. It remains if the artifact is deleted.
    """
    if recording.artifact is not None:
        require_own_names(context, recording.artifact.name)
    unit = await _unit_of(context, recording)
    is_new = await asyncio.to_thread(context.repos.recordings.put, name, recording, unit)
    await asyncio.to_thread(context.seen.refresh_recordings)
    response.status_code = 201 if is_new else 200
    stored = await asyncio.to_thread(context.repos.recordings.get, name)
    return (await asyncio.to_thread(_show, context, [stored]))[0]


async def _unit_of(context: AppContext, recording: RecordingSpec) -> str:
    """Return the unit of the recorded artifact, else the declared unit.

    Raises UnknownArtifact. Raises InvalidRequest if the artifact's classifiers do not give the answers.
    """
    if recording.artifact is None:
        return str(recording.unit)
    kind = KINDS.get(recording.artifact.kind)
    if kind is None:
        fault = Fault(("artifact", "kind"), f"must be one of {', '.join(KINDS)}, got {recording.artifact.kind!r}")
        raise InvalidRequest.from_faults(fault)
    loaded = await get_loaded_artifact(context, kind, recording.artifact.name, None)
    names = kind.list_answering_names(loaded.plan)
    if not names:
        message = f"must have classifiers that answer, which {kind.name} artifacts do not have"
        raise InvalidRequest.from_faults(Fault(("artifact",), message))
    if recording.reference is not None and recording.reference not in names:
        message = f"must be a classifier of the artifact: {', '.join(names)}; got {recording.reference!r}"
        raise InvalidRequest.from_faults(Fault(("reference",), message))
    return loaded.record.unit


@router.get("", summary="List the recordings", responses=error_responses(503))
def list_recordings(context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> RecordingList:
    """List the recordings by name, in pages, without counts of their rows."""
    last, every = read_cursor(_KIND, cursor), context.repos.recordings.get_all()
    further = [one for one in every if last is None or one.name > last]
    page = make_page(_KIND, further[: limit + 1], limit, len(every), lambda one: one.name)
    return RecordingList(items=_show(context, page.items), next=page.next, total=page.total)


@router.get("/{name}", summary="Show a recording", responses=error_responses(404, 503))
def show_recording(name: RecordingName, context: InContext, coverage_by: CoverageBy = None) -> RecordingReport:
    """Return a recording, with counts of the rows on this server's disk.

    If requested, the reply has the coverage of groups of rows.
    """
    stored = context.repos.recordings.get(name)
    folder, reference = context.recorder.writer.folder_of(stored.id), stored.spec.reference
    counts = count_rows(folder, reference)
    coverage = None if coverage_by is None else measure_coverage(folder, coverage_by, reference)
    (shown,) = _show(context, [stored])
    return RecordingReport(
        **dict(shown),
        rows=counts.rows,
        oldest=_format_time(counts.oldest),
        newest=_format_time(counts.newest),
        explored_share=counts.explored / max(counts.rows, 1),
        rows_with_truth=counts.with_truth,
        coverage=coverage,
    )


@router.delete(
    "/{name}",
    summary="Delete a recording",
    dependencies=[OWN_NAME],
    status_code=204,
    responses=error_responses(404, 503),
)
async def delete_recording(name: RecordingName, context: InContext) -> None:
    """Delete a recording and its rows; other servers delete theirs within seconds."""
    await asyncio.to_thread(context.repos.recordings.delete, name)
    await asyncio.to_thread(context.seen.refresh_recordings)


@router.post(
    "/{name}/rows",
    summary="Add rows of runs that you made",
    dependencies=[Depends(require_json_body)],
    responses=error_responses(404, 413, 415, 503),
    openapi_extra=describe_body(RowsRequest),
)
async def add_rows(name: RecordingName, request: Request, context: InContext) -> AcceptedRows:
    """Write rows, and reply once they are on disk.

    The recording's `sample` and `explore` do not apply to these rows. Rows of your own exploration have
    `explore` and `propensity`. Rows with a `key` are counted once, so that a request can be repeated if its reply was
    lost. If a row has a classifier that no version of the artifact has, no row is written (422).
    """
    stored = await asyncio.to_thread(context.repos.recordings.get, name)
    read = partial(read_batch, context, RowsRequest, most=MAX_ROWS)
    rows = await asyncio.to_thread(read, await request.body())
    named = iterate_row_classifiers(rows.items)
    await asyncio.to_thread(context.classifier_names.check_known_classifiers, stored, named)
    lines = await asyncio.to_thread(make_posted_lines, rows.items, stored.spec)
    return await _append(context, stored, "rows", lines)


@router.post(
    "/{name}/truths",
    summary="Add truths of recorded items",
    dependencies=[Depends(require_json_body)],
    responses=error_responses(404, 413, 415, 503),
    openapi_extra=describe_body(TruthsRequest),
)
async def add_truths(name: RecordingName, request: Request, context: InContext) -> AcceptedRows:
    """Write truths, and reply once they are on disk.

    Truths are joined with rows by item id when a dataset is made. A truth may be sent before its row. If a truth has a
    classifier that no version of the artifact has, no truth is written (422).
    """
    stored = await asyncio.to_thread(context.repos.recordings.get, name)
    read = partial(read_batch, context, TruthsRequest, most=MAX_TRUTHS)
    truths = await asyncio.to_thread(read, await request.body())
    named = iterate_truth_classifiers(truths.items)
    await asyncio.to_thread(context.classifier_names.check_known_classifiers, stored, named)
    lines = await asyncio.to_thread(make_truth_lines, truths.items)
    return await _append(context, stored, "truths", lines)


async def _append(context: AppContext, stored: StoredRecording, stream: Stream, lines: list[bytes]) -> AcceptedRows:
    await asyncio.wrap_future(context.recorder.writer.append_lines(stored, stream, lines))
    return AcceptedRows(accepted=len(lines))


@router.post(
    "/{name}/dataset",
    summary="Make a dataset of recorded rows",
    status_code=201,
    responses=error_responses(404, 409, 413, 415, 503),
)
async def freeze_dataset(name: RecordingName, freeze: FreezeRequest, context: InContext) -> FrozenDataset:
    """Store the rows of a time range as a partial trace with propensities.

    The rows are those on this server's disk. The reply counts unused rows by reason, such as rows without truth.
    """
    require_own_names(context, freeze.dataset)
    return await asyncio.to_thread(
        freeze_by_name, name, freeze, context.repos, context.recorder.writer, context.upload_sandbox
    )


def _show(context: AppContext, recordings: Sequence[StoredRecording]) -> list[ShownRecording]:
    day = datetime.now(UTC).date().isoformat()
    costs = context.repos.recordings.explored_costs([one.id for one in recordings], day)
    return [
        ShownRecording(
            name=one.name,
            recording=one.spec,
            unit=one.unit,
            created_at=one.created_at,
            bytes=measure_bytes(context.recorder.writer.folder_of(one.id)),
            explored_cost=cost,
        )
        for one, cost in zip(recordings, costs, strict=True)
    ]


def _format_time(seconds: float) -> str | None:
    return format_timestamp(seconds) if math.isfinite(seconds) else None
