"""Validation of batches before they are queued and before any call is paid."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from app.processes.clock import current_timestamp
from app.running.embedding import needs_embedding
from app.running.item_start import RunDependencies, make_feasible_query, make_run_query, require_assignable_batch
from app.running.runs import is_assigned_together, new_item_run, require_no_sizes
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import list_callable_names
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
    """Parse the spec of a batch; raises InvalidRequest with all faults."""
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
        run_in: reads Parquet in a separate process, because malformed files may crash it.
    Raises:
        InvalidRequest: the file is malformed; the error has the first invalid line.
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


async def require_runnable_batch(
    loaded: LoadedArtifact[Plan],
    items: Sequence[RunItem],
    limits: RunLimits,
    dependencies: RunDependencies,
    registered: Collection[str],
) -> None:
    """Raise an error if a batch cannot run; no endpoint is called.

    Reasons are limits that the kind does not support or cannot keep, items without the fields that decisions need,
    and classifiers without an endpoint.

    Args:
        registered: names of the registered endpoints.
    """
    _refuse_missing(loaded, items, registered)
    first = new_item_run(loaded, items[0], limits, dependencies)
    if is_assigned_together(loaded, limits):
        require_no_sizes(items)
        require_assignable_batch(loaded, first, len(items))
    else:
        make_feasible_query(loaded, first)
    if needs_embedding(loaded):
        _refuse_unless_embeddable(loaded, items)
    if not needs_embedding(loaded) or items[0].embedding is not None:
        query = make_run_query(loaded, first, items[0].embedding)
        await asyncio.to_thread(loaded.kind.decide, loaded.plan, query)
    for item in items:
        new_item_run(loaded, item, limits, dependencies).check_supported_fields(loaded.kind)


def _refuse_missing(loaded: LoadedArtifact[Plan], items: Sequence[RunItem], registered: Collection[str]) -> None:
    names = list(list_callable_names(loaded))
    if needs_embedding(loaded) and any(item.embedding is None for item in items):
        names += filter(None, [loaded.record.params.get("embedder")])
    missing = [name for name in names if name not in registered and name != WORDS]
    if missing:
        message = f"has classifiers or features that no endpoint is registered for: {', '.join(missing)}"
        raise InvalidRequest.from_faults(Fault(("spec", "name"), f"{loaded.ref.name!r} {message}"))


def _refuse_unless_embeddable(loaded: LoadedArtifact[Plan], items: Sequence[RunItem]) -> None:
    """Raise InvalidRequest if an item has neither an embedding nor a text to embed.

    Also raise it if lengths of embeddings differ.
    """
    embedder = loaded.record.params.get("embedder")
    for place, item in enumerate(items, start=1):
        text = item.text if item.text is not None else item.item
        if item.embedding is None and (embedder is None or not isinstance(text, str)):
            lacks = "it is not a text" if embedder is not None else "the artifact was built without an embedder"
            fault = f"item {place} has no embedding, and none can be made: {lacks}"
            raise InvalidRequest.from_faults(Fault((FILE,), fault))
    if len({len(item.embedding) for item in items if item.embedding is not None}) > 1:
        raise InvalidRequest.from_faults(Fault((FILE,), "must have embeddings of equal length"))


def make_batch_facts(
    loaded: LoadedArtifact[Plan], spec: BatchSpec, items: Sequence[RunItem], payer: Payer
) -> BatchFacts:
    """Return the facts of a batch to be queued, which do not change later."""
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
        created_at=current_timestamp(),
    )
