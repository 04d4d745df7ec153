"""Pages of lists, and the cursors between them.

A cursor contains the last item of a page instead of a position. So pages neither repeat nor omit items if others are
added or deleted between two requests.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from app.store.client import Pipeline, Store
from models import Fault, InvalidRequest

T = TypeVar("T")
DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
NUMBER = r"[1-9][0-9]{0,14}"
"""What a cursor of a list in the order of numbers names."""
_WRONG_CURSOR = "must be `next` of a reply of this list"
_MEND = """
local there = {}
for _, name in ipairs(redis.call(ARGV[1], KEYS[1])) do
    there[name] = true
    if not redis.call('ZSCORE', KEYS[2], name) then redis.call('ZADD', KEYS[2], 0, name) end
end
for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if not there[name] then redis.call('ZREM', KEYS[2], name) end
end
"""
"""Writes the difference only: most often there is none."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, the next page's cursor, and the total number of items."""

    items: list[T]
    next: str | None
    """The cursor of the next page; None if this is the last one."""
    total: int
    """How many items the whole list had at that moment."""


def write_cursor(kind: str, last: object) -> str:
    """Return the opaque cursor that continues after an item.

    >>> write_cursor("build", 12)
    'YnVpbGQ6MTI'
    """
    return urlsafe_b64encode(f"{kind}:{last}".encode()).decode().rstrip("=")


def read_cursor(kind: str, cursor: str | None, pattern: str = r"[^\x00-\x1f]+") -> str | None:
    """Return the item after which a cursor continues.

    Raises InvalidRequest if the cursor is from another list.

    >>> read_cursor("build", "YnVpbGQ6MTI")
    '12'
    """
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError as error:
        raise InvalidRequest.from_faults(Fault(("cursor",), _WRONG_CURSOR)) from error
    last = text.removeprefix(f"{kind}:")
    if not re.fullmatch(pattern, last) or write_cursor(kind, last) != cursor:
        raise InvalidRequest.from_faults(Fault(("cursor",), _WRONG_CURSOR))
    return last


def make_page(kind: str, items: Sequence[T], limit: int, total: int, key_of: Callable[[T], object]) -> Page[T]:
    """Return a page of up to ``limit`` items.

    ``items`` has one more than ``limit`` if there is a next page.
    """
    shown = list(items[:limit])
    return Page(shown, write_cursor(kind, key_of(shown[-1])) if len(items) > limit else None, total)


def list_newest_page(store: Store, kind: str, numbered: str, limit: int, cursor: str | None) -> Page[str]:
    """Return a page of names from a sorted set of running numbers, newest first."""
    last = read_cursor(kind, cursor, NUMBER)
    below = "+inf" if last is None else f"({last}"
    with store.open_pipeline() as pipe:
        pipe.zrevrangebyscore(numbered, below, "-inf", start=0, num=limit + 1, withscores=True)
        pipe.zcard(numbered)
        pairs, total = cast("tuple[list[tuple[bytes, float]], int]", pipe.execute())
    page = make_page(kind, pairs, limit, total, lambda pair: int(pair[1]))
    return Page([name.decode() for name, _ in page.items], page.next, page.total)


def iterate_pages(page_behind: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Yield the items of all pages."""
    page = page_behind(None)
    yield from page.items
    while page.next is not None:
        page = page_behind(page.next)
        yield from page.items


class NameIndex:
    """Sorted index of the names in a hash or set, to read a page in time proportional to it.

    Names are added and removed in the same transaction as their entry. Older versions of the service do not write the
    index. It is rebuilt if its size differs from that of the hash or set.
    """

    def __init__(self, store: Store, source: str, index: str, *, source_is_hash: bool) -> None:
        self._store, self._source, self._index = store, source, index
        self._is_hash = source_is_hash

    def add_name(self, pipe: Pipeline, name: str) -> None:
        """Queue the addition of a name."""
        pipe.zadd(self._index, {name: 0})

    def remove_name(self, pipe: Pipeline, name: str) -> None:
        """Queue the removal of a name."""
        pipe.zrem(self._index, name)

    def names_after(self, last: str | None, limit: int, prefixes: Sequence[str] = ("",)) -> tuple[list[str], int]:
        """Return up to ``limit`` names after ``last``, and the total number of names.

        Only names that begin with one of the prefixes count. Prefixes must be sorted, and none may begin with another.
        """
        names, total, whole = self._read(last, limit, prefixes)
        if not whole:
            self.repair_index()
            names, total, _ = self._read(last, limit, prefixes)
        return names[:limit], total

    def repair_index(self) -> None:
        """Rebuild the index if its size differs from that of the hash or set."""
        self._store.run(_MEND, [self._source, self._index], ["HKEYS" if self._is_hash else "SMEMBERS"])

    def _read(self, last: str | None, limit: int, prefixes: Sequence[str]) -> tuple[list[str], int, bool]:
        with self._store.open_pipeline() as pipe:
            _ = pipe.hlen(self._source) if self._is_hash else pipe.scard(self._source)
            pipe.zcard(self._index)
            for prefix in prefixes:
                low, high = (b"[" + prefix.encode(), b"(" + prefix.encode() + b"\xff")
                first = low if last is None or last < prefix else b"(" + last.encode()
                pipe.zlexcount(self._index, low, high)
                pipe.zrangebylex(self._index, first, high, start=0, num=limit)
            wanted, held, *answers = pipe.execute()
        names = [name.decode() for some in cast("list[list[bytes]]", answers[1::2]) for name in some]
        return names, sum(answers[::2]), wanted == held
