"""Conversations: the text that is embedded to route a chat, the same at build time and at request time."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, field_validator

from models.base import Value

ROLE, CONTENT = "{role}", "{content}"
_SYSTEM_ROLES = ("system", "developer")


class ConversationOptions(Value):
    """The part of a conversation that is embedded; the artifact stores these options."""

    turns: int = Field(
        default=4, ge=1, le=100, description="number of messages that are embedded, up to the last user message"
    )
    max_characters: int = Field(
        default=8000, ge=100, le=1_000_000, description="maximum length of the text; its beginning is cut off"
    )
    system: bool = Field(default=True, description="whether system prompts are embedded, cut to a quarter of the text")
    template: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="{role}: {content}\n", description="text of each message, with its role and content"
    )
    latch: int = Field(
        default=0,
        ge=0,
        le=100,
        description="number of turns after an escalation in which no weaker classifier is called; 0: none",
    )

    @field_validator("template")
    @classmethod
    def _has_content(cls, text: str) -> str:
        if CONTENT not in text:
            raise ValueError(f"must contain {CONTENT}, got {text!r}")
        return text


def render_conversation(messages: Sequence[Mapping[str, Any]], options: ConversationOptions) -> str:
    """Return the text of a conversation: system prompts, and the last messages up to the last one of the user.

    Use it for the texts whose embeddings a portfolio is built from. Images and other parts are ignored.

    >>> chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    >>> render_conversation(chat, ConversationOptions(template="[{role}] {content} "))
    '[system] Be brief. [user] Hi '
    """
    users = [place for place, one in enumerate(messages) if one.get("role") == "user"]
    seen = messages[: users[-1] + 1] if users else messages
    systems = [one for one in seen if one.get("role") in _SYSTEM_ROLES] if options.system else []
    turns = [one for one in seen if one.get("role") not in _SYSTEM_ROLES][-options.turns :]
    head = "".join(_render_message(one, options) for one in systems)[: options.max_characters // 4]
    tail = "".join(_render_message(one, options) for one in turns)
    return head + tail[-(options.max_characters - len(head)) :]


def _render_message(message: Mapping[str, Any], options: ConversationOptions) -> str:
    text = options.template.replace(ROLE, str(message.get("role", "")))
    return text.replace(CONTENT, text_of_message(message))


def text_of_message(message: Mapping[str, Any]) -> str:
    """Return the text of a message, without its other parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
