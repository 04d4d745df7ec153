"""Pages of lists in a real store: each item comes once and in order, whatever is added or deleted meanwhile."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.processes.clock import current_timestamp
from app.store.artifacts import Artifacts
from app.store.client import Store, make_store_key
from app.store.embedded import EmbeddedRedis
from app.store.paging import MAX_PAGE_SIZE, Page, iterate_pages, make_page, read_cursor, write_cursor
from app.store.repositories import Repositories
from models import InvalidRequest
from tests.support import stored

LISTS: dict[str, Callable[..., Page[Any]]] = {
    "artifacts": lambda repos, **options: repos.artifacts.list_page(**options),
    "artifacts of a kind": lambda repos, **options: repos.artifacts.list_page("cascade", **options),
    "artifacts of a prefix": lambda repos, **options: repos.artifacts.list_page(prefix="a", **options),
    "artifacts that are named": lambda repos, **options: repos.artifacts.page_of(
        repos.artifacts.get_pointers(), **options
    ),
    "versions": lambda repos, **options: repos.artifacts.versions_page("cascade", "a-1", **options),
    "datasets": lambda repos, **options: repos.datasets.list_page(**options),
    "builds": lambda repos, **options: repos.builds.list_page(**options),
}


def fill(repos: Repositories, count: int = 7) -> None:
    for number in range(count):
        stored.publish(repos, f"a-{number}")
        stored.publish(repos, "a-1", seed=number)
        stored.put_trace(repos, f"trace-{number}")
        repos.builds.enqueue_build(stored.request(dataset=f"trace-{number}"))


def shown(item: Any) -> object:
    return (item.name, item.version) if hasattr(item, "version") else getattr(item, "id", item.name)


@pytest.mark.parametrize("name", LISTS)
def test_pages_of_any_size_hold_each_item_once_and_in_order(name: str, repos: Repositories) -> None:
    fill(repos)
    listed = LISTS[name]
    whole = listed(repos, limit=1000)
    assert (whole.next, whole.total, len(whole.items)) == (None, len(whole.items), len({*map(shown, whole.items)}))
    assert len(whole.items) >= 7
    for limit in (1, 2, 3, 6, 7, 8):
        pages = list[Page[Any]]()
        cursor = None
        while not pages or cursor is not None:
            pages.append(listed(repos, limit=limit, cursor=cursor))
            cursor = pages[-1].next
        assert [item for page in pages for item in page.items] == whole.items
        assert {page.total for page in pages} == {whole.total}
        assert all(len(page.items) == limit for page in pages[:-1])
        assert pages[-1].items, "the last page is empty"


@pytest.mark.parametrize("name", LISTS)
def test_what_is_no_cursor_of_the_list_is_refused_by_its_field(name: str, repos: Repositories) -> None:
    fill(repos, 2)
    for cursor in ("", "x", "é", "AAAA", "!" * 20, "YnVpbGQ6MTI=", write_cursor("oracle", "1"), "a" * 999):
        with pytest.raises(InvalidRequest) as refusal:
            LISTS[name](repos, cursor=cursor)
        assert [fault.loc for fault in refusal.value.faults] == [("cursor",)], cursor


NAMES = st.text("ab-", min_size=1, max_size=3).map("n".__add__)


@given(kept=st.sets(NAMES), changes=st.lists(st.tuples(st.booleans(), NAMES)), limit=st.integers(1, 4))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_stays_comes_once_while_others_come_and_go(
    redis: EmbeddedRedis, kept: set[str], changes: list[tuple[bool, str]], limit: int
) -> None:
    store = Store(redis.url)
    store.client.flushdb()
    artifacts, present = Artifacts(store), set(kept)
    for name in kept:
        artifacts.publish(stored.artifact(name), created_at=current_timestamp())
    stayed, seen, left = set(kept), list[str](), iter(changes)
    for record in iterate_pages(lambda cursor: artifacts.list_page(limit=limit, cursor=cursor)):
        seen.append(record.name)
        for is_new, name in _some(left, 1):
            if is_new:
                artifacts.publish(stored.artifact(name), created_at=current_timestamp())
                present.add(name)
            elif name in present:
                artifacts.delete_all("cascade", name)
                present.discard(name)
                stayed.discard(name)
    assert seen == sorted(set(seen)), "some came twice, or out of order"
    assert stayed <= set(seen)
    assert [record.name for record in artifacts.list_page(limit=MAX_PAGE_SIZE).items] == sorted(present)
    store.close()


def _some(items: Iterator[tuple[bool, str]], count: int) -> list[tuple[bool, str]]:
    return [item for _, item in zip(range(count), items, strict=False)]


def test_a_store_of_an_older_version_lists_everything_and_is_indexed_once(repos: Repositories) -> None:
    fill(repos, 3)
    before = [LISTS[name](repos) for name in LISTS]
    indexes = (make_store_key("active-names"), make_store_key("dataset-names"))
    repos.store.client.delete(*indexes)
    stored.publish(repos, "a-9")  # its own name is in the index then, and no other
    assert [item.name for item in repos.artifacts.list_page().items] == ["a-0", "a-1", "a-2", "a-9"]
    repos.artifacts.delete_all("cascade", "a-9")
    assert [LISTS[name](repos) for name in LISTS] == before
    assert [repos.store.client.zcard(index) for index in indexes] == [3, 3]


def test_what_an_older_version_adds_beside_is_listed(repos: Repositories) -> None:
    record = stored.publish(repos, "old")
    raw = repos.store.client.get(make_store_key("version", "cascade", "old", 1))
    assert isinstance(raw, bytes)
    repos.store.client.set(make_store_key("version", "cascade", "older", 1), raw.replace(b'"old"', b'"older"'))
    repos.store.client.hset(make_store_key("active"), "cascade/older", f"1 {record.sha256}")
    assert [item.name for item in repos.artifacts.list_page().items] == ["old", "older"]
    stored.put_trace(repos, "b")
    repos.store.client.srem(make_store_key("datasets"), "b")  # as an older version deletes one and stores another
    repos.store.client.rename(make_store_key("dataset", "b"), make_store_key("dataset", "a"))
    repos.store.client.sadd(make_store_key("datasets"), "a")
    repos.datasets.repair_record()
    assert len(repos.datasets.list_page().items) == 1


def test_artifacts_are_found_by_solver_name_and_prefix(repos: Repositories) -> None:
    for name in ("a", "ab", "b"):
        stored.publish(repos, name)
    page = repos.artifacts.list_page
    assert [item.name for item in page("cascade").items] == ["a", "ab", "b"]
    assert [item.name for item in page(name="a").items] == ["a"]
    assert [item.name for item in page(prefix="a").items] == ["a", "ab"]
    assert [item.name for item in page("cascade", prefix="ab").items] == ["ab"]
    for none in (page("index"), page("oracle"), page(name="c"), page("index", "a"), page(prefix="c")):
        assert (none.items, none.next, none.total) == ([], None, 0)


def test_a_damaged_cursor_is_none_and_a_whole_one_is_read() -> None:
    cursor = write_cursor("artifact", "cascade/plan")
    assert read_cursor("artifact", cursor) == "cascade/plan"
    assert read_cursor("artifact", None) is None
    for damaged in (cursor[:-1], cursor + "=", cursor + "A", " " + cursor):
        with pytest.raises(InvalidRequest, match="of this list"):
            read_cursor("artifact", damaged)
    assert make_page("build", [1, 2], 2, 2, int) == Page([1, 2], None, 2)  # a page that is just full leads nowhere
    assert make_page("build", [1, 2], 1, 2, int) == Page([1], write_cursor("build", 1), 2)
    assert make_page("build", [], 1, 0, int) == Page([], None, 0)
