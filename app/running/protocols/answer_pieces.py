"""Pieces of an answer to a chat, in order.

Kinds of pieces are reasoning, text, a refusal, and tool calls.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.running.protocols.openai_chat_client import join_text
from app.running.protocols.tool_calls import list_tool_calls
from models.chat import INDEX
from models.errors import EndpointFailed

_TEXTS: tuple[tuple[str, Literal["reasoning", "text", "refusal"]], ...] = (
    ("reasoning_content", "reasoning"),
    ("reasoning", "reasoning"),
    ("content", "text"),
    ("refusal", "refusal"),
)


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of an answer: complete, or the continuation of an earlier piece.

    A continuation has the same kind and index.

    Attributes:
        text: the text, or the arguments of a tool call.
        index: number of the tool call.
        name: name of the called function; required only in its first piece.
        call_id: id of the tool call; required only in its first piece.
    """

    kind: Literal["reasoning", "text", "refusal", "call"]
    text: str
    index: int = 0
    name: str = ""
    call_id: str = ""

    def continues_piece(self, other: "AnswerPiece | None") -> bool:
        """Return whether this piece continues another one."""
        return other is not None and (self.kind, self.index) == (other.kind, other.index)


@dataclass(slots=True)
class OpenBlock:
    """The block of a streamed answer that is open; only one is open at a time."""

    piece: AnswerPiece | None = None
    closed_calls: set[int] = field(default_factory=set)

    def is_continued_by(self, piece: AnswerPiece) -> bool:
        """Return whether a piece continues the open block.

        Raises EndpointFailed if it continues an earlier block.
        """
        if piece.continues_piece(self.piece):
            return True
        if piece.kind == "call" and piece.index in self.closed_calls:
            raise EndpointFailed("pieces of several tool calls must not be mixed")
        return False

    def close_block(self) -> AnswerPiece | None:
        """Close the open block, and return its first piece; None if there is none."""
        closed, self.piece = self.piece, None
        if closed is not None and closed.kind == "call":
            self.closed_calls.add(closed.index)
        return closed


def list_pieces(message: Mapping[str, Any]) -> Iterator[AnswerPiece]:
    """Yield the pieces of a complete message, or of a delta.

    >>> [piece.kind for piece in list_pieces({"content": "a", "tool_calls": [{"function": {"name": "f"}}]})]
    ['text', 'call']
    """
    for name, kind in _TEXTS:
        text = join_text(message.get(name))
        if isinstance(text, str) and text and not (name == "reasoning" and message.get("reasoning_content")):
            yield AnswerPiece(kind, text)
    for place, call in enumerate(list_tool_calls(message)):
        index, function = call.get(INDEX), call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments, name, call_id = (
            value if isinstance(value, str) else ""
            for value in (function.get("arguments"), function.get("name"), call.get("id"))
        )
        yield AnswerPiece("call", arguments, index if isinstance(index, int) else place, name, call_id)


def get_first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice of a completion or of a chunk; empty if there is none."""
    choices = reply.get("choices") or ()
    return next((one for one in choices if isinstance(one, dict) and one.get(INDEX, 0) == 0), {})


def get_choice_message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message or the delta of a choice; empty if it has neither."""
    message = choice.get("message") or choice.get("delta")
    return message if isinstance(message, dict) else {}


def make_id(prefix: str, place: int = 0) -> str:
    """Return an id that is unique among the replies of this process.

    >>> make_id("msg", 3).endswith("-3"), make_id("msg").startswith("msg_")
    (True, True)
    """
    return f"{prefix}_{time.time_ns():x}" + (f"-{place}" if place else "")


def get_token_count(usage: Mapping[str, Any], *path: str) -> int:
    """Return a token count in a completion's usage; 0 if it is missing.

    >>> get_token_count({"prompt_tokens_details": {"cached_tokens": 3}}, "prompt_tokens_details", "cached_tokens")
    3
    """
    found: Any = usage
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0
