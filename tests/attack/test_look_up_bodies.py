"""Bodies of look-ups, which are read while everybody else waits: long ones, and those that are wrong all over."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from app.http.body_limits import SMALL_BYTES
from app.routes.policy import subject
from tests.support.patience import patient
from tests.support.servers import Server

JSON = {"content-type": "application/json"}
MOST = subject.look_ups[0].most_bytes


@contextmanager
def asked_meanwhile(server: Server) -> Iterator[list[float]]:
    """Ask for a decision again and again; give how long each answer took, in seconds."""
    took: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(
            base_url=server.url, headers=server.client.headers, timeout=patient(60), trust_env=False
        ) as client:
            while not stop.is_set():
                started = time.perf_counter()
                client.get("/v1/cascades/plan/decision")
                took.append(time.perf_counter() - started)
                time.sleep(0.01)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield took
    finally:
        stop.set()
        thread.join()


def wrong_all_over(length: int) -> bytes:
    """Write a query with as many faults as go into so many bytes: each value is none of what it may be."""
    one = '"%06d":{},'
    count = length // len(one % 0) - 3
    return ('{"acquired":{' + "".join(one % place for place in range(count)) + '"x":1}}').encode()


def test_no_look_up_waits_long_for_the_body_of_another(all_subjects: Server) -> None:
    with asked_meanwhile(all_subjects) as took:
        time.sleep(0.1)
        reply = all_subjects.client.post("/v1/policies/plan/steps", content=wrong_all_over(MOST), headers=JSON)
    assert reply.status_code == 422
    assert "faults, too many to list" in reply.json()["detail"]
    assert max(took) < patient(5)


def test_nobody_waits_long_for_a_batch_with_much_beside_its_items(all_subjects: Server) -> None:
    """What stands beside the items is read once: with each piece of them it would take minutes."""
    computed = b",".join(b'"f%d"' % place for place in range(150_000))
    body = b'{"budget":1,"size":3,"computed":[' + computed + b'],"items":[' + b"{}," * 9_999 + b"{}]}"
    with asked_meanwhile(all_subjects) as took:
        time.sleep(0.1)
        reply = all_subjects.client.post("/v1/indexes/plan/predictions", content=body, headers=JSON)
    assert reply.status_code == 422
    assert "f0" in reply.json()["detail"]
    assert max(took) < patient(5)


def test_nobody_waits_long_for_classifiers_that_are_none(all_subjects: Server) -> None:
    body = b'{"classifiers":[' + b"{}," * (SMALL_BYTES // 3 - 20) + b"{}]}"
    with asked_meanwhile(all_subjects) as took:
        time.sleep(0.1)
        reply = all_subjects.client.post("/v1/cascades/solve", content=body, headers=JSON)
    assert reply.status_code == 422
    assert max(took) < patient(5)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "cascades/solve"), ("POST", "builds"), ("PUT", "artifacts/cascade/plan/active")]
)
def test_what_is_never_long_has_a_small_limit(all_subjects: Server, method: str, path: str) -> None:
    reply = all_subjects.client.request(method, f"/v1/{path}", content=b" " * (SMALL_BYTES + 1), headers=JSON)
    assert reply.status_code == 413
    assert f"the limit is {SMALL_BYTES} bytes" in reply.json()["detail"]


@pytest.mark.parametrize("path", ["policies/plan/steps", "pipelines/plan/steps", "pipelines/nosuch/steps"])
@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"], ids=["hot", "routed"])
def test_a_look_up_has_a_limit_of_its_own(all_subjects: Server, path: str, kind: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield b" " * MOST
        yield b"{"

    for content in (b" " * (MOST + 1), chunks()):
        reply = all_subjects.client.post(f"/v1/{path}", content=content, headers={"content-type": kind})
        assert (reply.status_code, reply.json()["type"]) == (413, "urn:parsimony:payload-too-large")
        assert f"the limit is {MOST} bytes" in reply.json()["detail"]
    passed = all_subjects.client.post(f"/v1/{path}", content=b" " * MOST, headers={"content-type": kind})
    assert passed.status_code == 422


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"], ids=["hot", "routed"])
def test_a_long_embedding_may_be_routed(all_subjects: Server, kind: str) -> None:
    """Every coordinate is as long as Python writes any; the artifact here has two, so it says so."""
    numbers = ",".join(["-1.2345678901234567e-30"] * 80_000)
    body = f'{{"query": [{numbers}], "budget": {{"fraction": 0.5}}}}'
    assert len(body) > MOST
    reply = all_subjects.client.post("/v1/portfolios/plan/route", content=body, headers={"content-type": kind})
    assert reply.status_code == 422
    assert "80000" in reply.json()["detail"]
