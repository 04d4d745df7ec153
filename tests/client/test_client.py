"""The client against a real server: held decisions, retries, errors, builds, and feedback in the background."""

import asyncio
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.serving.local import LocalPlan
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
from parsimony.client import BaseClient
from parsimony.decisions import MAX_HELD, RETRY_S, Decision, DecisionCache
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
    local = json.loads(LocalPlan(exported).decide({"deadline": 1000.0}))
    assert client.send_feedback({"decision": local["decision"], "correct": True})["accepted"] == 1
    client.delete_artifact("cascade", "framed")
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
    """Answers with the statuses of a list, then with 200; -1 hangs."""

    statuses: list[int] = []  # noqa: RUF012 - set for each test by a subclass
    requests = 0
    tags: list[str | None] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.tags.append(self.headers["if-none-match"])
        self.answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.answer()

    def answer(self) -> None:
        type(self).requests += 1
        status = self.statuses.pop(0) if self.statuses else 200
        if status < 0:
            time.sleep(4 * RETRY_S)
            return
        body = b'{"decision": "d", "expected": {}}' if status == 200 else b"{}"
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)) if status != 304 else "0")
        self.send_header("etag", '"tag"')
        if status == 429:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(b"" if status == 304 else body)

    def log_message(self, *about: Any) -> None:
        pass


@pytest.fixture
def flaky() -> Iterator[tuple[type[Flaky], str]]:
    handler = type("Own", (Flaky,), {"statuses": [], "requests": 0, "tags": []})
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
            client.cascade("plan").decide(item="of one item")
        assert refused.value.retry_after_s == 0


@contextmanager
def decide_in(way: str, url: str, **options: Any) -> Iterator[tuple[BaseClient[Any], Callable[..., Decision]]]:
    """Yield a client, and its ``decide``, of the synchronous or the asynchronous one."""
    if way == "sync":
        with Parsimony(url, **options) as client:
            yield client, client.cascade("plan").decide
        return
    with closing(asyncio.new_event_loop()) as loop:
        other = AsyncParsimony(url, **options)
        yield other, lambda **query: loop.run_until_complete(other.cascade("plan").decide(**query))
        loop.run_until_complete(other.close())


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_held_decision_costs_no_call_and_an_old_one_is_asked_for_by_its_tag(
    flaky: tuple[type[Flaky], str], way: str
) -> None:
    handler, url = flaky
    with decide_in(way, url, hold_s=60.0) as (client, decide):
        assert [decide(budget=2).id for _ in range(3)] == ["d"] * 3
        assert (handler.requests, handler.tags) == (1, [None])
        decide(budget=3)
        decide(item="one", budget=2)
        decide(item="one", budget=2)
        assert handler.requests == 4
        client._held.hold_s = -1.0
        key = DecisionCache.make_key("cascade", "plan", None, {"budget": 2})
        assert key is not None
        client._held.keep(key, Decision({"decision": "held"}), '"tag"')
        handler.statuses = [304, 200]
        found = [decide(budget=2).id for _ in range(2)]
        assert (found, handler.tags[-2:]) == (["held", "d"], ['"tag"', '"tag"'])


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_stale_decision_is_used_at_once_while_the_server_is_unavailable_or_hangs(
    flaky: tuple[type[Flaky], str], way: str
) -> None:
    """One short request a second is made, and none is repeated."""
    handler, url = flaky
    with decide_in(way, url, hold_s=0.05, retries=5) as (client, decide):
        assert not decide(budget=2).is_stale
        time.sleep(0.06)
        handler.statuses = [503]
        assert decide(budget=2).is_stale
        assert decide(budget=2).is_stale
        assert handler.requests == 2
        time.sleep(RETRY_S + 0.01)
        handler.statuses = [-1]
        started = time.monotonic()
        assert decide(budget=2).is_stale
        assert time.monotonic() - started < 3.5 * RETRY_S
        client._held.hold_s = 60.0
        assert not wait_until_fresh(decide).is_stale


def wait_until_fresh(decide: Callable[..., Decision]) -> Decision:
    for _ in range(100):
        if not (found := decide(budget=2)).is_stale:
            break
        time.sleep(0.1)
    return found


