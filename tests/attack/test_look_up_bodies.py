"""Bodies of look-ups, which are read while everybody else waits: long ones, and those that are wrong all over."""

from collections.abc import Iterator

import pytest

from app.http.body_limits import MAX_SMALL_BODY_BYTES
from app.routes.kinds import make_kind_routes
from solvers import KINDS
from tests.support.servers import Server
from tests.support.services import MEANWHILE, answered_before

pytestmark = pytest.mark.smoke

JSON = {"content-type": "application/json"}
MOST = make_kind_routes(KINDS["policy"]).fast_routes[0].body_limit_bytes


def wrong_all_over(length: int) -> bytes:
    """Write a query with as many faults as go into so many bytes: each value is none of what it may be."""
    one = '"%06d":{},'
    count = length // len(one % 0) - 3
    return ('{"acquired":{' + "".join(one % place for place in range(count)) + '"x":1}}').encode()


def test_of_what_is_wrong_all_over_not_every_fault_is_listed(all_kinds: Server) -> None:
    """It is read where everybody waits: to list all would take seconds."""
    reply = all_kinds.client.post("/v1/policies/plan/decision", content=wrong_all_over(MOST), headers=JSON)
    assert reply.status_code == 422
    assert "errors, too many to list" in reply.json()["detail"]


def test_look_ups_are_answered_before_a_batch_with_much_beside_its_items(all_kinds: Server) -> None:
    """What stands beside the items is read once: with each piece of them it would take minutes."""
    excluded = b",".join(b'"f%d"' % place for place in range(150_000))
    body = b'{"budget":1,"excluded":[' + excluded + b'],"items":[' + b"{}," * 9_999 + b"{}]}"
    reply, before_it = answered_before(all_kinds, "/v1/indexes/plan/evaluate", body, JSON)
    assert reply.startswith(b"HTTP/1.1 422 ")
    assert b'"excluded"' in reply
    assert before_it >= MEANWHILE


def test_of_classifiers_that_are_none_not_every_fault_is_listed(all_kinds: Server) -> None:
    body = b'{"classifiers":[' + b"{}," * (MAX_SMALL_BODY_BYTES // 3 - 20) + b"{}]}"
    reply = all_kinds.client.post("/v1/cascades/solve", content=body, headers=JSON)
    assert reply.status_code == 422
    assert len(reply.content) < MAX_SMALL_BODY_BYTES


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "cascades/solve"), ("POST", "builds"), ("PUT", "artifacts/cascade/plan/active")]
)
def test_what_is_never_long_has_a_small_limit(all_kinds: Server, method: str, path: str) -> None:
    reply = all_kinds.client.request(method, f"/v1/{path}", content=b" " * (MAX_SMALL_BODY_BYTES + 1), headers=JSON)
    assert reply.status_code == 413
    assert f"at most {MAX_SMALL_BODY_BYTES} bytes" in reply.json()["detail"]


@pytest.mark.parametrize("path", ["policies/plan/decision", "pipelines/plan/decision", "pipelines/nosuch/decision"])
@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"], ids=["hot", "routed"])
def test_a_look_up_has_a_limit_of_its_own(all_kinds: Server, path: str, kind: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield b" " * MOST
        yield b"{"

    for content in (b" " * (MOST + 1), chunks()):
        reply = all_kinds.client.post(f"/v1/{path}", content=content, headers={"content-type": kind})
        assert (reply.status_code, reply.json()["type"]) == (413, "urn:parsimony:payload-too-large")
        assert f"at most {MOST} bytes" in reply.json()["detail"]
    passed = all_kinds.client.post(f"/v1/{path}", content=b" " * MOST, headers={"content-type": kind})
    assert passed.status_code == 422


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"], ids=["hot", "routed"])
def test_a_long_embedding_may_be_routed(all_kinds: Server, kind: str) -> None:
    """Every coordinate is as long as Python writes any; the artifact here has two, so it says so."""
    numbers = ",".join(["-1.2345678901234567e-30"] * 80_000)
    body = f'{{"query": [{numbers}], "budget": "50%"}}'
    assert len(body) > MOST
    reply = all_kinds.client.post("/v1/portfolios/plan/decision", content=body, headers={"content-type": kind})
    assert reply.status_code == 422
    assert "80000" in reply.json()["detail"]
