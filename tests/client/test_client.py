"""The client against a real server: held decisions, retries, errors, builds, and feedback in the background."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsimony import (
    AsyncParsimony,
    FeedbackSender,
    Infeasible,
    InvalidRequest,
    NotPermitted,
    Parsimony,
    ServerError,
    TooManyRequests,
    Unavailable,
    load,
)
from parsimony.decisions import MAX_HELD, Decision, DecisionCache
from tests.support.samples import TRACE_SPEC, trace_columns, trace_embeddings
from tests.support.servers import Server, running_server

pytestmark = [pytest.mark.server, pytest.mark.smoke]


@pytest.fixture
def client(all_kinds: Server) -> Iterator[Parsimony]:
    with Parsimony(all_kinds.url, key="k") as connected:
        yield connected


class Frame:
    """A frame with the method of pandas that uploads need."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns

    def to_csv(self, index: bool) -> str:
        assert not index
        rows = zip(*self.columns.values(), strict=True)
        return "\n".join([",".join(self.columns), *(",".join(map(str, row)) for row in rows)])


def test_a_frame_becomes_a_dataset_and_an_artifact(client: Parsimony) -> None:
    columns = trace_columns()
    stored = client.put_dataset("framed", Frame(columns), TRACE_SPEC, trace_embeddings(columns))
    assert (stored["rows"], stored["embedding_dimensions"]) == (400, 2)
    record = client.build("cascade", "framed", "framed", params={"target_precision": 0.9})
    assert (record["kind"], record["dataset"]) == ("cascade", "framed")
    assert client.cascade("framed").curve()["points"]
    exported = client.export_version("cascade", "framed", 1)
    assert client.delete_artifact("cascade", "framed") is None
    assert client.import_artifact(exported)["name"] == "framed"
    assert client.list_artifacts(prefix="framed")["total"] == 1
    with pytest.raises(ServerError) as failed:
        client.build("cascade", "other", "framed", guarantees={"min_recall": {"cat": 0.999}})
    assert failed.value.code == "build-failed"


def test_asynchronous_clients_do_the_same(all_kinds: Server) -> None:
    async def use() -> Any:
        async with AsyncParsimony(all_kinds.url, key="k") as client:
            decision = await client.cascade("plan").decide(deadline=13.0)
            await client.send_feedback({"decision": decision.id, "correct": True})
            curve = await client.policy("plan").curve()
            listed = await client.call("GET", "/v1/builds")
            return decision, curve, listed

    decision, curve, listed = asyncio.run(use())
    assert decision["cascade"][-1] == "strong"
    assert curve["points"]
    assert "items" in listed


def test_errors_carry_the_code_and_numbers_of_the_server(all_kinds: Server, client: Parsimony) -> None:
    with pytest.raises(Infeasible) as refused:
        client.cascade("plan").decide(deadline=0.5)
    assert (refused.value.code, refused.value.status) == ("infeasible", 409)
    with Parsimony(all_kinds.url, key="wrong") as stranger, pytest.raises(NotPermitted) as locked:
        stranger.cascade("plan").decide()
    assert locked.value.status == 401
    with pytest.raises(InvalidRequest, match="kind"):
        client.decide("waterfall", "plan")
    with pytest.raises(InvalidRequest, match="table"):
        client.put_dataset("x", 3, TRACE_SPEC)


class Flaky(BaseHTTPRequestHandler):
    """Answers with the statuses of a list, then with 200."""

    statuses: list[int] = []  # noqa: RUF012 - set for each test by a subclass
    requests = 0

    def do_POST(self) -> None:
        type(self).requests += 1
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status = self.statuses.pop(0) if self.statuses else 200
        body = b'{"decision": "d", "expected": {}}' if status == 200 else b"{}"
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if status == 429:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: Any) -> None:
        pass


@pytest.fixture
def flaky() -> Iterator[tuple[type[Flaky], str]]:
    handler = type("Own", (Flaky,), {"statuses": [], "requests": 0})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_decisions_are_repeated_and_feedback_is_not(flaky: tuple[type[Flaky], str]) -> None:
    handler, url = flaky
    with Parsimony(url, retries=2) as client:
        handler.statuses = [503, 429]
        assert client.cascade("plan").decide().id == "d"
        assert handler.requests == 3
        handler.statuses = [503]
        with pytest.raises(Unavailable):
            client.send_feedback({"decision": "d", "correct": True})
        assert handler.requests == 4
        handler.statuses = [429] * 3
        with pytest.raises(TooManyRequests) as refused:
            client.cascade("plan").decide()
        assert refused.value.retry_after_s == 0


