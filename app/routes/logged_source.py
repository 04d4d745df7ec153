"""Logged rows that requests name: a dataset, or a recording in a range of time."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from app.importing.frozen_recordings import load_by_name
from app.routes.dependencies import AppContext
from app.serving.catalog import LoadedArtifact
from app.serving.logged_rows import load_logged_rows, require_unseen_rows
from app.store import codec
from models import Dataset, Trace
from models.base import NAME_PATTERN
from models.errors import UnknownDataset, UnknownRecording
from models.recording import TimeRange, Timestamp
from models.version_evaluation import EvaluatedRecording
from solvers.base import Plan

On = Annotated[
    str,
    Query(
        pattern=NAME_PATTERN,
        description="the dataset whose rows were logged, or the recording; if both have this name, the dataset, unless "
        "since or until is set",
        examples=["digits"],
    ),
]
Since = Annotated[
    Timestamp | None,
    Query(
        description="of a recording: start, ISO 8601 with offset; default: the oldest row. Set it to the end of the "
        "rows that a version learned from",
        examples=["2026-11-01T00:00:00Z"],
    ),
]
Until = Annotated[
    Timestamp | None,
    Query(description="of a recording: end, exclusive; default: now", examples=["2026-12-01T00:00:00Z"]),
]


def load_rows(
    context: AppContext, name: str, times: TimeRange, versions: Sequence[LoadedArtifact[Plan]]
) -> tuple[str | EvaluatedRecording, Dataset]:
    """Return rows that no version was built from, with the source they are from.

    Raises:
        UnknownDataset, UnknownRecording: neither a dataset nor a recording has this name.
        InvalidRequest: a version was built from these rows, or no row is usable.
    """
    unknown = None
    if times == TimeRange():
        try:
            return name, load_logged_rows(context.repos, name, *versions)
        except UnknownDataset as error:
            unknown = error
    try:
        found = load_by_name(name, times, context.repos, context.recorder.writer, context.upload_sandbox)
    except UnknownRecording:
        if unknown is None:
            raise
        raise UnknownDataset(f"{unknown}; no recording has this name either") from unknown
    require_unseen_rows(found.sha256, f"recording {name!r}", *versions)
    return EvaluatedRecording(name=name, **dict(found.used)), codec.decode(found.data, Trace, is_verified=True)
