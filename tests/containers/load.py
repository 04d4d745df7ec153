"""Callers who look up all the while, and count what they were not answered, or answered wrongly."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.support.patience import patient
from tests.support.services import LOOK_UP, Asked, look_ups


@contextmanager
def unshaken(asked: Asked, callers: int = 1) -> Iterator[None]:
    """Look up all the while: each answer must be the one from before, and none may wait long."""
    _, (before,) = look_ups(asked, 1)
    wrong: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=asked.client.base_url, timeout=patient(2.0), trust_env=False) as client:
            while not stop.is_set():
                try:
                    reply = client.get(LOOK_UP)
                except httpx.TransportError as error:
                    wrong.append(repr(error))
                else:
                    if reply.content != before:
                        wrong.append(reply.text)

    asking = [threading.Thread(target=ask) for _ in range(callers)]
    for thread in asking:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in asking:
            thread.join()
    assert not wrong, (len(wrong), wrong[:3])
