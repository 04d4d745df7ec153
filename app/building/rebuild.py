"""Rebuilds: a new version from the dataset of the old one and the rows that came as feedback on it."""

from dataclasses import dataclass

import numpy as np

from app.processes.clock import now
from app.store.datasets import digest_of
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest
from models.dataset_rows import with_rows
from models.errors import Conflict


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What to build, and from how many rows: old ones, and those that came as feedback."""

    request: BuildRequest
    old_rows: int
    new_rows: int


def prepare(repos: Repositories, record: ArtifactRecord, dataset: str | None = None) -> Rebuild:
    """Store the old dataset with the feedback's rows behind it, and say what to build from it.

    dataset: the name of the new one; else that of the old one with the number of the version after this. Raises
    Conflict if there are no rows, the old dataset was replaced, or another one has the new name.
    """
    rows = repos.feedback.rows(record.ref)
    if not rows:
        reason = f"{record.solver} {record.name!r} version {record.version} has no rows among its feedback"
        raise Conflict(f"{reason}; send outcomes with their row to POST /v1/feedback")
    info = repos.datasets.info(record.dataset)
    if record.dataset_sha256 not in ("", info.sha256):
        raise Conflict(f"dataset {info.name!r} is not what version {record.version} was built from: it was replaced")
    vectors = [each.embedding for each in rows if each.embedding is not None]
    embeddings = np.array(vectors, dtype=np.float32) if vectors else None
    grown = with_rows(repos.datasets.load(info), [each.row for each in rows], embeddings)
    name = dataset or _name_after(record)
    there = {known.name: known.sha256 for known in repos.datasets.infos()}
    if there.get(name, digest_of(grown)) != digest_of(grown):  # the same again: an earlier rebuild came no further
        raise Conflict(f"there is another dataset {name!r} already; choose a name with --dataset")
    repos.datasets.put(name, grown, created_at=now())
    request = BuildRequest(solver=record.solver, name=record.name, dataset=name, params=record.params, seed=record.seed)
    return Rebuild(request, info.rows, len(rows))


def _name_after(record: ArtifactRecord) -> str:
    """Name the dataset of the next version: the old name, its number replaced.

    >>> _name_after(ArtifactRecord.model_construct(dataset="digits.3", version=3))
    'digits.4'
    """
    base, dot, number = record.dataset.rpartition(".")
    stem = base if dot and number == str(record.version) else record.dataset
    return f"{stem[:50]}.{record.version + 1}"
