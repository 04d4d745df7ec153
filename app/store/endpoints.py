"""Endpoints in the store: one hash, which runs read as a whole."""

from collections.abc import Mapping
from contextlib import suppress

from app.store.client import Store
from app.store.counted_hash import CountedHash
from app.store.paging import DEFAULT_PAGE_SIZE, Page, make_page, read_cursor
from models.endpoint import ENDPOINT, Endpoint
from models.errors import CorruptArtifact, UnknownEndpoint

_KIND = "endpoint"
MAX_ENDPOINTS = 1000


class Endpoints:
    """Repository of endpoints."""

    def __init__(self, store: Store) -> None:
        self._records = CountedHash(store, "endpoints", MAX_ENDPOINTS, _parse_all)

    def put(self, name: str, endpoint: Endpoint) -> bool:
        """Store an endpoint, and return whether the name is new; raises PayloadTooLarge."""
        return self._records.put(name, lambda before: endpoint.model_dump_json())

    def delete(self, name: str) -> None:
        """Delete an endpoint; raises UnknownEndpoint."""
        if not self._records.delete(name):
            raise UnknownEndpoint(f"endpoint {name!r} not found")

    def get_all(self) -> dict[str, Endpoint]:
        """Return all readable endpoints by name.

        Endpoints in the format of another version of the service are omitted. If the store has lost all endpoints, the
        endpoints of the last read are returned.
        """
        return self._records.get_all()

    def get(self, name: str) -> Endpoint:
        """Return an endpoint.

        Raises:
            UnknownEndpoint: the endpoint was not found.
            CorruptArtifact: its record cannot be read.
        """
        text = self._records.get_text(name)
        if text is None:
            raise UnknownEndpoint(f"endpoint {name!r} not found")
        try:
            return ENDPOINT.validate_json(text)
        except ValueError as error:
            raise CorruptArtifact(f"cannot read endpoint {name!r} from the store; register it again") from error

    def list_page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[tuple[str, Endpoint]]:
        """Return a page of endpoints, sorted by name."""
        kept, last = self.get_all(), read_cursor(_KIND, cursor)
        behind = [(name, endpoint) for name, endpoint in kept.items() if last is None or name > last]
        return make_page(_KIND, behind[: limit + 1], limit, len(kept), lambda one: one[0])


def _parse_all(texts: Mapping[str, str]) -> dict[str, Endpoint]:
    endpoints = {}
    for name, text in sorted(texts.items()):
        with suppress(ValueError):
            endpoints[name] = ENDPOINT.validate_json(text)
    return endpoints
