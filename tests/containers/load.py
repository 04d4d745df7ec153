"""Callers who look up all the while, and count what they were not answered, or answered wrongly."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

import httpx

from tests.support.patience import patient
from tests.support.services import LOOK_UP, Asked

PROBLEM = {"classifiers": [{"name": "K1", "execution_time": 1.0, "success_probability": 1.0}]}


def content(reply: httpx.Response) -> object:
    return reply.content


def decision(reply: httpx.Response) -> object:
    """Give what was decided, by what: another version of Parsimony may tell more beside it."""
    if reply.status_code != 200:
        return reply.text
    reply_json = reply.json()
    return reply_json["cascade"], reply_json.get("artifact")


@contextmanager
def unshaken(
    asked: Asked,
    callers: int = 1,
    read: Callable[[httpx.Response], object] = content,
    posting: bool = False,
    look_up: str = LOOK_UP,
) -> Iterator[None]:
    """Look up all the while: each answer must be the one from before, and none may wait long.

    ``told`` says what must be the same; with ``posting`` every second question is a POST, which no proxy asks twice.
    """
    ways = [("GET", look_up, None), ("POST", "/v1/cascades/solve", PROBLEM)][: 1 + posting]
    replies = [asked.client.request(method, path, json=body) for method, path, body in ways]
    assert [reply.status_code for reply in replies] == [200] * len(replies), replies[0].text
    before = [read(reply) for reply in replies]
    wrong: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=asked.client.base_url, timeout=patient(2.0), trust_env=False) as client:
            for method, path, body in cycle(ways):
                if stop.is_set():
                    return
                try:
                    reply = client.request(method, path, json=body)
                except httpx.TransportError as error:
                    wrong.append(f"{method}: {error!r}")
                else:
                    if read(reply) not in before:
                        wrong.append(f"{method}: {reply.text}")

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


@contextmanager
def nothing_lost(house: Asked) -> Iterator[None]:
    """Hold what the house has afterwards against what it had: every dataset as it was, every version of an artifact."""
    before = all_there_is(house)
    assert before
    yield
    assert before <= all_there_is(house), before - all_there_is(house)


def all_there_is(house: Asked) -> set[tuple[str, ...]]:
    """List the datasets with their contents, and the versions of artifacts with theirs."""
    datasets = house.client.get("/v1/datasets?limit=1000").json()["items"]
    built = house.client.get("/v1/artifacts?summary=false&limit=1000").json()["items"]
    versions = [
        version
        for each in built
        for version in house.client.get(f"/v1/artifacts/{each['kind']}/{each['name']}/versions").json()["items"]
    ]
    return {("dataset", each["name"], each["sha256"]) for each in datasets} | {
        (each["kind"], each["name"], str(each["version"]), each["sha256"]) for each in versions
    }
