"""Keeps the key of an endpoint out of everything that its replies bring.

An endpoint gets the key, so it can send it back: as it is, escaped in JSON, or in pieces of a streamed answer.
"""

from collections.abc import Callable

import orjson

from app.running.protocols.message import ParsedResponse

OnText = Callable[[str], None]


class KeyRepeated(Exception):
    """A reply holds the key that was sent."""


class KeyGuard:
    """Looks for one key; every method raises KeyRepeated where it finds it."""

    def __init__(self, key: str) -> None:
        self._key, self._held = key, ""
        self._forms = {key.encode(), _in_json(key)}

    def check_body(self, body: bytes) -> None:
        """Check the bytes of a reply, of any type."""
        if any(form in body for form in self._forms):
            raise KeyRepeated

    def check_response(self, response: ParsedResponse) -> None:
        """Check what was read from a reply: a key that was escaped there is not escaped here."""
        if _in_json(self._key) in orjson.dumps(response):
            raise KeyRepeated

    def guard_pieces(self, pass_on: OnText) -> OnText:
        """Pass the pieces of an answer on, and hold back an end that may be the beginning of the key."""

        def take(piece: str) -> None:
            text = self._held + piece
            if self._key in text:
                raise KeyRepeated
            held = self._count_overlap(text)
            self._held = text[len(text) - held :]
            if held < len(text):
                pass_on(text[: len(text) - held])

        return take

    def release_held(self, pass_on: OnText) -> None:
        """Pass on what was held back, once nothing follows."""
        held, self._held = self._held, ""
        if held:
            pass_on(held)

    def _count_overlap(self, text: str) -> int:
        """Count the characters at the end of a text that a key may begin with."""
        longest = min(len(self._key) - 1, len(text))
        return next((size for size in range(longest, 0, -1) if text.endswith(self._key[:size])), 0)


def _in_json(text: str) -> bytes:
    return orjson.dumps(text)[1:-1]
