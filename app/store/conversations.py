"""States of conversations after their last turn, in the store, with an expiry."""

from hashlib import sha256

from app.store.client import Store, make_store_key
from models.base import Value

CONVERSATION_TTL_S = 3600
"""How long a conversation is remembered after its last turn, in seconds."""


class StoredConversation(Value):
    """State after a turn; see ``solvers.conversations.ConversationState``."""

    cached: dict[str, int]
    escalated_to: str
    latch_turns: int
    at: float
    """Time of the turn, in seconds since 1970."""


class Conversations:
    """Repository of conversations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get_state(self, conversation: str) -> StoredConversation | None:
        """Return the state of a conversation; None if it is new, expired, or unreadable.

        A state is unreadable if another version of the service wrote it.
        """
        text = self._store.execute("get", _key(conversation))
        try:
            return None if text is None else StoredConversation.model_validate_json(text)
        except ValueError:
            return None

    def put_state(self, conversation: str, state: StoredConversation) -> None:
        """Store the state of a conversation."""
        self._store.execute("set", _key(conversation), state.model_dump_json(), ex=CONVERSATION_TTL_S)


def _key(conversation: str) -> str:
    return make_store_key("conversation", sha256(conversation.encode()).hexdigest())
