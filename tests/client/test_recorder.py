"""Recorders against a real server: rows survive crashes and times without a server, and become datasets."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from parsimony import Answer, Conflict, InvalidRequest, Parsimony, Recorder, Unavailable
from parsimony.recorder import MAX_EXPLORING
from parsimony.spool import BATCH, MAX_SENT_BYTES, Spool
from tests.support.servers import Server, running_server, start_server, wait_for

pytestmark = [pytest.mark.server, pytest.mark.smoke]
COSTS = {"sure": 5.0, "quick": 1.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("recorder")) as server:
        server.wait_for_worker()
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Parsimony]:
    with Parsimony(server.url, retries=0) as connected:
        yield connected


def record(client: Parsimony, name: str, folder: Path, **options: Any) -> Recorder:
    classifiers = {"sure": lambda item: ("cat", 0.9), "quick": lambda item: "dog"}
    given = {"costs": COSTS, "unit": "USD", "folder": folder, "interval_s": 60.0, **options}
    return client.record(name, given.pop("classifiers", classifiers), **given)


def count_rows(client: Parsimony, name: str) -> int:
    return int(client.call("GET", f"/v1/recordings/{name}")["rows"])


def freeze(client: Parsimony, name: str) -> dict[str, Any]:
    return dict(client.freeze_recording(name, name))


@pytest.mark.slow
def test_recorded_classifiers_become_a_cascade(client: Parsimony, tmp_path: Path) -> None:
    images, labels = load_digits(return_X_y=True)
    fitted = {
        "bayes": GaussianNB().fit(images[:600], labels[:600]),
        "logistic": LogisticRegression(max_iter=200).fit(images[:600], labels[:600]),
    }
    unseen, truths = images[600:1500], labels[600:1500]
    costs = {"bayes": 1.0, "logistic": 10.0}
    with client.record("digits", fitted, costs=costs, unit="USD", explore=0.5, folder=tmp_path) as recorder:
        for at, image in enumerate(unseen):
            answer = recorder.call("bayes", image, item_id=str(at))
            recorder.add_truth(str(at), str(truths[at]))
            assert answer.label == str(fitted["bayes"].predict([image])[0])
            while recorder.waiting > MAX_EXPLORING // 2:
                time.sleep(0.001)
        frozen = recorder.freeze("digits")
    assert (frozen["rows"], frozen["recorded_rows"]) == (900, 900)
    profile = client.call("GET", "/v1/datasets/digits/profile")
    by_name = {one["name"]: one for one in profile["classifiers"]}
    assert by_name["bayes"]["accuracy"] == pytest.approx((fitted["bayes"].predict(unseen) == truths).mean())
    assert by_name["logistic"]["accuracy"] == pytest.approx(
        (fitted["logistic"].predict(unseen) == truths).mean(), abs=0.05
    )
    built = client.build("cascade", "digits", "digits")
    assert built["savings"] is not None
    assert built["savings"]["rows"] > 0


def test_a_decorator_and_a_context_record_what_the_caller_does(client: Parsimony, tmp_path: Path) -> None:
    recorder = client.record("tickets", folder=tmp_path)

    @recorder.classifier("quick")
    def quick(ticket: str) -> tuple[str, float]:
        return "bug", 0.4

    @recorder.classifier("sure", cost=30.0)
    def sure(ticket: str) -> Answer:
        return Answer("question", 0.99, cost=7.0)

    assert quick("it broke", item_id="a") == ("bug", 0.4)
    with recorder.item("it broke", item_id="b") as calls:
        if calls.call("quick")[1] < 0.5:
            assert calls.call("sure").label == "question"
    for item, truth in {"a": "bug", "b": "question"}.items():
        recorder.add_truth(item, truth)
    frozen = recorder.freeze("tickets")
    recorder.close()
    assert frozen["rows"] == 2
    by_name = {one["name"]: one for one in client.call("GET", "/v1/datasets/tickets/profile")["classifiers"]}
    assert by_name["sure"]["mean_cost"] == 30.0
    assert 0 < by_name["quick"]["mean_cost"] < 100.0
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_exploration_has_the_stated_probability(client: Parsimony, tmp_path: Path) -> None:
    with record(client, "explored", tmp_path, explore=0.3) as recorder:
        for at in range(400):
            recorder.call("quick", at)
            while recorder.waiting > MAX_EXPLORING // 2:
                time.sleep(0.001)
        recorder.flush()
        report = client.call("GET", "/v1/recordings/explored")
        assert report["rows"] == 400
        assert 0.2 < report["explored_share"] < 0.4


def test_a_full_queue_explores_nothing_and_loses_no_call(client: Parsimony, tmp_path: Path) -> None:
    slow = {"quick": lambda item: "dog", "sure": lambda item: time.sleep(0.02)}
    with record(client, "full", tmp_path, explore=1.0, classifiers=slow) as recorder:
        for at in range(MAX_EXPLORING + 20):
            recorder.call("quick", at)
        recorder.flush()
        report = client.call("GET", "/v1/recordings/full")
    assert report["rows"] == MAX_EXPLORING + 20
    assert MAX_EXPLORING <= report["explored_share"] * report["rows"] < MAX_EXPLORING + 20


def test_a_classifier_that_raises_is_recorded_and_raises(client: Parsimony, tmp_path: Path) -> None:
    def fail(item: Any) -> str:
        raise LookupError(item)

    with record(client, "failing", tmp_path, classifiers={"quick": fail, "sure": lambda item: 3}) as recorder:
        with pytest.raises(LookupError):
            recorder.call("quick", "a", item_id="a")
        assert recorder.call("sure", "a", item_id="a") == 3
        recorder.add_truth("a", "3")
        recorder.call("sure", "b", item_id="b")
        recorder.add_truth("b", "4")
    frozen = freeze(client, "failing")
    assert (frozen["rows"], frozen["unused"]["calls that failed"]) == (2, 1)


CRASH = """
import os, sys
from parsimony import Parsimony
recorder = Parsimony(sys.argv[1]).record("crashed", {"one": lambda item: "cat"}, costs={"one": 1.0}, unit="USD",
                                         folder=sys.argv[2], interval_s=60.0)
