"""Rebuilds: a new version from the old version's dataset and its feedback rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any

import numpy as np

from app.processes.clock import SECONDS_PER_DAY, current_timestamp
from app.store.build_owners import BuildOwner
from app.store.datasets import hash_dataset
from app.store.feedback import FeedbackRow
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest, Dataset
from models.arrays import Bools, Floats
from models.dataset_rows import append_rows
from models.errors import Conflict
from models.feedback import Alarm
from models.rebuild import Rebuild, RebuildRequest
from models.team_quota import find_owner_of_name, require_same_owner
from solvers.base import make_generator

MIN_ROWS_SINCE_CHANGE = 200
"""After an alarm a rebuild learns from the rows since the change point alone if there are this many."""


@dataclass(frozen=True, slots=True)
class PreparedRebuild:
    """The build request of a rebuild, and its numbers of old and feedback rows."""

    request: BuildRequest
    old_rows: int
    new_rows: int
    change_point: int | None


def start_rebuild(repos: Repositories, record: ArtifactRecord, options: RebuildRequest, owner: BuildOwner) -> Rebuild:
    """Queue the build of the next version.

    Raises the errors of ``prepare_rebuild`` and of a build request.
    """
    repos.builds.check_room(owner)  # before rows are stored for a build that is refused
    prepared = prepare_rebuild(repos, record, options)
    build = repos.builds.enqueue_build(prepared.request, owner=owner)
    counts = {name: getattr(prepared, name) for name in ("old_rows", "new_rows", "change_point")}
    return Rebuild(**dict(build), **counts)


def prepare_rebuild(repos: Repositories, record: ArtifactRecord, options: RebuildRequest) -> PreparedRebuild:
    """Store the rows of a rebuild as a dataset, and return the build request.

    Raises Conflict if there are no rows, if the old dataset was replaced, or if another dataset has the new name.
    """
    rows = repos.feedback.get_rows(record.ref)
    if not rows:
        reason = f"{record.kind} {record.name!r} version {record.version} has no rows among its feedback"
        raise Conflict(f"{reason}; send outcomes with their row to POST /v1/feedback")
    info = repos.datasets.get_info(record.dataset)
    if record.dataset_sha256 not in ("", info.sha256):
        raise Conflict(f"dataset {info.name!r} was replaced after version {record.version} was built from it")
    change = find_change_point(rows, options, repos.feedback.get_alarms(record.ref))
    stored_at = datetime.fromisoformat(info.created_at).timestamp()
    kept = _choose_rows(info.rows, stored_at, rows, options, change, seed=record.seed)
    old, new = kept[: info.rows], [row for row, keep in zip(rows, kept[info.rows :], strict=True) if keep]
    if not new:
        raise Conflict(f"no feedback rows since {options.since}; the feedback has {len(rows)} rows")
    chosen = _join_rows(repos.datasets.load(info).take(np.flatnonzero(old)), new)
    name = _free_name(repos, record, options.dataset, hash_dataset(chosen))
    repos.datasets.put(name, chosen, created_at=current_timestamp())
    request = make_next_build_request(record, name, activate=options.activate)
    return PreparedRebuild(request, int(old.sum()), len(new), change)


def make_next_build_request(record: ArtifactRecord, dataset: str, *, activate: bool) -> BuildRequest:
    """Return the build request of an artifact's next version, with the same options.

    The dataset may be another one.
    """
    return BuildRequest(
        kind=record.kind,
        name=record.name,
        dataset=dataset,
        params=record.params,
        seed=record.seed,
        guarantees=None if record.guarantees is None else record.guarantees.request,
        activate=activate,
    )


def find_change_point(rows: Sequence[FeedbackRow], options: RebuildRequest, alarms: Sequence[Alarm]) -> int | None:
    """Return the change point of the last alarm, if enough rows follow it.

    Returns None if the request selects rows itself.
    """
    if not alarms or (options.since, options.only_new, options.half_life) != (None, None, None):
        return None
    change = alarms[-1].change_point
    return change if sum(row.number >= change for row in rows) >= MIN_ROWS_SINCE_CHANGE else None


def _choose_rows(
    old_rows: int,
    stored_at: float,
    rows: Sequence[FeedbackRow],
    options: RebuildRequest,
    change: int | None,
    *,
    seed: int,
) -> Bools:
    """Return which of the old rows, and of the rows from later feedback, to learn from."""
    at = np.concatenate([np.full(old_rows, stored_at), [row.at for row in rows]])
    number = np.concatenate([np.zeros(old_rows), [row.number for row in rows]])
    kept = np.ones(len(at), dtype=bool)
    if options.since is not None:
        kept &= at >= options.since.timestamp()
    if change is not None:
        kept &= number >= change
    if options.only_new:
        kept &= number > 0
    return kept if options.half_life is None else kept & sample_by_age(at, options.half_life * SECONDS_PER_DAY, seed)


def sample_by_age(at: Floats, half_life: float, seed: int) -> Bools:
    """Return which rows to keep; the probability of each is 2^(-age / half-life).

    The age of the newest row is 0. Rows are not duplicated.

    >>> sample_by_age(np.repeat([0.0, 10.0], 1000), 10.0, 0).reshape(2, 1000).sum(axis=1).tolist()
    [510, 1000]
    """
    return np.asarray(make_generator(seed).random(len(at)) < 2.0 ** (-(at.max() - at) / half_life))


def _join_rows(old: Dataset, new: Sequence[FeedbackRow]) -> Any:
    vectors = [row.embedding for row in new if row.embedding is not None]
    embeddings = np.array(vectors, dtype=np.float32) if vectors else None
    return append_rows(old, [row.row for row in new], embeddings)


def _free_name(repos: Repositories, record: ArtifactRecord, wanted: str | None, digest: str) -> str:
    """Return the name of the new dataset.

    The name is free, or an earlier rebuild has stored the same rows under it. It has the owner of the artifact's name.
    """
    there = {known.name: known.sha256 for known in repos.datasets.get_infos()}
    quotas = repos.settings.team_quotas
    is_own = find_owner_of_name(quotas, record.dataset) == find_owner_of_name(quotas, record.name)
    before = record.dataset if is_own else record.name
    candidates = (_name_after(before, record.version, k) for k in count(1)) if wanted is None else iter([wanted])
    for name in candidates:
        require_same_owner(quotas, name, record.name)
        if there.get(name, digest) == digest:
            return name
    raise Conflict(f"dataset {wanted!r} exists with other rows; set dataset to another name")


def _name_after(before: str, version: int, more: int = 1) -> str:
    """Name the dataset of the next or a later version: the old name with another number.

    >>> _name_after("digits.3", version=3)
    'digits.4'
    """
    base, dot, number = before.rpartition(".")
    stem = base if dot and number == str(version) else before
    return f"{stem[:50]}.{version + more}"