def test_a_changed_version_is_decided_at_once(client: Parsimony) -> None:
    decide = client.cascade("plan").decide
    before = decide(deadline=13.0)
    assert decide(deadline=13.0) is before
    client.activate_version("cascade", "plan", 1)
    assert decide(deadline=13.0) is not before


def test_a_decision_from_before_a_change_is_not_held() -> None:
    cache = DecisionCache(hold_s=10.0)
    before, old = cache.generation, Decision({"decision": "old"})
    cache.clear()
    assert cache.keep("key", old, "", before) is old
    assert cache.get("key") is None
    cache.keep("key", old)
    held = cache.get("key")
    assert held is not None
    cache.keep("key", Decision({"decision": "new"}))
    assert cache.postpone("key", held).is_stale
    newer = cache.get("key")
    assert newer is not None
    assert newer.decision.id == "new"


def test_a_short_deadline_does_not_bar_other_decisions(flaky: tuple[type[Flaky], str]) -> None:
    handler, url = flaky
    with Parsimony(url, retries=0) as client:
        handler.statuses = [-1, 200, 503, 200]
        with pytest.raises(Unavailable):
            client.decide("policy", "plan", item="x", timeout_s=0.05)
        assert client.decide("policy", "plan", item="x").id == "d"
        with pytest.raises(Unavailable):
            client.decide("policy", "other", item="x")
        assert client.decide("policy", "plan", item="x").id == "d"


def test_the_cache_drops_what_it_has_held_longest() -> None:
    now = [0.0]
    cache = DecisionCache(hold_s=10.0, clock=lambda: now[0])
    key = DecisionCache.make_key("cascade", "plan", None, {"b": 1, "a": 2})
    assert key is not None
    assert key == DecisionCache.make_key("cascade", "plan", None, {"a": 2, "b": 1})
    assert DecisionCache.make_key("cascade", "plan", None, {"item": "x"}) is None
    assert cache.get(key) is None
    cache.keep(key, Decision({"decision": "d"}))
    held = cache.get(key)
    assert held is not None
    now[0] = 10.0
    assert cache.is_fresh(held)
    now[0] = 10.1
    assert not cache.is_fresh(held)
    for at in range(MAX_HELD):
        cache.keep(str(at), held.decision)
    assert cache.get(key) is None


def test_the_server_knows_the_tag_of_a_decision(all_kinds: Server) -> None:
    for path in ("/v1/cascades/plan/decision?deadline=13", "/v1/cascades/plan/decision?deadline=13&version=1"):
        first = all_kinds.client.get(path)
        again = all_kinds.client.get(path, headers={"If-None-Match": first.headers["etag"]})
        other = all_kinds.client.get(path.replace("13", "14"), headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert (other.status_code, other.json()["deadline"]) == (200, 14.0)


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


def test_outcomes_that_could_not_be_sent_are_bounded() -> None:
    def send(*outcomes: Any) -> None:
        raise ValueError("never")

    sender = FeedbackSender(send, capacity=3, batch=2, interval_s=0.01)
    for at in range(5):
        sender.report(decision=str(at))
        sender.flush()
    sender.close()
    assert [one["decision"] for one in sender.unsent] == ["0", "1", "2"]


def test_a_loaded_artifact_embeds_texts_as_the_server_does(client: Parsimony, tmp_path: Path) -> None:
    columns = trace_columns()
    columns["prompt"] = [f"{'Prove' if at % 2 else 'Name'} theorem {at}" for at in range(400)]
    client.put_dataset("texts", Frame(columns), TRACE_SPEC | {"text": "prompt"})
    client.build("portfolio", "texts", "texts")
    file = tmp_path / "texts.parsimony"
    file.write_bytes(client.export_version("portfolio", "texts", 1))
    artifact = load(file)
    for text in ("Prove theorem 7", "Name 3"):
        local, remote = artifact.decide(text=text), client.portfolio("texts").decide(text=text)
        assert (local["classifier"], local["estimated_accuracy"]) == (
            remote["classifier"],
            pytest.approx(remote["estimated_accuracy"]),
        )
    client.delete_artifact("portfolio", "texts")
    client.delete_dataset("texts")


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
    if kind == "portfolio":
        with pytest.raises(InvalidRequest, match="text"):
            artifact.decide(text="built without an embedder")
    file.write_bytes(b"no artifact")
    with pytest.raises(InvalidRequest):
        load(file)
    assert np.isfinite(local.expected.get("accuracy", 0.0))
