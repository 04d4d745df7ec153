"""Datasets in a real store: kept as they were checked, replaced, and not deleted while a build needs them."""

from collections.abc import Callable

import numpy as np
import pytest

from app.clock import now
from app.parts import Parts
from app.store import key
from models import Dataset, FeatureTable, Trace
from models.errors import Conflict, StoreRefused, UnknownDataset
from tests.app import stored


def blobs(parts: Parts) -> int:
    """Count the bytes in the store."""
    return len(stored.keys(parts, key("blob", "*")))


@pytest.mark.parametrize("make", [stored.trace, stored.features])
def test_a_dataset_comes_back_as_it_was_checked(make: Callable[[], Dataset], parts: Parts) -> None:
    dataset = make()
    _, new = parts.datasets.put("data", dataset, created_at=now())
    assert new
    back = parts.datasets.load(parts.datasets.info("data"))
    assert type(back) is type(dataset)
    assert (back.spec, back.classes, back.rows) == (dataset.spec, dataset.classes, dataset.rows)
    assert back.labels.tobytes() == dataset.labels.tobytes()
    if isinstance(back, Trace) and isinstance(dataset, Trace):
        np.testing.assert_array_equal(back.confidences, dataset.confidences)
        np.testing.assert_array_equal(back.predictions, dataset.predictions)
        np.testing.assert_array_equal(back.costs, dataset.costs)
    if isinstance(back, FeatureTable) and isinstance(dataset, FeatureTable):
        np.testing.assert_array_equal(back.values, dataset.values)
        np.testing.assert_array_equal(back.sizes, dataset.sizes)


def test_what_is_told_of_a_dataset_is_what_it_holds(parts: Parts) -> None:
    info = stored.put_trace(parts)
    assert parts.datasets.info("trace") == info
    assert parts.datasets.infos() == [info]
    assert (info.rows, info.classes, info.embedding_dimensions) == (60, ("cat", "dog", "owl"), 0)
    assert info.columns == info.spec.used_columns
    assert info.bytes == parts.store.client.strlen(key("blob", info.sha256))


def test_datasets_are_listed_by_name(parts: Parts) -> None:
    for name in ("b", "c", "a"):
        stored.put_trace(parts, name)
    assert [info.name for info in parts.datasets.infos()] == ["a", "b", "c"]


def test_a_dataset_takes_the_place_of_an_older_one_and_of_its_bytes(parts: Parts) -> None:
    old = stored.put_trace(parts, seed=0)
    info, new = parts.datasets.put("trace", stored.trace(seed=1), created_at=now())
    assert not new
    assert info.sha256 != old.sha256
    assert parts.datasets.infos() == [info]
    assert parts.datasets.load(info).rows == 60
    assert blobs(parts) == 1


def test_a_dataset_may_change_its_kind(parts: Parts) -> None:
    stored.put_trace(parts)
    info, _ = parts.datasets.put("trace", stored.features(), created_at=now())
    assert isinstance(parts.datasets.load(info), FeatureTable)


def test_the_same_dataset_again_changes_nothing_but_its_time(parts: Parts) -> None:
    first, second = stored.put_trace(parts), stored.put_trace(parts)
    assert first.sha256 == second.sha256
    assert parts.datasets.load(second).rows == 60
    assert blobs(parts) == 1


def test_equal_tables_under_two_names_share_their_bytes_until_both_are_gone(parts: Parts) -> None:
    stored.put_trace(parts, "a")
    info = stored.put_trace(parts, "b")
    assert blobs(parts) == 1
    parts.datasets.delete("a")
    assert parts.datasets.load(info).rows == 60
    parts.datasets.delete("b")
    assert stored.keys(parts) == []


def test_a_deleted_dataset_is_unknown(parts: Parts) -> None:
    stored.put_trace(parts)
    parts.datasets.delete("trace")
    for call in (parts.datasets.info, parts.datasets.delete):
        with pytest.raises(UnknownDataset, match="there is no dataset called 'trace'"):
            call("trace")


@pytest.mark.parametrize("running", [False, True])
def test_a_dataset_that_a_build_waits_for_or_reads_cannot_be_deleted(running: bool, parts: Parts) -> None:
    stored.put_trace(parts)
    stored.put_trace(parts, "other")
    build = parts.builds.enqueue(stored.request())
    if running:
        parts.builds.start(build.id)
    with pytest.raises(Conflict, match=f"dataset 'trace' is in use by build {build.id}; cancel it or wait for its end"):
        parts.datasets.delete("trace")
    parts.datasets.delete("other")
    parts.builds.cancel(build.id)
    parts.datasets.delete("trace")
    assert parts.datasets.infos() == []


def test_a_table_whose_bytes_are_gone_or_changed_is_refused(parts: Parts) -> None:
    info = stored.put_trace(parts)
    parts.store.client.setrange(key("blob", info.sha256), 50, b"x")
    with pytest.raises(StoreRefused, match="do not match their SHA-256"):
        parts.datasets.load(info)
    parts.store.client.delete(key("blob", info.sha256))
    with pytest.raises(StoreRefused, match="the table of dataset 'trace' is gone from the store; upload it again"):
        parts.datasets.load(info)