def test_decisions_are_held_while_fresh_and_used_stale_while_the_server_is_away(tmp_path: Path) -> None:
    cache, now = DecisionCache(hold_s=10.0, clock=lambda: now[0]), [0.0]
    key = DecisionCache.make_key("cascade", "plan", None, {"b": 1, "a": 2})
    assert key == DecisionCache.make_key("cascade", "plan", None, {"a": 2, "b": 1})
    assert cache.get_fresh(key) is cache.get_stale(key) is None
    cache.keep(key, Decision({"decision": "d"}))
    now[0] = 10.0
    assert cache.get_fresh(key) is not None
    now[0] = 10.1
    assert cache.get_fresh(key) is None
    stale = cache.get_stale(key)
    assert stale is not None
    assert stale.is_stale
    for at in range(MAX_HELD):
        cache.keep(str(at), stale)
    assert cache.get_stale(key) is None


def test_a_run_continues_with_a_stale_decision_after_the_server_has_gone(tmp_path: Path) -> None:
    from tests.conftest import upload

    functions = {name: lambda item: ("cat", 0.95) for name in ("fast", "middle", "strong")}
    with running_server(tmp_path) as server:
        server.wait_for_worker()
        upload(server)
        held = Parsimony(server.url, hold_s=0.0, retries=0, timeout_s=5.0)
        first = held.cascade("trace").run(None, functions)
    later = held.cascade("trace").run(None, functions)
    held.close()
    assert (first.label, first.decision.is_stale) == ("cat", False)
    assert (later.label, later.decision.is_stale, later.called) == ("cat", True, first.called)
    with Parsimony(server.url, retries=0) as other, pytest.raises(Unavailable):
        other.cascade("trace").decide()


def test_feedback_is_sent_in_batches_in_the_background(client: Parsimony) -> None:
    decision = client.cascade("plan").decide(deadline=13.0)
    before = client.call("GET", "/v1/feedback/cascade/plan")
    sender = client.collect_feedback(batch=50, interval_s=0.05)
    for at in range(120):
        sender.report(decision=decision.id, correct=at % 10 > 0)
    sender.flush()
    sender.close()
    after = client.call("GET", "/v1/feedback/cascade/plan")
    assert after["outcomes"] - before.get("outcomes", 0) == 120
    assert sender.unsent == []
    with pytest.raises(RuntimeError):
        sender.report(decision=decision.id, correct=True)


def _report_many(sender: FeedbackSender) -> None:
    for at in range(10):
        sender.report(decision=str(at))


def test_feedback_that_cannot_be_sent_is_kept_and_a_full_queue_raises() -> None:
    is_away = threading.Event()
    sent: list[Any] = []

    def send(*outcomes: Any) -> None:
        if is_away.is_set():
            raise Unavailable("away")
        sent.extend(outcomes)

    is_away.set()
    sender = FeedbackSender(send, capacity=3, batch=1, interval_s=0.01, patience_s=0.01)
    with pytest.raises(queue.Full):
        _report_many(sender)
    is_away.clear()
    sender.flush()
    assert len(sent) >= 3
    is_away.set()
    sender.report(decision="last")
    sender.close()
    assert [one["decision"] for one in sender.unsent] == ["last"]


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("cascade", {"deadline": 13.0}),
        ("policy", {"budget": 3.0, "item": "a"}),
        ("index", {"size": 64, "budget": 5.0}),
        ("portfolio", {"query": [0.9, 0.4], "budget": "60%"}),
        ("pipeline", {"budget": 4.5}),
    ],
)
def test_a_loaded_artifact_decides_as_the_server_does(
    client: Parsimony, all_kinds: Server, tmp_path: Path, kind: str, query: dict[str, Any]
) -> None:
    file = tmp_path / "plan.parsimony"
    file.write_bytes(all_kinds.client.get(f"/v1/artifacts/{kind}/plan/versions/1/export").content)
    artifact = load(file)
    local, remote = artifact.decide(**query), client.decide(kind, "plan", version=1, **query)
    assert (artifact.kind, artifact.name) == (kind, "plan")
    assert {**local, "decision": "", "budget_pacing": None, "embedding": None} == {
        **remote,
        "decision": "",
        "budget_pacing": None,
        "embedding": None,
    }
    with pytest.raises(InvalidRequest):
        artifact.decide(budgte=1)
    file.write_bytes(b"no artifact")
    with pytest.raises(InvalidRequest):
        load(file)
    assert np.isfinite(local.expected.get("accuracy", 0.0))
