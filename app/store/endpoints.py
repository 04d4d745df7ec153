"""Endpoints in the store: one hash, read as a whole, for every run may need any of them."""

from contextlib import suppress

from app.store.client import Pipeline, Store, make_key
from app.store.pages import USUAL_PAGE, Page, cut_page, read_cursor
from models.endpoint import ENDPOINT, Endpoint
from models.errors import CorruptArtifact, PayloadTooLarge, UnknownEndpoint

_ALL = make_key("endpoints")
_WRITTEN = make_key("endpoints-written")
"""Counts changes: without it a store that holds no endpoint has lost them."""
_KIND = "endpoint"
MOST = 1000
"""Endpoints that there may be."""


class Endpoints:
    """The endpoints of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[dict[str, str], dict[str, Endpoint]] = ({}, {})
        """The hash as it was read last, and its endpoints: it is read every few seconds, and rarely changes."""

    def put(self, name: str, endpoint: Endpoint) -> bool:
        """Store an endpoint; returns whether the name is new. Raises PayloadTooLarge."""

        def change(pipe: Pipeline) -> bool:
            is_new = not pipe.hexists(_ALL, name)
            if is_new and pipe.hlen(_ALL) >= MOST:
                raise PayloadTooLarge(f"there are {MOST} endpoints, and there may be no more")
            pipe.multi()
            pipe.hset(_ALL, name, endpoint.model_dump_json())
            pipe.incr(_WRITTEN)
            return is_new

        return self._store.run_transaction(change, _ALL)

    def delete(self, name: str) -> None:
        """Forget an endpoint; raises UnknownEndpoint."""

        def change(pipe: Pipeline) -> None:
            if not pipe.hexists(_ALL, name):
                raise UnknownEndpoint(f"endpoint {name!r} not found")
            pipe.multi()
            pipe.hdel(_ALL, name)
            pipe.incr(_WRITTEN)

        self._store.run_transaction(change, _ALL)

    def get_all(self) -> dict[str, Endpoint]:
        """Give all of them by name, but those that cannot be read, which another version may have kept.

        Where the store has lost them, those that were read last stay.
        """
        texts = self._store.get_texts(_ALL)
        before, kept = self._read
        is_lost = bool(before) and not texts and not self._store.execute("exists", _WRITTEN)
        if texts == before or is_lost:
            return kept
        kept = {}
        for name, text in sorted(texts.items()):
            with suppress(ValueError):
                kept[name] = ENDPOINT.validate_json(text)
        self._read = texts, kept
        return kept

    def get(self, name: str) -> Endpoint:
        """Give one; raises UnknownEndpoint, or CorruptArtifact for what cannot be read."""
        text = self._store.execute("hget", _ALL, name)
        if text is None:
            raise UnknownEndpoint(f"endpoint {name!r} not found")
        try:
            return ENDPOINT.validate_json(text)
        except ValueError as error:
            raise CorruptArtifact(
                f"endpoint {name!r} is kept in a form that cannot be read; register it again"
            ) from error

    def list_page(self, *, limit: int = USUAL_PAGE, cursor: str | None = None) -> Page[tuple[str, Endpoint]]:
        """Give a page of them by name."""
        kept, last = self.get_all(), read_cursor(_KIND, cursor)
        behind = [(name, endpoint) for name, endpoint in kept.items() if last is None or name > last]
        return cut_page(_KIND, behind[: limit + 1], limit, len(kept), lambda one: one[0])
