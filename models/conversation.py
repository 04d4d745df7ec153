"""Texts that are embedded to route a conversation, the same for builds and runs.

A conversation longer than the window is embedded as several texts: its window, and chunks of its older turns. The
embedding of the conversation is the token-weighted mean of theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, TypeVar

import numpy as np
import orjson
from pydantic import Field, field_validator

from models.arrays import Floats, Singles
from models.base import Value

ROLE, CONTENT = "{role}", "{content}"
BYTES_PER_TOKEN = 3
"""Bytes of a text per token, rather few: texts have about four."""
SYSTEM_SHARE = 4
"""The window has at most this fraction (a quarter) of system prompts if the conversation does not fit."""
V = TypeVar("V", Floats, Singles)
_SYSTEM_ROLES = ("system", "developer")
_ENCODING = ("utf-8", "surrogatepass")


class ConversationWindow(Value):
    """The part of a conversation to embed, and how; stored in datasets and artifacts."""

    window_tokens: int = Field(
        default=2000,
        ge=16,
        le=100_000,
        description="maximum size of a text that is embedded, in estimated tokens (3 bytes of UTF-8); the window has "
        "the last tokens up to the last user message",
    )
    older_chunks: int = Field(
        default=3,
        ge=0,
        le=16,
        description="maximum number of chunks of older turns, each as large as the window; turns older than these are "
        "not embedded",
    )
    system: bool = Field(
        default=True,
        description="whether system prompts are embedded; in a conversation that exceeds the window, they take at most "
        "a quarter of it",
    )
    template: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="{role}: {content}\n", description="text of each message, with its role and content"
    )

    @field_validator("template")
    @classmethod
    def _has_content(cls, text: str) -> str:
        if CONTENT not in text:
            raise ValueError(f"must contain {CONTENT}, got {text!r}")
        return text


class ConversationOptions(ConversationWindow):
    """Options for routing a conversation; stored in the artifact."""

    latch: int = Field(
        default=0,
        ge=0,
        le=100,
        description="number of turns after an escalation in which no weaker classifier is called; 0: none",
    )

    @property
    def window(self) -> ConversationWindow:
        """The options that determine the embedding."""
        return ConversationWindow(**self.model_dump(exclude={"latch"}))


def read_conversation(params: Mapping[str, Any]) -> ConversationOptions | None:
    """Return the conversation options in an artifact's parameters.

    None means that only the last message is embedded.
    """
    given = params.get("conversation")
    return None if given is None else ConversationOptions.model_validate(given)


def read_embedding_rule(params: Mapping[str, Any]) -> tuple[str | None, ConversationWindow | None]:
    """Return the embedder and the conversation window of an artifact.

    They determine the embeddings of its texts.
    """
    embedder, options = params.get("embedder"), read_conversation(params)
    return embedder, None if embedder is None or options is None else options.window


def estimate_text_tokens(text: str) -> int:
    """Estimate the number of tokens of a text; usually an overestimate.

    >>> estimate_text_tokens("three")
    2
    """
    return -(-len(text.encode(*_ENCODING)) // BYTES_PER_TOKEN)


def split_conversation(messages: Sequence[Mapping[str, Any]], window: ConversationWindow) -> tuple[str, ...]:
    """Return the texts to embed for a conversation.

    Chunks of older turns come first, the oldest first; the window is last. Ignored are messages after the last user
    message, images, and other parts. A conversation that fits into the window is one text.

    >>> chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    >>> split_conversation(chat, ConversationWindow(template="[{role}] {content} "))
    ('[system] Be brief. [user] Hi ',)
    """
    users = [place for place, one in enumerate(messages) if one.get("role") == "user"]
    seen = messages[: users[-1] + 1] if users else messages
    systems = [one for one in seen if one.get("role") in _SYSTEM_ROLES] if window.system else []
    turns = [one for one in seen if one.get("role") not in _SYSTEM_ROLES]
    system, rest = (b"".join(_render_message(one, window) for one in some) for some in (systems, turns))
    size = window.window_tokens * BYTES_PER_TOKEN
    if len(system) + len(rest) <= size:
        return ((system + rest).decode(*_ENCODING),)
    head, cut = _split_first(system, size // SYSTEM_SHARE)
    older, recent = _split_last(cut + rest, size - len(head))
    return tuple(part.decode(*_ENCODING) for part in (*_chunk_last(older, size, window.older_chunks), head + recent))


def _chunk_last(text: bytes, size: int, most: int) -> list[bytes]:
    """Return the last chunks of a text, in order; earlier text is dropped."""
    chunks: list[bytes] = []
    while text and len(chunks) < most:
        text, chunk = _split_last(text, size)
        chunks.insert(0, chunk)
    return chunks


def _split_last(text: bytes, size: int) -> tuple[bytes, bytes]:
    """Split a text before its last characters, which take at most ``size`` bytes."""
    at = max(len(text) - size, 0)
    while at < len(text) and _continues_character(text[at]):
        at += 1
    return text[:at], text[at:]


def _split_first(text: bytes, size: int) -> tuple[bytes, bytes]:
    """Split a text after its first characters, which take at most ``size`` bytes."""
    at = min(len(text), size)
    while 0 < at < len(text) and _continues_character(text[at]):
        at -= 1
    return text[:at], text[at:]


def _continues_character(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _render_message(message: Mapping[str, Any], window: ConversationWindow) -> bytes:
    text = window.template.replace(ROLE, str(message.get("role") or ""))
    return text.replace(CONTENT, text_of_message(message)).encode(*_ENCODING)


def text_of_message(message: Mapping[str, Any]) -> str:
    """Return the text of a message; other parts, such as images, are ignored."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class PromptParts:
    """The texts to embed for some prompts.

    Attributes:
        by_prompt: the texts of each prompt; at least one text per prompt.
    """

    by_prompt: list[tuple[str, ...]]

    @property
    def texts(self) -> list[str]:
        """The texts of all prompts, in order."""
        return [text for texts in self.by_prompt for text in texts]

    def average_vectors(self, vectors: V) -> V:
        """Return the embedding of each prompt, (n, d), from those of all texts, (t, d)."""
        ends = list(accumulate(map(len, self.by_prompt)))
        averaged = vectors[[end - 1 for end in ends]]
        for place, (texts, end) in enumerate(zip(self.by_prompt, ends, strict=True)):
            averaged[place] = average_parts(vectors[end - len(texts) : end], texts)
        return averaged


