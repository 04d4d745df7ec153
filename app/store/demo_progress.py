"""How far the demo has come that is made behind a running service: one value, gone when nobody renews it."""

from app.store.client import Store, key

_KEY = key("demo")
KEPT_S = 120
"""A part of the demo may say nothing for so long; after it, whoever made it is held to have died."""


def note_demo(store: Store, message: str | None) -> None:
    """Say what the demo is doing, or that it is done."""
    if message is None:
        store.ask("delete", _KEY)
    else:
        store.ask("set", _KEY, message, ex=KEPT_S)


def demo_progress(store: Store) -> str | None:
    """Give what the demo is doing, if it is being made."""
    message: bytes | None = store.ask("get", _KEY)
    return None if message is None else message.decode()
