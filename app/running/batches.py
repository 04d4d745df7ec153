"""Validation of batches before they are queued and before any call is paid."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from app.processes.clock import current_time
from app.running.embedding import takes_embeddings
from app.running.item_start import RunDependencies, make_run_query, refuse_infeasible_item, refuse_unless_assignable
from app.running.runs import is_assigned_together, new_item_run, refuse_sizes
from app.serving.answers import callable_names
from app.serving.catalog import LoadedArtifact
from app.settings import Settings
from app.store.batches import new_id
from app.store.table_types import PARQUET_MAGIC
from models.batch import BatchFacts, BatchSpec
from models.budget import Payer
from models.errors import Fault, InvalidRequest, PayloadTooLarge
from models.run import RunItem, RunLimits
from models.word_embedding import WORDS
from solvers import KINDS
from solvers.base import Plan

FILE = "file"
"""What the file of items is called where it is wrong."""
RunIn = Callable[..., list[bytes]]


def parse_batch_spec(text: str | bytes) -> BatchSpec:
    """Parse the spec of a batch; raises InvalidRequest that lists every fault."""
    try:
        spec = BatchSpec.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, "spec") from error
    if spec.kind not in KINDS:
        raise InvalidRequest.from_faults(
            Fault(("spec", "kind"), f"must be one of {', '.join(KINDS)}, got {spec.kind!r}")
        )
    return spec


def read_items(file: IO[bytes], settings: Settings, run_in: RunIn) -> list[RunItem]:
    """Parse the items of a batch file: JSON Lines or Parquet, by its first bytes.

    Empty lines are ignored.

    Args:
        run_in: runs the read of Parquet in a separate process, which malformed files may crash.
    Raises:
        InvalidRequest: the file is malformed; names the first invalid line.
        PayloadTooLarge: the file has too many items or bytes.
    """
    is_table = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    file.seek(0)
    items = _from_table(file, settings, run_in) if is_table else _from_lines(file, settings.max_batch)
    if not items:
        raise InvalidRequest.from_faults(Fault((FILE,), "must have at least 1 item; each line or row is an item"))
    return items


def _from_lines(lines: Iterable[bytes], most: int) -> list[RunItem]:
    items: list[RunItem] = []
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            items.append(_item(f"line {number}", text))
        if len(items) > most:
            raise PayloadTooLarge(f"the file must have at most {most} items (PARSIMONY_MAX_BATCH)")
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
    """Raise an error if a batch cannot run; calls no endpoint.

    Reasons are limits that the kind does not support or cannot keep, items without the fields that decisions need,
    and classifiers without an endpoint.

    Args:
        registered: names of the registered endpoints.
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
        query = make_run_query(loaded, first, items[0].embedding)
        await asyncio.to_thread(loaded.kind.decide, loaded.plan, query)
    for item in items:
        new_item_run(loaded, item, limits, tools).refuse_unsupported(loaded.kind)


def _refuse_missing(loaded: LoadedArtifact[Plan], items: Sequence[RunItem], registered: Collection[str]) -> None:
    names = list(callable_names(loaded))
    if takes_embeddings(loaded) and any(item.embedding is None for item in items):
        names += filter(None, [loaded.record.params.get("embedder")])
    missing = [name for name in names if name not in registered and name != WORDS]
    if missing:
        message = f"has classifiers or features that no endpoint is registered for: {', '.join(missing)}"
        raise InvalidRequest.from_faults(Fault(("spec", "name"), f"{loaded.ref.name!r} {message}"))


def _refuse_unless_embeddable(loaded: LoadedArtifact[Plan], items: Sequence[RunItem]) -> None:
    """Raise InvalidRequest if an item has neither an embedding nor a text to embed, or if lengths of embeddings
    differ."""
    embedder = loaded.record.params.get("embedder")
    for place, item in enumerate(items, start=1):
        text = item.text if item.text is not None else item.item
        if item.embedding is None and (embedder is None or not isinstance(text, str)):
            lacks = "it is not a text" if embedder is not None else "the artifact was built without an embedder"
            fault = f"item {place} has no embedding, and none can be made: {lacks}"
            raise InvalidRequest.from_faults(Fault((FILE,), fault))
    if len({len(item.embedding) for item in items if item.embedding is not None}) > 1:
        raise InvalidRequest.from_faults(Fault((FILE,), "must have embeddings of equal length"))


def facts_of_batch(loaded: LoadedArtifact[Plan], spec: BatchSpec, items: Sequence[RunItem], payer: Payer) -> BatchFacts:
    """Return the immutable facts of a batch that is to be queued."""
    return BatchFacts(
        id=new_id(),
        artifact=loaded.ref,
        limits=spec.limits,
        max_concurrency=spec.max_concurrency,
        total=len(items),
        divided=spec.version is None and not is_assigned_together(loaded, spec.limits),
        unit=loaded.record.unit,
        key=payer.key or None,
        team=payer.team or None,
        created_at=current_time(),
    )
