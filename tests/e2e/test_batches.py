"""Files of items are run behind the service: once each, through the death of the worker, until they are cancelled."""

import io
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest
from playwright.sync_api import expect

from app.building.supervisor import NAME
from solvers.confidence_profile import WINDOW
from tests.e2e import visits
from tests.e2e.test_runs import endpoints, fill, image, imported_judged, imported_knowing, register, vector
from tests.support.commands import ran
from tests.support.model_process import ModelServer
from tests.support.servers import Server, running_server, wait_for
from tests.support.trained import COSTS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, models: ModelServer) -> Iterator[Server]:
    """Run a server with a worker, and three artifacts of the trained classifiers."""
    folder = tmp_path_factory.mktemp("batches")
    with running_server(
        folder, endpoint_hosts="127.0.0.1", secret_test="sk-x", max_batch=WINDOW, max_batch_items=WINDOW
    ) as server:
        fill(server, models)
        server.wait_for_worker()
        yield server


@pytest.fixture(autouse=True)
def _no_faults(models: ModelServer, server: Server) -> None:
    models.switch()


def images(count: int, *, with_text: bool = False) -> str:
    lines = []
    for i in range(count):
        text = {"text": json.dumps(image(i))} if with_text else {}
        lines.append(json.dumps({"item": image(i), "id": f"image-{i}", **text}))
    return "\n".join(lines)


def post(
    server: Server, spec: Any, lines: str | bytes, kind: str = "application/jsonl", **headers: str
) -> httpx.Response:
    files: dict[str, Any] = {"spec": (None, json.dumps(spec)), "file": ("items", lines, kind)}
    return server.client.post("/v1/batches", files=files, headers=headers)


def queued(server: Server, lines: str, kind: str, name: str = "digits", **spec: Any) -> str:
    reply = post(server, {"kind": kind, "name": name, **spec}, lines)
    assert reply.status_code == 202, reply.text
    assert reply.json()["status"] in ("queued", "running")
    return reply.headers["location"]


def show(server: Server, path: str) -> dict[str, Any]:
    batch: dict[str, Any] = server.client.get(path).json()
    return batch


def ended(server: Server, path: str, seconds: float = 60) -> dict[str, Any]:
    last = lambda: f"{show(server, path)}\n{server.log.read_text()[-3000:]}"  # noqa: E731
    wait_for(lambda: show(server, path)["status"] not in ("queued", "running"), seconds, last)
    return show(server, path)


def output(server: Server, path: str) -> list[dict[str, Any]]:
    reply = server.client.get(f"{path}/output")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/jsonl")
    return [json.loads(line) for line in reply.text.splitlines()]


def test_each_item_of_a_file_is_run_as_by_itself_and_told_in_the_order_of_the_file(server: Server) -> None:
    path = queued(server, images(12) + '\n\n{"item": {"no": "pixels"}, "id": "bad"}\n', "cascade", max_concurrency=3)
    batch = ended(server, path)
    assert (batch["status"], batch["done"], batch["failed"], batch["total"]) == ("succeeded", 12, 1, 13)
    lines = output(server, path)
    assert [line["id"] for line in lines] == [*(f"image-{i}" for i in range(12)), "bad"]
    alone = server.client.post("/v1/cascades/digits/runs", json={"item": image(4), "id": "image-4"}).json()
    assert [line["index"] for line in lines] == list(range(13))
    assert set(lines[4]) == set(alone) | {"index"}
    assert (lines[4]["label"], lines[4]["decision"]) == (alone["label"], alone["decision"])
    assert (lines[-1]["status"], bool(lines[-1]["error"])) == (502, True)
    assert batch["spent"]["cost"] == pytest.approx(sum(step["cost"] for line in lines for step in line["steps"]))
    assert show(server, "/v1/batches")["items"][0]["id"] == batch["id"]
    with imported_judged(server) as name:  # a policy of judged answers tells those that were taken
        path = queued(server, images(4, with_text=True), "policy", name, budget=sum(COSTS.values()) / 2)
        assert ended(server, path)["status"] == "succeeded"
        for line in output(server, path):
            (taken,) = [step for step in line["steps"] if step["accepted"]]
            assert line["label"] == taken["label"]