def average_parts(vectors: V, texts: Sequence[str]) -> V:
    """Return the token-weighted mean of the embeddings of a prompt's texts, (d,).

    The embedding of a single text is returned unchanged.

    Args:
        vectors: the embedding of each text, (t, d).
    """
    weights = [estimate_text_tokens(text) for text in texts]
    mean: V = vectors[0] if len(texts) == 1 else np.average(vectors, axis=0, weights=weights).astype(vectors.dtype)
    return mean


def split_prompts(prompts: Sequence[str], window: ConversationWindow | None) -> PromptParts:
    """Return the texts to embed for prompts.

    Args:
        prompts: chats as JSON lists of messages; any other text is a user message.
        window: the conversation window; None to embed each prompt as it is.
    """
    if window is None:
        return PromptParts([(prompt,) for prompt in prompts])
    return PromptParts([split_conversation(_read_chat(prompt), window) for prompt in prompts])


def encode_chat(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return a chat as a JSON list of roles and texts, the input of ``split_prompts``."""
    return orjson.dumps(
        [{"role": str(one.get("role") or ""), "content": text_of_message(one)} for one in messages]
    ).decode()


def _read_chat(prompt: str) -> list[dict[str, Any]]:
    """Return the messages of a chat in JSON; any other text is one user message."""
    try:
        read = orjson.loads(prompt) if prompt.startswith("[") else None
    except orjson.JSONDecodeError:
        read = None
    if isinstance(read, list) and read and all(isinstance(one, dict) and "role" in one for one in read):
        return read
    return [{"role": "user", "content": prompt}]
