"""Datasets in a real store: kept as they were checked, replaced, and not deleted while a build needs them."""

from collections.abc import Callable

import numpy as np
import pytest

from app.processes.clock import current_timestamp
from app.store.client import make_store_key
from app.store.repositories import Repositories
from models import Dataset, FeatureTable, Trace
from models.errors import Conflict, PreconditionFailed, StoreRefused, UnknownDataset
from tests.support import stored


def blobs(repos: Repositories) -> int:
    return len(stored.keys(repos, make_store_key("blob", "*")))


@pytest.mark.parametrize("make", [stored.trace, stored.features])
def test_a_dataset_comes_back_as_it_was_checked(make: Callable[[], Dataset], repos: Repositories) -> None:
    dataset = make()
    _, replaced = repos.datasets.put("data", dataset, created_at=current_timestamp())
    assert replaced is None
    back = repos.datasets.load(repos.datasets.get_info("data"))
    assert type(back) is type(dataset)
    assert (back.spec, back.classes, back.rows) == (dataset.spec, dataset.classes, dataset.rows)
    assert back.labels.tobytes() == dataset.labels.tobytes()
    names = ("confidences", "predictions", "costs") if isinstance(dataset, Trace) else ("values", "sizes")
    for name in names:
        np.testing.assert_array_equal(getattr(back, name), getattr(dataset, name))


def test_what_is_told_of_a_dataset_is_what_it_holds(repos: Repositories) -> None:
    info = stored.put_trace(repos)
    assert repos.datasets.get_info("trace") == info
    assert repos.datasets.get_infos() == [info]
    assert (info.rows, info.classes, info.embedding_dimensions) == (60, ("cat", "dog", "owl"), 0)
    assert info.columns == info.spec.used_columns
    assert info.bytes == repos.store.client.strlen(make_store_key("blob", info.sha256))


def test_a_dataset_takes_the_place_of_an_older_one_and_of_its_bytes(repos: Repositories) -> None:
    old = stored.put_trace(repos, seed=0)
    info, replaced = repos.datasets.put("trace", stored.trace(seed=1), created_at=current_timestamp())
    assert replaced is not None
    assert (replaced.rows, replaced.sha256, replaced.created_at) == (60, old.sha256, old.created_at)
    assert info.sha256 != old.sha256
    assert repos.datasets.get_infos() == [info]
    assert repos.datasets.load(info).rows == 60
    assert blobs(repos) == 1
    again = stored.put_trace(repos, seed=1)  # changes nothing but its time
    assert (again.sha256, blobs(repos)) == (info.sha256, 1)
    other, _ = repos.datasets.put("trace", stored.features(), created_at=current_timestamp())
    assert isinstance(repos.datasets.load(other), FeatureTable)


def test_a_dataset_whose_place_may_not_be_taken_stays(repos: Repositories) -> None:
    """What allows is told of the one that is there, in the transaction that would replace it."""
    old, asked_of = stored.put_trace(repos, seed=0), list[str | None]()

    def allow(sha256: str | None) -> None:
        asked_of.append(sha256)
        raise PreconditionFailed("not that one")

    for name in ("trace", "new"):
        with pytest.raises(PreconditionFailed, match="not that one"):
            repos.datasets.put(name, stored.trace(seed=1), created_at=current_timestamp(), allow=allow)
    assert asked_of == [old.sha256, None]
    assert repos.datasets.get_infos() == [old]
    assert blobs(repos) == 1


def test_equal_tables_under_two_names_share_their_bytes_until_both_are_gone(repos: Repositories) -> None:
    stored.put_trace(repos, "a")
    info = stored.put_trace(repos, "c")
    assert [info.name for info in repos.datasets.get_infos()] == ["a", "c"]
    assert blobs(repos) == 1
    repos.datasets.delete("a")
    for call in (repos.datasets.get_info, repos.datasets.delete):
        with pytest.raises(UnknownDataset, match="'a'"):
            call("a")
    assert repos.datasets.load(info).rows == 60
    repos.datasets.delete("c")
    assert stored.keys(repos) == []


@pytest.mark.parametrize("running", [False, True])
def test_a_dataset_that_a_build_waits_for_or_reads_cannot_be_deleted(running: bool, repos: Repositories) -> None:
    stored.put_trace(repos)
    stored.put_trace(repos, "other")
    build = repos.builds.enqueue_build(stored.request())
    if running:
        repos.builds.start_build(build.id)
    with pytest.raises(
        Conflict, match=f"dataset 'trace' is in use by build {build.id}; cancel the build or wait for it"
    ):
        repos.datasets.delete("trace")
    repos.datasets.delete("other")
    repos.builds.cancel(build.id)
    repos.datasets.delete("trace")
    assert repos.datasets.get_infos() == []


def test_a_table_whose_bytes_are_gone_or_changed_is_refused(repos: Repositories) -> None:
    info = stored.put_trace(repos)
    repos.store.client.setrange(make_store_key("blob", info.sha256), 50, b"x")
    with pytest.raises(StoreRefused, match="do not match their SHA-256"):
        repos.datasets.load(info)
    repos.store.client.delete(make_store_key("blob", info.sha256))
    with pytest.raises(StoreRefused, match="table of dataset 'trace' not found in the store; upload it again"):
        repos.datasets.load(info)