def test_a_file_in_parquet_is_run_as_its_lines_are_and_told_in_parquet(server: Server) -> None:
    rows = [{"item": image(i), "id": f"image-{i}", "text": None} for i in range(5)] + [{"item": [0.0], "id": None}]
    spec = {"kind": "cascade", "name": "digits"}
    reply = post(server, spec, parquet(rows), kind="application/vnd.apache.parquet")
    assert reply.status_code == 202, reply.text
    path = reply.headers["location"]
    batch = ended(server, path)
    assert (batch["status"], batch["done"], batch["failed"]) == ("succeeded", 5, 1)
    lines = output(server, path)
    assert [line["id"] for line in lines] == [*(f"image-{i}" for i in range(5)), None]
    asked = server.client.get(f"{path}/output", headers={"accept": "application/vnd.apache.parquet"})
    assert asked.headers["content-type"] == "application/vnd.apache.parquet"
    table = pa.parquet.read_table(io.BytesIO(asked.content)).to_pylist()
    assert [json.loads(row["line"]) for row in table] == lines
    assert [(row["index"], row["label"], row["status"]) for row in table] == [
        (line["index"], line.get("label"), line.get("status")) for line in lines
    ]
    assert sum(row["cost"] for row in table) == pytest.approx(batch["spent"]["cost"])
    by_line = ended(server, queued(server, images(5), "cascade"))
    own = output(server, f"/v1/batches/{by_line['id']}")
    assert [line["label"] for line in lines[:5]] == [line["label"] for line in own]


def parquet(rows: list[dict[str, Any]] | pa.Table) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("table", "status", "said"),
    [
        (b"PAR1 and nothing", 422, "Parquet"),
        (parquet([{"id": "a"}]), 422, "file.item: "),
        (parquet([{"item": 1, "itm": 2}]), 422, "file.itm: "),
        (parquet([{"item": 1.0}, {"item": math.nan}]), 422, "file.row 2: "),
        (parquet([{"item": b"x"}]), 422, "file.row 1: "),
        (parquet([{"item": 1, "id": 7}]), 422, "file.row 1.id"),
        (parquet(pa.table({"item": pa.array([], pa.float64())})), 422, "file: "),
        (parquet([{"item": 1}] * (WINDOW + 1)), 413, "PARSIMONY_MAX_BATCH"),
    ],
)
def test_a_table_of_no_items_is_refused_where_it_is_none(server: Server, table: bytes, status: int, said: str) -> None:
    reply = post(server, {"kind": "cascade", "name": "digits"}, table, kind="application/octet-stream")
    assert (reply.status_code, said in reply.json()["detail"]) == (status, True), reply.text