for at in range(1500):
    recorder.call("one", at, item_id=str(at))
    recorder.add_truth(str(at), "cat" if at % 2 else "dog")
os._exit(1)
"""


def test_rows_survive_a_crash(server: Server, client: Parsimony, tmp_path: Path) -> None:
    crashed = subprocess.run([sys.executable, "-c", CRASH, server.url, str(tmp_path)], timeout=60)
    assert crashed.returncode == 1
    assert count_rows(client, "crashed") == 0
    (left,) = tmp_path.rglob("*.jsonl")
    with left.open("a") as file:
        file.write('{"row": {"id": "ha')  # as if the process had ended within a line
    record(client, "crashed", tmp_path).close()
    assert freeze(client, "crashed")["rows"] == 1500
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.mark.slow
def test_rows_wait_while_the_server_is_away_and_count_once(tmp_path: Path) -> None:
    server = start_server(tmp_path / "server")
    server.wait_until_ready()
    client = Parsimony(server.url, retries=0)
    recorder = record(client, "away", tmp_path / "spool", interval_s=0.05)
    recorder.call("sure", "a", item_id="a")
    recorder.add_truth("a", "cat")
    wait_for(lambda: count_rows(client, "away") == 1, 20)
    (path,) = (tmp_path / "spool").rglob("*.jsonl")
    server.stop()
    recorder.call("sure", "b", item_id="b")
    recorder.add_truth("b", "dog")
    with pytest.raises(Unavailable):
        recorder.flush()
    recorder.close()
    path.with_name("copy.jsonl").write_bytes(path.read_bytes())  # as if a reply had been lost, so that it is sent twice
    server = start_server(tmp_path / "server", port=server.port)
    try:
        server.wait_until_ready()
        record(client, "away", tmp_path / "spool").close()
        assert count_rows(client, "away") == 3
        frozen = freeze(client, "away")
    finally:
        client.close()
        server.stop()
    assert (frozen["rows"], frozen["recorded_rows"]) == (2, 2)


def test_only_the_row_that_the_server_refuses_is_dropped(client: Parsimony, tmp_path: Path) -> None:
    with record(client, "refused", tmp_path, classifiers={"one": lambda item: item}, costs={"one": 1}) as recorder:
        for at in range(20):
            recorder.call("one", "x" * 20_000 if at == 7 else "cat", item_id=str(at))
        recorder.flush()
        assert (recorder.dropped, count_rows(client, "refused")) == (1, 19)


def test_lines_beyond_the_bound_are_dropped_and_counted(tmp_path: Path) -> None:
    sent: list[Any] = []
    spool = Spool(tmp_path, sent.extend, max_bytes=100, interval_s=60.0)
    for _ in range(3):
        spool.append(json.dumps({"row": "x" * 30}))
    assert spool.dropped == 1
    spool.flush()
    spool.append("{}")
    spool.close()
    assert (len(sent), list(tmp_path.iterdir())) == (3, [])
    with pytest.raises(ValueError, match="closed"):
        spool.append("{}")


def test_the_file_stays_small_while_lines_arrive_as_fast_as_they_are_sent(tmp_path: Path) -> None:
    sent, large = list[str](), "x" * 2**22

    def send(lines: Sequence[Mapping[str, Any]]) -> None:
        sent.extend(one["row"] for one in lines)
        spool.append(json.dumps({"row": f"{len(sent)}"}))

    spool = Spool(tmp_path, send, interval_s=60.0)
    first, many = spool.path, MAX_SENT_BYTES // 2**22 + 1
    for _ in range(many):
        spool.append(json.dumps({"row": large}))
    spool.flush()
    (file,) = tmp_path.iterdir()
    assert (len(sent), file == first, file.stat().st_size < 1000) == (many, False, True)
    spool._send = lambda lines: sent.extend(one["row"] for one in lines)
    spool.close()
    assert (sent[many:], list(tmp_path.iterdir())) == ([str(at + 1) for at in range(many)], [])


def test_batches_are_bounded(tmp_path: Path) -> None:
    sizes: list[int] = []
    spool = Spool(tmp_path, lambda lines: sizes.append(len(lines)), interval_s=60.0)
    for _ in range(2 * BATCH + 1):
        spool.append("{}")
    spool.close()
    assert sizes == [BATCH, BATCH, 1]


def test_invalid_recorders_are_refused(client: Parsimony, tmp_path: Path) -> None:
    for options in ({"explore": 1.5}, {"costs": {"other": 1.0}}, {"classifiers": {"quick": 3}}):
        with pytest.raises(InvalidRequest):
            record(client, "invalid", tmp_path, **options)
    with record(client, "invalid", tmp_path, costs=None) as recorder, pytest.raises(InvalidRequest, match="quick"):
        recorder.call("quick", "a")
    with record(client, "invalid", tmp_path, keeps_items=True) as recorder, pytest.raises(InvalidRequest, match="JSON"):
        recorder.call("quick", object())
    with pytest.raises(Conflict):
        record(client, "invalid", tmp_path, unit="EUR")


def test_items_and_embeddings_are_kept_if_asked_for(client: Parsimony, tmp_path: Path) -> None:
    with record(client, "kept", tmp_path, keeps_items=True) as recorder:
        for at in range(3):
            recorder.call("sure", f"ticket {at}", item_id=str(at), embedding=np.array([at, 1.0], dtype=np.float32))
            recorder.add_truth(str(at), quality={"sure": 0.5})
        frozen = recorder.freeze("kept")
    assert frozen["embedding_dimensions"] == 2


def test_asynchronous_classifiers_are_awaited_and_explored_in_the_callers_event_loop(
    client: Parsimony, tmp_path: Path
) -> None:
    async def work() -> tuple[Any, int, set[int]]:
        loops, loop = set[int](), asyncio.get_running_loop()

        async def ask(item: int) -> tuple[str, float]:
            loops.add(id(asyncio.get_running_loop()))
            await asyncio.sleep(0.001)
            if item == 7:
                raise LookupError(item)
            return "cat", 0.9

        classifiers = {"sure": ask, "quick": lambda item: "dog"}
        async with record(client, "async", tmp_path, classifiers=classifiers, explore=1.0) as recorder:
            quick, sure = recorder.wrap("quick"), recorder.wrap("sure")
            assert quick(1, item_id="1") == "dog"
            assert await sure(2, item_id="2") == ("cat", 0.9)
            with recorder.item(3, item_id="3") as calls:
                assert await calls.call_async("quick") == "dog"
                assert await calls.call_async("sure") == ("cat", 0.9)
            with pytest.raises(LookupError):
                await sure(7, item_id="7")
            with pytest.raises(InvalidRequest, match="asynchronous"):
                recorder.call("sure", 8)
        return recorder, id(loop), loops

    recorder, loop, loops = asyncio.run(work())
    assert loops == {loop}
    assert recorder.dropped == 0
    report = client.call("GET", "/v1/recordings/async")
    assert (report["rows"], report["explored_share"]) == (5, 0.8)  # item 3 had both already


def test_exploration_after_the_end_of_an_event_loop_is_a_failed_call(client: Parsimony, tmp_path: Path) -> None:
    async def ask(item: int) -> str:
        await asyncio.sleep(60)
        return "cat"

    recorder = record(client, "ended", tmp_path, classifiers={"sure": ask, "quick": lambda item: "dog"}, explore=1.0)

    async def work() -> None:
        for item in range(3):
            recorder.call("quick", item, item_id=str(item))
        await asyncio.sleep(0.1)

    asyncio.run(work())
    recorder.close()
    assert count_rows(client, "ended") == 3


def test_what_a_classifier_raises_is_not_hidden_and_odd_values_end_nothing(client: Parsimony, tmp_path: Path) -> None:
    def fail(item: object) -> Answer:
        raise KeyError(item)

    classifiers = {
        "sure": fail,
        "quick": lambda item: Answer("cat", 0.5, cost=1.0),
        "odd": lambda item: ("cat", "high"),
    }
    with record(client, "odd", tmp_path, classifiers=classifiers, costs=None, explore=1.0) as recorder:
        with pytest.raises(KeyError):
            recorder.call("sure", "a")
        assert recorder.call("odd", "a") == ("cat", "high")
        recorder.call("quick", "b")
        recorder.flush()
        assert client.call("GET", "/v1/recordings/odd")["rows"] == 3
        recorder.close()
        recorder.close()
        with pytest.raises(InvalidRequest, match="closed"):
            recorder.flush()


def test_a_recorder_refuses_to_block_the_event_loop_that_it_needs(client: Parsimony, tmp_path: Path) -> None:
    class Model:
        async def __call__(self, item: int) -> str:
            await asyncio.sleep(0.01)
            return "cat"

    async def work() -> None:
        classifiers = {"sure": Model(), "quick": lambda item: "dog"}
        async with record(client, "blocked", tmp_path, classifiers=classifiers, explore=1.0) as recorder:
            recorder.call("quick", 1)
            with pytest.raises(InvalidRequest, match="event loop"):
                recorder.flush()
            await asyncio.to_thread(recorder.flush)
            assert client.call("GET", "/v1/recordings/blocked")["explored_share"] == 1.0

    asyncio.run(work())


def test_damaged_lines_are_dropped_and_the_others_are_sent(tmp_path: Path) -> None:
    sent: list[Any] = []
    (tmp_path / "left.jsonl").write_bytes(b'{"row": 1}\n{"row": {"x{"row": 2}\n{"row": 3}\n')
    spool = Spool(tmp_path, sent.extend, interval_s=60.0)
    spool.close()
    assert (sent, spool.dropped, list(tmp_path.iterdir())) == ([{"row": 1}, {"row": 3}], 1, [])


def test_calls_after_the_end_are_refused_not_lost(client: Parsimony, tmp_path: Path) -> None:
    for explore in (0.0, 1.0):
        recorder = record(client, "ended", tmp_path, explore=explore)
        recorder.close()
        with pytest.raises(ValueError, match="closed"):
            recorder.call("sure", "x")


def test_integers_are_labels_and_other_values_are_failures(client: Parsimony, tmp_path: Path) -> None:
    values = {
        "integer": np.int64(2),
        "pair": (np.int64(2), np.float64(0.75)),
        "dict": {"label": 2},
        "nan": float("nan"),
    }
    classifiers = {name: lambda item, of=name: values[of] for name in values}
    recorder = record(client, "values", tmp_path, classifiers=classifiers, costs={}, unit="ms")
    with recorder:
        with recorder.item("x", item_id="x") as calls:
            for name, value in values.items():
                assert calls.call(name) is value
        rows = {call["classifier"]: (call["label"], call["confidence"]) for call in calls.calls}
        errors = {call["classifier"] for call in calls.calls if call["error"] is not None}
        recorder.add_truth("x", np.int64(2))
        with pytest.raises(InvalidRequest, match="truth"):
            recorder.add_truth("x", 2.5)
    assert rows == {"integer": ("2", None), "pair": ("2", 0.75), "dict": (None, None), "nan": (None, None)}
    assert errors == {"dict", "nan"}


def test_a_recorder_starts_while_the_server_is_gone(tmp_path: Path) -> None:
    from tests.support.servers import free_port

    port = free_port()
    with Parsimony(f"http://127.0.0.1:{port}", retries=0) as early:
        recorder = record(early, "early", tmp_path, interval_s=0.1, costs=COSTS)
        recorder.call("sure", "x")
        server = start_server(tmp_path / "server", port=port)
        try:
            server.wait_until_ready()
            recorder.flush()
            recorder.close()
            assert early.show_recording("early")["rows"] == 1
        finally:
            server.stop()


def test_asynchronous_classifiers_are_explored_without_an_event_loop(client: Parsimony, tmp_path: Path) -> None:
    async def slow(item: object) -> tuple[str, float]:
        return "a", 0.5

    classifiers = {"sure": lambda item: ("a", 0.9), "slow": slow}
    with record(client, "no-loop", tmp_path, classifiers=classifiers, costs={}, unit="ms", explore=1.0) as recorder:
        with recorder.item("x") as calls:
            calls.call("sure")
        recorder.flush()
    assert [(call["classifier"], call["error"]) for call in calls.calls] == [("sure", None), ("slow", None)]


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_costs_out_of_range_are_refused(client: Parsimony, tmp_path: Path, cost: float) -> None:
    with pytest.raises(InvalidRequest, match="finite"):
        record(client, "costs", tmp_path, costs={"sure": cost, "quick": 1.0})
