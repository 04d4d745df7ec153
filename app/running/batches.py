"""Batches before they are queued: the items of a file, and what can be refused before anything is paid for them."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from app.processes.clock import current_time
from app.running.embedding import takes_embeddings
from app.running.item_start import RunDependencies, refuse_infeasible_item, refuse_unless_assignable, run_query
from app.running.runs import is_assigned_together, new_item_run, refuse_sizes
from app.serving.answers import callable_names
from app.serving.catalog import LoadedArtifact
from app.settings import Settings
from app.store.batches import new_id
from app.store.table_types import PARQUET_MAGIC
from models.batch import BatchFacts, BatchSpec
from models.errors import Fault, InvalidRequest, PayloadTooLarge
from models.run import RunItem, RunLimits
from solvers import KINDS
from solvers.base import Plan

FILE = "file"
"""What the file of items is called where it is wrong."""
RunIn = Callable[..., list[bytes]]


def read_spec(text: str | bytes) -> BatchSpec:
    """Read which artifact is to run a file; raises InvalidRequest with every fault."""
    try:
        spec = BatchSpec.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, "spec") from error
    if spec.kind not in KINDS:
        raise InvalidRequest.from_faults(
            Fault(("spec", "kind"), f"is {spec.kind!r}, must be one of {', '.join(KINDS)}")
        )
    return spec


def read_items(file: IO[bytes], settings: Settings, run_in: RunIn) -> list[RunItem]:
    """Read a file of items: JSON Lines, one object a line, empty lines left out; or Parquet, one a row; the first
    bytes decide. run_in: reads Parquet, in a process that it may end. Raises InvalidRequest with the line of the first
    fault, or PayloadTooLarge."""
    is_table = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    file.seek(0)
    items = _from_table(file, settings, run_in) if is_table else _from_lines(file, settings.max_batch)
    if not items:
        raise InvalidRequest.from_faults(Fault((FILE,), "is empty: each line, or row, has to be an item"))
    return items


def _from_lines(lines: Iterable[bytes], most: int) -> list[RunItem]:
    items: list[RunItem] = []
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            items.append(_item(f"line {number}", text))
        if len(items) > most:
            raise PayloadTooLarge(f"there are more than {most} items, the limit is {most} (PARSIMONY_MAX_BATCH)")
    return items


def _from_table(file: IO[bytes], settings: Settings, run_in: RunIn) -> list[RunItem]:
    from app.store.item_tables import read_item_table  # the readers of tables, which only this needs

    with tempfile.NamedTemporaryFile(prefix="parsimony-", suffix=".parquet") as copy:
        shutil.copyfileobj(file, copy)
        copy.flush()
        limits = {"max_bytes": settings.max_body_bytes, "most": settings.max_batch}
        rows = read_item_table(Path(copy.name), run_in=run_in, **limits)
    return [_item(f"row {number}", row) for number, row in enumerate(rows, start=1)]


def _item(where: str, text: bytes) -> RunItem:
    try:
        return RunItem.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, FILE, where) from error


async def refuse_unless_runnable(
    loaded: LoadedArtifact[Plan],
    items: Sequence[RunItem],
    limits: RunLimits,
    tools: RunDependencies,
    registered: Collection[str],
) -> None:
    """Raise what refuses a batch as a whole: limits that its kind does not take or cannot keep, items that lack what
    they are decided by, classifiers that have no endpoint.

    Nothing is called. registered: the names of the endpoints.
    """
    _refuse_missing(loaded, items, registered)
    first = new_item_run(loaded, items[0], limits, tools)
    if is_assigned_together(loaded, limits):
        refuse_sizes(items)
        refuse_unless_assignable(loaded, first, len(items))
    else:
        refuse_infeasible_item(loaded, first)
    if takes_embeddings(loaded):
        _refuse_unless_embeddable(loaded, items)
    if not takes_embeddings(loaded) or items[0].embedding is not None:
        query = run_query(loaded, first, items[0].embedding)
        await asyncio.to_thread(loaded.kind.decide, loaded.plan, query)
    for item in items:
        new_item_run(loaded, item, limits, tools).refuse_unsupported(loaded.kind)


def _refuse_missing(loaded: LoadedArtifact[Plan], items: Sequence[RunItem], registered: Collection[str]) -> None:
    names = list(callable_names(loaded))
    if takes_embeddings(loaded) and any(item.embedding is None for item in items):
        names += filter(None, [loaded.record.params.get("embedder")])
    missing = [name for name in names if name not in registered]
    if missing:
        message = f"has classifiers or features that no endpoint is registered for: {', '.join(missing)}"
        raise InvalidRequest.from_faults(Fault(("spec", "name"), f"{loaded.ref.name!r} {message}"))


def _refuse_unless_embeddable(loaded: LoadedArtifact[Plan], items: Sequence[RunItem]) -> None:
    """Raise InvalidRequest where there is neither an embedding nor what one can be made of, or where lengths differ."""
    embedder = loaded.record.params.get("embedder")
    for place, item in enumerate(items, start=1):
        text = item.text if item.text is not None else item.item
        if item.embedding is None and (embedder is None or not isinstance(text, str)):
            lacks = "it is not a text" if embedder is not None else "the artifact names no embedder"
            fault = f"item {place} has no embedding, and none can be made: {lacks}"
            raise InvalidRequest.from_faults(Fault((FILE,), fault))
    if len({len(item.embedding) for item in items if item.embedding is not None}) > 1:
        raise InvalidRequest.from_faults(Fault((FILE,), "has embeddings of different lengths"))


def facts_of_batch(loaded: LoadedArtifact[Plan], spec: BatchSpec, items: Sequence[RunItem]) -> BatchFacts:
    """Return the facts of a batch before it is queued."""
    return BatchFacts(
        id=new_id(),
        artifact=loaded.ref,
        limits=spec.limits,
        max_concurrency=spec.max_concurrency,
        total=len(items),
        unit=loaded.record.unit,
        created_at=current_time(),
    )