def test_metrics_count_batches_their_items_and_what_these_cost(server: Server) -> None:
    ended(server, queued(server, images(4) + '\n{"item": "none"}', "cascade"))

    def in_metrics() -> dict[str, float]:
        lines = [line for line in server.client.get("/metrics").text.splitlines() if line.startswith("parsimony_batch")]
        return {name: round(float(value), 6) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def counted() -> dict[str, float]:
        batches = server.client.get("/v1/batches?limit=1000").json()["items"]
        statuses = [batch["status"] for batch in batches]
        each = ("queued", "running", "succeeded", "failed", "cancelled")
        return {
            **{f'parsimony_batches{{status="{status}"}}': statuses.count(status) for status in each},
            **{
                f'parsimony_batch_items{{outcome="{o}"}}': sum(batch[o] for batch in batches)
                for o in ("done", "failed")
            },
            'parsimony_batch_spent{unit="ms"}': round(sum(batch["spent"]["cost"] for batch in batches), 6),
        }

    assert counted()['parsimony_batch_items{outcome="done"}'] >= 4

    def are_counted() -> bool:
        return in_metrics() == counted()

    wait_for(are_counted, 20, lambda: f"{in_metrics()}\n{counted()}")


@pytest.mark.browser
@visits.NEEDED
def test_the_console_lists_cancels_and_downloads_batches(server: Server, models: ModelServer) -> None:
    models.switch(**dict.fromkeys(COSTS, "slow"))
    path = queued(server, images(60), "cascade", max_concurrency=1)
    wait_for(lambda: show(server, path)["done"] >= 2, 30, "nothing is answered")
    with visits.browser() as browser, visits.visit(browser, server.url) as visit:
        page = visit.page
        page.goto("/batches")
        row = page.locator("#list tbody tr").first
        expect(row).to_contain_text("running")
        expect(row).to_contain_text("of 60")
        row.get_by_role("button", name="Cancel").click()
        expect(row).to_contain_text("cancelled")
        expect(row.get_by_role("button", name="Cancel")).to_have_count(0)
        with page.expect_download() as loading:
            row.get_by_role("button", name="Download").click()
        lines = Path(loading.value.path()).read_text().splitlines()
        assert [json.loads(line)["index"] for line in lines] == list(range(show(server, path)["done"]))
        assert (visit.outside, visit.complaints) == ([], [])


def test_a_portfolio_assigns_a_file_as_a_whole_and_embeds_each_text_once(server: Server, models: ModelServer) -> None:
    path = queued(server, images(30, with_text=True), "portfolio", budget=4.0)
    batch = ended(server, path)
    assert batch["status"] == "succeeded", batch
    lines = output(server, path)
    first = [line["steps"][1]["classifier"] for line in lines]
    assert sum(COSTS[name] for name in first) <= 4.0 * 30 * (1 + 1e-9)
    assert len({line["decision"] for line in lines if "decision" in line}) == 1
    counted = models.counted()
    assert (counted["texts"], counted["calls"]["embedder"]) == (30, 1), "they are embedded by one request"


def test_a_cancelled_batch_keeps_its_answers_and_calls_nothing_more(server: Server, models: ModelServer) -> None:
    models.switch(**dict.fromkeys(COSTS, "slow"))
    path = queued(server, images(60), "cascade", max_concurrency=1)
    wait_for(lambda: show(server, path)["done"] >= 2, 30, "nothing is answered")
    assert server.client.delete(path).json()["status"] == "cancelled"
    batch = ended(server, path)
    assert len(output(server, path)) == batch["done"] < 60
    assert batch["finished_at"] is not None
    assert server.client.delete(path).json() == batch
    wait_for(lambda: not processes_of_batches(server), 20, "its process goes on")
    called = models.counted()["calls"]
    assert sum(called.values()) <= sum(len(line["steps"]) for line in output(server, path)) + len(COSTS)


def test_an_outage_of_all_endpoints_is_waited_for(server: Server, models: ModelServer) -> None:
    models.switch(**dict.fromkeys(COSTS, "error"))
    path = queued(server, images(40), "cascade", max_concurrency=2)
    wait_for(lambda: show(server, path)["failed"] >= 5, 30, "nothing fails")
    wait_for(lambda: sorted(show(server, path)["open_circuits"]) == sorted(COSTS), 30, "no circuit is told of")
    opened = f'parsimony_batch_circuits_open{{endpoint="{next(iter(COSTS))}"}}'
    wait_for(lambda: f"{opened} 1.0" in server.client.get("/metrics").text, 30, "no circuit is counted")
    models.switch()
    batch = ended(server, path)
    assert batch["open_circuits"] == []
    wait_for(lambda: f"{opened} 0.0" in server.client.get("/metrics").text, 30, "the circuit is counted for ever")
    assert (batch["status"], batch["done"] + batch["failed"]) == ("succeeded", 40)
    assert batch["failed"] < 10, "items were run while no endpoint could be called"


def test_confidences_of_a_batch_that_differ_are_a_problem_until_the_endpoint_is_registered_again(
    server: Server, models: ModelServer
) -> None:
    name = server.client.get("/v1/cascades/digits/decision").json()["cascade"][0]
    endpoint = endpoints(models)[name]

    def problems() -> list[str]:
        return [each for each in server.client.get("/health/ready").json()["problems"] if "confidence_scale" in each]

    server.client.put(f"/v1/endpoints/{name}", json=endpoint | {"confidence_scale": "percent"})
    try:
        batch = ended(server, queued(server, images(WINDOW), "cascade"))
        assert (batch["status"], batch["done"]) == ("succeeded", WINDOW)
        (problem,) = batch["confidence_problems"]
        assert repr(name) in problem
        wait_for(lambda: [repr(name) in each for each in problems()] == [True], 20, problems)
    finally:
        server.client.put(f"/v1/endpoints/{name}", json=endpoint)
    wait_for(lambda: problems() == [], 20, problems)
    batch = ended(server, queued(server, images(WINDOW), "cascade"))
    assert (batch["done"], batch["confidence_problems"]) == (WINDOW, [])


def processes_of_batches(server: Server) -> list[psutil.Process]:
    """List the processes that the worker has begun; those that end meanwhile are none."""
    begun = []
    for process in psutil.Process(server.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if parent is not None and parent.name() == NAME and process.status() != psutil.STATUS_ZOMBIE:
                begun.append(process)
    return begun


@pytest.mark.parametrize("killed", ["batch", pytest.param("worker", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["cascade", "portfolio"])
def test_what_is_stored_is_called_no_second_time_when_the_worker_is_killed(
    server: Server, models: ModelServer, kind: str, killed: str
) -> None:
    models.switch(**dict.fromkeys(COSTS, "slow"))
    spec: dict[str, Any] = {"max_concurrency": 2} | ({"budget": 4.0} if kind == "portfolio" else {})
    path = queued(server, images(24, with_text=kind == "portfolio"), kind, **spec)
    wait_for(lambda: show(server, path)["done"] >= 10, 60, lambda: str(show(server, path)))  # more than are in flight
    doomed = processes_of_batches(server)[0]
    (doomed if killed == "batch" else psutil.Process(doomed.ppid())).kill()
    before = {line["id"]: line for line in output(server, path)}
    assert 10 <= len(before) < 24
    batch = ended(server, path, 120)
    assert (batch["status"], batch["done"] + batch["failed"]) == ("succeeded", 24), batch
    lines = output(server, path)
    assert {line["id"]: line for line in lines if line["id"] in before} == before
    called, heard = models.counted()["calls"], [step["classifier"] for line in lines for step in line["steps"]]
    in_flight = 2 * len(COSTS)
    for name in COSTS:
        assert heard.count(name) <= called.get(name, 0) <= heard.count(name) + in_flight
    if kind == "portfolio":
        assert (called["embedder"], models.counted()["texts"]) == (1, 24)
    assert sum(called.get(name, 0) for name in COSTS) <= sum(name in COSTS for name in heard) + in_flight


def test_a_text_that_is_refused_leaves_the_others_of_its_request_their_embeddings(server: Server) -> None:
    lines = images(9, with_text=True).splitlines()
    lines[4] = json.dumps({"item": image(4), "text": "no image", "id": "image-4"})
    batch = ended(server, queued(server, "\n".join(lines), "portfolio", budget=4.0))
    answered = output(server, f"/v1/batches/{batch['id']}")
    assert (batch["status"], batch["done"] + batch["failed"]) == ("succeeded", 9)
    assert "embedder: answered 400" in answered[4]["error"]
    assert not [line["index"] for line in answered if "no embedding" in str(line.get("error")) and line["index"] != 4]


def test_texts_that_were_embedded_are_not_embedded_again_when_the_worker_is_killed(
    server: Server, models: ModelServer
) -> None:
    embedder = {"protocol": "openai-embeddings", "url": models.url, "model": "e"}
    server.client.put("/v1/endpoints/embedder", json=embedder | {"max_texts": 4})
    models.switch(embedder="slow")
    try:
        path = queued(server, images(40, with_text=True), "portfolio", budget=4.0, max_concurrency=1)
        wait_for(lambda: models.counted()["texts"] >= 16, 30, lambda: str(show(server, path)))
        assert show(server, path)["done"] == 0, "it is not killed while it embeds"
        processes_of_batches(server)[0].kill()
        batch = ended(server, path, 120)
    finally:
        server.client.put("/v1/endpoints/embedder", json=embedder)
    assert (batch["status"], batch["done"] + batch["failed"]) == ("succeeded", 40), batch
    assert 40 <= models.counted()["texts"] <= 44, "only the request that was under way is made again"


@pytest.fixture(scope="module")
def knowing(server: Server) -> Iterator[dict[str, str]]:
    with imported_knowing(server) as name:
        yield {"kind": "policy", "name": name}


KNOWING: dict[str, Any] = {"kind": "policy", "name": "knowing"}
PACING = {"ledger": "l", "total": 1.0, "expected_items": 3}


@pytest.mark.usefixtures("knowing")
@pytest.mark.parametrize(
    ("spec", "lines", "status", "said"),
    [
        ({}, "", 422, "file: "),
        ({}, "\n \n", 422, "file: "),
        ({}, '{"item": 1}\n{"item": 2\n', 422, "file.line 2: "),
        ({}, '{"item": 1}\n{"itm": 2}\n', 422, "file.line 2.itm"),
        ({}, "[1]\n", 422, "file.line 1"),
        ({}, '{"item": 1}\n' * (WINDOW + 1), 413, "PARSIMONY_MAX_BATCH"),
        ({}, '{"item": ' + "[" * 300 + "]" * 300 + "}", 422, "file.line 1"),
        ({"name": "nobody"}, '{"item": 1}', 404, "nobody"),
        ({"version": 9}, '{"item": 1}', 404, "version 9"),
        ({"kind": "oracle"}, '{"item": 1}', 422, "spec.kind"),
        ({"surprise": 1}, '{"item": 1}', 422, "spec.surprise"),
        ({"max_concurrency": 0}, '{"item": 1}', 422, "spec.max_concurrency"),
        ({"max_item_cost": 1.0}, '{"item": 1}', 422, "max_item_cost"),
        ({"deadline": 1e-9}, '{"item": 1}', 409, "deadline"),
        ({"kind": "portfolio", "budget": 4.0}, '{"item": [1]}', 422, "item 1 has no embedding"),
        ({"kind": "portfolio"}, '{"item": "a"}', 422, "budget"),
        ({"kind": "portfolio", "budget": 4.0}, '{"item": 1, "embedding": [1.0]}', 422, "query"),
        (KNOWING, '{"item": "a"}\n{"item": [1]}', 422, "item 2 has no embedding"),
        (KNOWING, '{"item": 1, "embedding": [1.0]}', 422, "16 numbers"),
        (KNOWING | {"min_accuracy": 1.0}, '{"item": "a"}', 409, "requested: 1"),
        (KNOWING | {"budget_pacing": PACING}, '{"item": "a"}', 422, "budget_pacing"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_called(
    server: Server, models: ModelServer, spec: dict[str, Any], lines: str, status: int, said: str
) -> None:
    reply = post(server, {"kind": "cascade", "name": "digits", **spec}, lines)
    assert (reply.status_code, said in reply.json()["detail"]) == (status, True), reply.text
    assert models.counted()["calls"] == {}


def test_a_policy_that_knows_embeddings_embeds_each_text_of_a_file_once(
    server: Server, models: ModelServer, knowing: dict[str, str]
) -> None:
    """They are sent together; where one is refused the halves are sent apart, and what it was called for is told."""
    lines = images(6, with_text=True).splitlines()
    lines[2] = json.dumps({"item": image(2), "text": "no image"})
    lines[4] = json.dumps({"item": image(4), "embedding": vector(4)})
    done = ended(server, queued(server, "\n".join(lines), budget=6.0, **knowing), 30)
    answered = output(server, f"/v1/batches/{done['id']}")
    assert [place for place, one in enumerate(answered) if "error" in one] == [2]
    assert [(step["classifier"], step["attempts"]) for step in answered[2]["steps"]] == [("embedder", 3)], (
        "all, half, alone"
    )
    assert models.counted()["calls"]["embedder"] == 5


def test_what_has_no_endpoint_is_named(server: Server, models: ModelServer, knowing: dict[str, str]) -> None:
    cases = (("half", {"kind": "cascade", "name": "digits"}, "1"), ("embedder", knowing, '"a"'))
    for name, spec, item in cases:
        server.client.delete(f"/v1/endpoints/{name}")
        try:
            reply = post(server, spec, f'{{"item": {item}}}')
        finally:
            register(server, models)
        assert (reply.status_code, name in reply.json()["detail"]) == (422, True)
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/output")):
        reply = server.client.request(method, f"/v1/batches/batch-0{path}")
        assert (reply.status_code, reply.json()["type"]) == (404, "urn:parsimony:unknown-batch")


@pytest.mark.parametrize(
    "headers", [{"origin": "https://other.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_page_of_another_site_begins_no_batch(server: Server, headers: dict[str, str]) -> None:
    reply = post(server, {"kind": "cascade", "name": "digits"}, images(1), **headers)
    assert (reply.status_code, reply.json()["type"]) == (415, "urn:parsimony:unsupported-media-type")
    own = post(server, {"kind": "cascade", "name": "digits"}, images(1), origin=server.url)
    assert own.status_code == 202


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Give a function that runs a command, which speaks to a server or to its store."""

    def run(variable: str, value: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv(variable, value)
        monkeypatch.setenv("PARSIMONY_ENDPOINT_HOSTS", "127.0.0.1")
        return ran(monkeypatch, capsys, "batch", *arguments)

    return run


@pytest.mark.parametrize("to", ["server", "store"])
def test_the_command_line_adds_shows_cancels_and_writes(server: Server, command: Any, to: str, tmp_path: Path) -> None:
    where = ("PARSIMONY_URL", server.url) if to == "server" else ("PARSIMONY_DATA_DIR", str(server.data_dir))
    file, written = tmp_path / "items.jsonl", tmp_path / "answers.jsonl"
    file.write_text(images(3))
    status, out, err = command(*where, "add", "cascade", "digits", str(file), "max_concurrency=2", "--json")
    assert status == 0, err
    batch_id = json.loads(out)["id"]
    batch = ended(server, f"/v1/batches/{batch_id}")
    assert (batch["done"], batch["max_concurrency"]) == (3, 2)
    assert json.loads(command(*where, "show", batch_id, "--json")[1]) == batch
    assert json.loads(command(*where, "cancel", batch_id, "--json")[1]) == batch
    assert json.loads(command(*where, "list", "--json")[1])["items"][0] == batch
    assert "3/3" in command(*where, "list")[1]
    assert command(*where, "output", batch_id, "-o", str(written))[0] == 0
    assert written.read_text() == command(*where, "output", batch_id)[1]
    assert [json.loads(line)["id"] for line in written.read_text().splitlines()] == ["image-0", "image-1", "image-2"]
    assert command(*where, "output", batch_id, "-o", str(tmp_path / "answers.parquet"))[0] == 0
    table = pa.parquet.read_table(tmp_path / "answers.parquet")
    assert table.column("line").to_pylist() == written.read_text().splitlines()
    (tmp_path / "items.parquet").write_bytes(parquet([{"item": image(0)}]))
    assert command(*where, "add", "cascade", "digits", str(tmp_path / "items.parquet"))[0] == 0
    file.write_text('{"item": 1}\n{')
    status, out, err = command(*where, "add", "cascade", "digits", str(file))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "file.line 2: " in err
    assert "'batch-0'" in command(*where, "show", "batch-0")[2]


def test_a_file_may_have_more_items_than_a_request(models: ModelServer, tmp_path: Path) -> None:
    with running_server(tmp_path, endpoint_hosts="127.0.0.1", secret_test="sk-x", max_batch=20) as server:
        fill(server, models)
        server.wait_for_worker()
        batch = ended(server, queued(server, images(60), "cascade"))
        assert (batch["status"], batch["done"], batch["total"]) == ("succeeded", 60, 60)
        together = "".join(json.dumps({"item": 1, "embedding": [1.0, 2.0]}) + "\n" for _ in range(21))
        reply = post(server, {"kind": "portfolio", "name": "digits", "budget": 4.0}, together)
        assert (reply.status_code, "PARSIMONY_MAX_BATCH" in reply.json()["detail"]) == (413, True), reply.text
