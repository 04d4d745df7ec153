"""Validation of batches before they are queued and before any call is paid."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from app.processes.clock import current_timestamp
from app.running.embedding import needs_embedding
from app.running.item_start import RunDependencies, make_feasible_query, make_run_query, require_assignable_batch
from app.running.runs import NO_SIZES, is_assigned_together, new_item_run
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import list_callable_names
from app.settings import Settings
from app.store.batches import new_id
from app.store.table_types import PARQUET_MAGIC
from models.batch import BatchFacts, BatchSpec
from models.budget import Payer
from models.errors import Fault, InvalidRequest, ParsimonyError, PayloadTooLarge
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


@dataclass(frozen=True, slots=True)
class ItemLines:
    """The items of a file of JSON Lines; each iteration reads the file from its start."""

    lines: IO[bytes]

    def __iter__(self) -> Iterator[RunItem]:
        self.lines.seek(0)
        for number, line in enumerate(self.lines, start=1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield _item(f"line {number}", text)


BatchItems = list[RunItem] | ItemLines
"""The items of a batch, which can be iterated several times."""


def open_items(file: IO[bytes], settings: Settings, run_in: RunIn) -> BatchItems:
    """Open the items of a batch file: JSON Lines or Parquet, by its first bytes.

    JSON Lines are parsed when they are iterated; empty lines are ignored.

    Args:
        run_in: reads Parquet in a separate process, because malformed files may crash it.
    Raises:
        InvalidRequest: the file is malformed Parquet.
        PayloadTooLarge: the Parquet file has too many items or bytes.
    """
    is_table = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    file.seek(0)
    return _read_table(file, settings, run_in) if is_table else ItemLines(file)


def _read_table(file: IO[bytes], settings: Settings, run_in: RunIn) -> list[RunItem]:
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


@dataclass(slots=True)
class ItemSurvey:
    """What a pass over the items of a batch finds.

    Attributes:
        lacks_embedding: whether an item has no embedding.
        unembeddable: number of the first item without an embedding and without a text; None without one.
        has_sizes: whether an item has a size.
        lengths: lengths of the embeddings.
        unsupported: the error of the first item with fields that the kind does not support.
    """

    first: RunItem
    count: int = 0
    lacks_embedding: bool = False
    unembeddable: int | None = None
    has_sizes: bool = False
    lengths: set[int] = field(default_factory=set)
    unsupported: ParsimonyError | None = None


def survey_items(
    loaded: LoadedArtifact[Plan], items: BatchItems, limits: RunLimits, dependencies: RunDependencies
) -> ItemSurvey:
    """Parse and count all items of a batch; memory does not grow with their number.

    Raises:
        InvalidRequest: a line is malformed, or there are no items.
        PayloadTooLarge: there are too many items.
    """
    most, survey = dependencies.settings.max_batch_items, None
    together, embedder = is_assigned_together(loaded, limits), loaded.record.params.get("embedder")
    for item in items:
        survey = ItemSurvey(item) if survey is None else survey
        survey.count += 1
        if survey.count > most:
            raise PayloadTooLarge(f"the file must have at most {most} items (PARSIMONY_MAX_BATCH_ITEMS)")
        _survey_item(survey, item, embedder)
        if survey.unsupported is None:
            try:
                new_item_run(loaded, item, limits, dependencies).check_supported_fields(loaded.kind)
            except ParsimonyError as error:
                survey.unsupported = error
    if survey is None:
        raise InvalidRequest.from_faults(Fault((FILE,), "must have at least 1 item; each line or row is an item"))
    most = dependencies.settings.max_batch
    if together and survey.count > most:
        raise PayloadTooLarge(
            f"a portfolio must assign at most {most} items together (PARSIMONY_MAX_BATCH), got {survey.count}"
        )
    return survey


def _survey_item(survey: ItemSurvey, item: RunItem, embedder: str | None) -> None:
    text = item.text if item.text is not None else item.item
    survey.has_sizes |= item.size is not None
    if item.embedding is not None:
        survey.lengths.add(len(item.embedding))
        return
    survey.lacks_embedding = True
    if survey.unembeddable is None and (embedder is None or not isinstance(text, str)):
        survey.unembeddable = survey.count


async def require_runnable_batch(
    loaded: LoadedArtifact[Plan],
    survey: ItemSurvey,
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
    _refuse_missing(loaded, survey, registered)
    first = new_item_run(loaded, survey.first, limits, dependencies)
    if is_assigned_together(loaded, limits):
        if survey.has_sizes:
            raise InvalidRequest.from_faults(NO_SIZES)
        require_assignable_batch(loaded, first, survey.count)
    else:
        make_feasible_query(loaded, first)
    if needs_embedding(loaded):
        _refuse_unless_embeddable(loaded, survey)
    if not needs_embedding(loaded) or survey.first.embedding is not None:
        query = make_run_query(loaded, first, survey.first.embedding)
        await asyncio.to_thread(loaded.kind.decide, loaded.plan, query)
    if survey.unsupported is not None:
        raise survey.unsupported


def _refuse_missing(loaded: LoadedArtifact[Plan], survey: ItemSurvey, registered: Collection[str]) -> None:
    names = list(list_callable_names(loaded))
    if needs_embedding(loaded) and survey.lacks_embedding:
        names += filter(None, [loaded.record.params.get("embedder")])
    missing = [name for name in names if name not in registered and name != WORDS]
    if missing:
        message = f"has classifiers or features that no endpoint is registered for: {', '.join(missing)}"
        raise InvalidRequest.from_faults(Fault(("spec", "name"), f"{loaded.ref.name!r} {message}"))


def _refuse_unless_embeddable(loaded: LoadedArtifact[Plan], survey: ItemSurvey) -> None:
    """Raise InvalidRequest if an item has neither an embedding nor a text to embed.

    Also raise it if lengths of embeddings differ.
    """
    if survey.unembeddable is not None:
        has_embedder = loaded.record.params.get("embedder") is not None
        lacks = "it is not a text" if has_embedder else "the artifact was built without an embedder"
        fault = f"item {survey.unembeddable} has no embedding, and none can be made: {lacks}"
        raise InvalidRequest.from_faults(Fault((FILE,), fault))
    if len(survey.lengths) > 1:
        raise InvalidRequest.from_faults(Fault((FILE,), "must have embeddings of equal length"))


def make_batch_facts(loaded: LoadedArtifact[Plan], spec: BatchSpec, count: int, payer: Payer) -> BatchFacts:
    """Return the facts of a batch to be queued, which do not change later."""
    return BatchFacts(
        id=new_id(),
        artifact=loaded.ref,
        limits=spec.limits,
        max_concurrency=spec.max_concurrency,
        total=count,
        divided=spec.version is None and not is_assigned_together(loaded, spec.limits),
        unit=loaded.record.unit,
        key=payer.key or None,
        team=payer.team or None,
        created_at=current_timestamp(),
    )
