"""Datasets in the store: checked when they are uploaded, and stored as arrays."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import cast

from app.store import codec
from app.store.client import (
    Pipeline,
    Store,
    add_blob_reference,
    make_store_key,
    read_json,
    read_model,
    remove_blob_reference,
)
from app.store.name_quotas import NO_QUOTAS, NameQuotas
from app.store.paging import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page, iterate_pages, make_page, read_cursor
from app.store.team_usage import DATASETS, make_dataset_key, open_dataset_names
from models import Dataset, DatasetFacts, FeaturesSpec, FeatureTable, Trace
from models.advice import Advice
from models.dataset_source import SourceFacts
from models.errors import Conflict, StoreRefused, UnknownAdvice, UnknownDataset
from models.stored_dataset import DatasetInfo, ReplacedDataset, ShownDataset
from solvers.row_repeats import list_data_warnings

_KIND = "dataset"
OPEN_BUILDS = make_store_key("builds", "open")
"""The ids of builds that are queued or running; their datasets cannot be deleted."""


class Datasets:
    """Repository of datasets and the advice on them."""

    def __init__(self, store: Store, quotas: NameQuotas = NO_QUOTAS) -> None:
        self._store, self._quotas = store, quotas
        self._names = open_dataset_names(store)

    def put(
        self,
        name: str,
        dataset: Dataset,
        *,
        created_at: str,
        allow: Callable[[str | None], None] = lambda sha256: None,
        source: SourceFacts | None = None,
    ) -> tuple[DatasetInfo, ReplacedDataset | None]:
        """Store a dataset; return its info and the dataset that it replaces, if any.

        Args:
            allow: receives the SHA-256 of the replaced dataset, and may raise to abort.
            source: the files that were sampled; None if the table was uploaded.
        Raises:
            QuotaExceeded: the team of the name has its maximum of datasets or bytes.
        """
        data = codec.encode(dataset, {})
        info = _info(name, dataset, data, created_at).model_copy(update={"source": source})
        reference, quota = f"dataset/{name}", self._quotas.find_quota(name)

        def change(pipe: Pipeline) -> ReplacedDataset | None:
            raw = cast("bytes | None", pipe.get(make_dataset_key(name)))
            old = (
                None
                if raw is None
                else ReplacedDataset(**{field: json.loads(raw)[field] for field in ReplacedDataset.model_fields})
            )
            allow(None if old is None else old.sha256)
            quota.require_dataset_room(self._store, name, info.bytes)
            pipe.multi()
            quota.mark_write(pipe)
            if old is not None and old.sha256 != info.sha256:
                remove_blob_reference(pipe, old.sha256, reference)
                pipe.delete(_advice(name))
            add_blob_reference(pipe, data, info.sha256, reference)
            pipe.set(make_dataset_key(name), info.model_dump_json())
            pipe.sadd(DATASETS, name)
            self._names.add_name(pipe, name)
            return old

        return info, self._store.run_transaction(change, make_dataset_key(name), *quota.watched)

    def list_page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[DatasetInfo]:
        """Return a page of datasets, sorted by name."""
        names, total = self._names.names_after(read_cursor(_KIND, cursor), limit + 1)
        page = make_page(_KIND, names, limit, total, str)
        records = self._store.get_many([make_dataset_key(name) for name in page.items])
        infos = [read_model(DatasetInfo, record) for record in records if record is not None]
        return Page(infos, page.next, page.total)

    def get_infos(self) -> list[DatasetInfo]:
        """Return all datasets, sorted by name."""
        return list(iterate_pages(lambda cursor: self.list_page(limit=MAX_PAGE_SIZE, cursor=cursor)))

    def repair_record(self) -> None:
        """Repair the name index after writes by older versions of the service."""
        self._names.repair_index()

    def get_info(self, name: str) -> DatasetInfo:
        """Return a dataset's info; raises UnknownDataset."""
        (record,) = self._store.get_many([make_dataset_key(name)])
        if record is None:
            raise UnknownDataset(f"dataset {name!r} not found")
        return read_model(DatasetInfo, record)

    def get_dataset_reply(self, name: str) -> ShownDataset:
        """Return a dataset's info and whether it has advice; raises UnknownDataset."""
        return ShownDataset(**dict(self.get_info(name)), advised=self._store.execute("exists", _advice(name)) > 0)

    def load(self, info: DatasetInfo) -> Dataset:
        """Return the dataset's checked table."""
        data = self._store.get_blob(info.sha256)
        if data is None:
            raise StoreRefused(f"table of dataset {info.name!r} not found in the store; upload it again")
        if isinstance(info.spec, FeaturesSpec):
            return codec.decode(data, FeatureTable, is_verified=True)
        return codec.decode(data, Trace, is_verified=True)

    def get_advice(self, name: str) -> Advice:
        """Return the latest advice on a dataset; raises UnknownDataset or UnknownAdvice."""
        record, raw = self._store.get_many([make_dataset_key(name), _advice(name)])
        if record is None:
            raise UnknownDataset(f"dataset {name!r} not found")
        if raw is None:
            raise UnknownAdvice(f"advice on dataset {name!r} not found; request it with POST /v1/advice")
        return read_model(Advice, raw)

    @staticmethod
    def store_advice(pipe: Pipeline, advice: Advice) -> None:
        """Queue the write of advice on a dataset in a transaction; replaces older advice."""
        pipe.set(_advice(advice.dataset), advice.model_dump_json())

    def delete(self, name: str, *, allow: Callable[[str], None] = lambda sha256: None) -> None:
        """Delete a dataset.

        ``allow`` receives its SHA-256, and may raise to abort.

        Raises:
            UnknownDataset: the dataset was not found.
            Conflict: a queued or running build uses the dataset.
        """
        reference = f"dataset/{name}"

        def change(pipe: Pipeline) -> None:
            raw = cast("bytes | None", pipe.get(make_dataset_key(name)))
            if raw is None:
                raise UnknownDataset(f"dataset {name!r} not found")
            ids = [item.decode() for item in cast("set[bytes]", pipe.smembers(OPEN_BUILDS))]
            open_builds = {i: cast("bytes | None", pipe.get(make_store_key("build", i))) for i in sorted(ids)}
            using = [i for i, build in open_builds.items() if build and read_json(build)["dataset"] == name]
            if using:
                raise Conflict(f"dataset {name!r} is in use by build {using[0]}; cancel the build or wait for it")
            digest = str(read_json(raw)["sha256"])
            allow(digest)
            pipe.multi()
            pipe.delete(make_dataset_key(name), _advice(name))
            pipe.srem(DATASETS, name)
            self._names.remove_name(pipe, name)
            remove_blob_reference(pipe, digest, reference)

        self._store.run_transaction(change, make_dataset_key(name), OPEN_BUILDS)


def hash_dataset(dataset: Dataset) -> str:
    """Return the SHA-256 of a dataset's stored bytes."""
    return sha256(codec.encode(dataset, {})).hexdigest()


def _advice(name: str) -> str:
    return make_store_key("advice", name)


def _info(name: str, dataset: Dataset, data: bytes, created_at: str) -> DatasetInfo:
    return DatasetInfo(
        **dict(DatasetFacts.from_dataset(dataset)),
        name=name,
        sha256=sha256(data).hexdigest(),
        bytes=len(data),
        created_at=created_at,
        warnings=list_data_warnings(dataset),
    )
