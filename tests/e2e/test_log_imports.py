"""Logs of model calls over HTTP: stored as a dataset, with a report of what was used; refused with the reason."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.e2e.visits import NEEDED, Visit
from tests.support.llm_server import LlmServer
from tests.support.patience import patient
from tests.support.servers import Server, running_server, wait_for

JSON = "application/json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, llms: LlmServer) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("logs"), endpoint_hosts="127.0.0.1") as server:
        llms.switch()
        prices = {"prices": {"input_per_million": 2.0}}
        server.client.put("/v1/endpoints/embedder", json=llms.embedder(max_texts=32, **prices)).raise_for_status()
        yield server


def log(calls: int = 200, **changes: Any) -> bytes:
    rng = np.random.default_rng(1)
    lines = []
    for number in range(calls):
        model, right = ("small", "large")[rng.random() < 0.5], bool(rng.random() < 0.7)
        call = {"id": f"r{number}", "model": model, "prompt": f"q {number % 150}", "correct": right, "cost": 1.5}
        renamed = {"q": call["prompt"]} if changes else {}
        lines.append(json.dumps({**call, **renamed, **changes}))
    return "\n".join(lines).encode()


def put(server: Server, name: str, **parts: Any) -> Any:
    return server.client.put(f"/v1/datasets/{name}/calls", files=parts)


def test_a_log_is_stored_as_a_partial_trace(server: Server) -> None:
    broken = log() + b'\n{"id": "x", "model": "small", "prompt": "q", "cost": 1}\n'
    reply = put(server, "imported", log=("calls.jsonl", broken))
    assert reply.status_code == 201, reply.text
    stored = reply.json()
    assert (stored["records"], stored["calls"], list(stored["unused"].values())) == (201, 200, [1])
    assert (stored["spec"]["item"], stored["spec"]["text"], stored["embedding_dimensions"]) == ("item", "prompt", 258)
    assert stored["items"] == 150
    assert stored["complete_rows"] < 60
    assert "partial-calls" in {one["code"] for one in stored["warnings"]}
    profile = server.client.get("/v1/datasets/imported/profile").json()
    assert sum(one["calls"] for one in profile["classifiers"]) == 200
    again = put(server, "imported", log=("calls.jsonl", log()))
    assert (again.status_code, again.json()["replaced"]["rows"]) == (200, stored["rows"])


def test_the_reply_counts_calls_by_model_and_length_of_the_prompt(server: Server) -> None:
    reply = put(server, "counted", log=("calls.jsonl", log())).json()
    calls = [json.loads(line) for line in log().splitlines()]
    for model in reply["models"]:
        own = [call["correct"] for call in calls if call["model"] == model["name"]]
        assert (model["calls"], model["mean_outcome"], model["mean_cost"]) == (len(own), np.mean(own), 1.5)
    coverage = reply["coverage"]
    assert (coverage["by"], coverage["rows"]) == ("length", reply["rows"])
    for model in reply["models"]:
        answered = sum(group["rows"] * group["answered"][model["name"]] for group in coverage["groups"])
        assert answered == pytest.approx(model["calls"])
    assert reply["embedding_cost"] is None


def test_a_registered_embedder_embeds_prompts_and_none_twice(server: Server, llms: LlmServer) -> None:
    """The embedder fails at its fourth request, of five; what it returned before is kept for the repeated import.

    Its registration closes the circuit.
    """
    options = {"options": (None, json.dumps({"embedder": "embedder"}), JSON)}
    llms.switch(embedder={"fails_after": 3})
    failed = put(server, "embedded", log=("calls.jsonl", log()), **options)
    assert failed.status_code == 502, failed.text
    assert server.client.get("/v1/datasets/embedded").status_code == 404
    before = [text for body in llms.bodies["embedder"] for text in body["input"]]
    llms.switch()
    server.client.put("/v1/endpoints/embedder", json=llms.embedder(max_texts=32)).raise_for_status()
    stored = put(server, "embedded", log=("calls.jsonl", log()), **options)
    assert stored.status_code == 201, stored.text
    assert stored.json()["embedding_dimensions"] == 2
    after = [text for body in llms.bodies["embedder"] for text in body["input"]]
    assert len(after) + 3 * 32 == len({*before, *after}) == 150
    with closing(sqlite3.connect(server.data_dir / "import-embeddings.sqlite")) as kept:
        assert kept.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_an_import_that_is_not_allowed_pays_for_no_embedding(server: Server, llms: LlmServer) -> None:
    options = {"options": (None, json.dumps({"embedder": "embedder"}), JSON)}
    assert put(server, "there", log=("calls.jsonl", log())).is_success
    llms.switch()
    parts: Any = {"log": ("calls.jsonl", log()), **options}
    reply = server.client.put("/v1/datasets/there/calls", files=parts, headers={"If-None-Match": "*"})
    assert (reply.status_code, llms.calls()) == (412, {})


def test_concurrent_imports_of_one_name_leave_each_other_their_embeddings(server: Server, llms: LlmServer) -> None:
    options = {"options": (None, json.dumps({"embedder": "embedder"}), JSON)}
    llms.switch()
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: put(server, "race", log=("calls.jsonl", log()), **options), range(4)))
    assert {reply.status_code for reply in replies} <= {200, 201}, [reply.text for reply in replies]


def test_an_embedding_that_is_not_finite_is_refused_and_not_kept(server: Server, llms: LlmServer) -> None:
    options = {"options": (None, json.dumps({"embedder": "embedder"}), JSON)}
    llms.switch(embedder={"number": 1e300})
    failed = put(server, "endless", log=("calls.jsonl", log()), **options)
    assert failed.status_code == 502, failed.text
    llms.switch()
    server.client.put("/v1/endpoints/embedder", json=llms.embedder(max_texts=32)).raise_for_status()
    assert put(server, "endless", log=("calls.jsonl", log()), **options).status_code == 201


WINDOW = {"window_tokens": 20, "older_chunks": 2, "system": True, "template": "{content} "}


def chat_log(calls: int = 200) -> bytes:
    """Return calls for conversations whose first turn is easy, and which exceed the window in every second call."""
    lines = []
    for number, line in enumerate(log(calls).splitlines()):
        call = json.loads(line)
        turns = ["an easy prompt" + "." * (60 * (number % 2)), "answer", call.pop("prompt")]
        roles = ("user", "assistant", "user")
        messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
        lines.append(json.dumps({**call, "prompt": messages}))
    return "\n".join(lines).encode()


@pytest.mark.parametrize("embedder", ["embedder", "words"])
def test_a_build_from_imported_chats_embeds_requests_as_the_import_did(
    server: Server, llms: LlmServer, embedder: str
) -> None:
    """The import and the requests embed the same texts, by the window that the artifact records."""
    llms.switch()
    server.client.put("/v1/endpoints/embedder", json=llms.embedder(max_texts=32))
    options = {"options": (None, json.dumps({"embedder": embedder, "conversation": WINDOW}), JSON)}
    stored = put(server, f"chats-{embedder}", log=("calls.jsonl", chat_log()), **options)
    assert stored.status_code == 201, stored.text
    assert stored.json()["spec"]["conversation"] == WINDOW
    imported = {text for body in llms.bodies["embedder"] for text in body["input"]}
    params = {"curve_points": 5}  # the dataset names its embedder
    other = {**params, "conversation": {**WINDOW, "window_tokens": 30}}
    assert build(server, f"chats-{embedder}", other).status_code == 422
    artifact = wait_for_build(server, build(server, f"chats-{embedder}", params).json())
    assert artifact["params"]["conversation"] == {**WINDOW, "latch": 0}
    llms.switch()
    for line in chat_log(4).splitlines():
        body = {"model": f"portfolio/chats-{embedder}@budget=100%", "messages": json.loads(line)["prompt"]}
        reply = server.client.post("/v1/chat/completions", json={**body, "parsimony": {"route_only": True}})
        assert reply.status_code == 200, reply.text
    requested = [body["input"] for body in llms.bodies["embedder"]]
    texts = {text for each in requested for text in ([each] if isinstance(each, str) else each)}
    assert (texts <= imported, bool(texts)) == (True, embedder == "embedder")


def build(server: Server, name: str, params: dict[str, Any]) -> Any:
    body = {"kind": "portfolio", "name": name, "dataset": name, "params": params}
    return server.client.post("/v1/builds", json=body)


def wait_for_build(server: Server, queued: dict[str, Any]) -> dict[str, Any]:
    """Return the artifact of a build."""
    url = f"/v1/builds/{queued['id']}"
    wait_for(lambda: server.client.get(url).json()["status"] not in ("queued", "running"), patient(90), "it runs")
    assert server.client.get(url).json()["status"] == "succeeded", server.client.get(url).text
    return dict(server.client.get(f"/v1/artifacts/portfolio/{queued['name']}").json())


def test_feedback_prices_and_pointers_are_parts(server: Server) -> None:
    calls = log(prompt=None, correct=None, cost=None, prompt_tokens=1000, completion_tokens=0)
    outcomes = "\n".join(json.dumps({"request_id": f"r{number}", "quality": 0.5}) for number in range(200))
    reply = put(
        server,
        "priced",
        log=("calls.jsonl", calls),
        feedback=("feedback.jsonl", outcomes.encode()),
        prices=(None, json.dumps({name: {"input_per_million": 3.0} for name in ("small", "large")}), JSON),
        options=(None, json.dumps({"unit": "EUR", "pointers": {"text": "/q"}}), JSON),
    )
    assert reply.status_code == 201, reply.text
    assert (reply.json()["calls"], reply.json()["spec"]["unit"]) == (200, "EUR")


def test_bad_logs_are_refused_by_part_and_nothing_is_stored(server: Server) -> None:
    cases = (
        ({"log": ("x", b"")}, "x"),
        ({"log": ("x", b'{"a": 1}')}, "log"),
        ({"log": ("x", log(correct=None))}, "log"),
        ({"log": ("x", b'{"model": 1}\nnonsense')}, "log"),
        ({"log": ("x", log()), "table": ("y", b"")}, "table"),
        ({"log": ("x", log()), "prices": (None, '{"small": {"input_per_million": -1}}', JSON)}, "prices"),
        ({"log": ("x", log()), "options": (None, '{"pointers": {"prompt": "/x"}}', JSON)}, "pointers"),
        ({"log": ("x", log()), "options": (None, '{"embedder": "none"}', JSON)}, "embedder"),
        ({"feedback": ("x", log())}, "log"),
    )
    for parts, _ in cases:
        reply = put(server, "refused", **parts)
        assert reply.status_code == 422, (parts, reply.text)
        assert reply.json()["errors"], reply.text
    assert server.client.get("/v1/datasets/refused").status_code == 404


@pytest.mark.browser
@NEEDED
def test_the_console_imports_a_log_and_shows_its_coverage(visit: Visit, server: Server, llms: LlmServer) -> None:
    llms.switch()
    page = visit.page
    page.goto("/datasets")
    form = page.locator("#import")
    form.get_by_label("Dataset").fill("Wrong name")
    form.get_by_label("Log", exact=True).set_input_files({"name": "x.jsonl", "mimeType": JSON, "buffer": log()})
    form.get_by_label("Embedder").select_option("embedder")
    form.get_by_role("button", name="Import").click()
    expect(page.locator("#log-name-fault")).not_to_be_empty()
    form.get_by_label("Dataset").fill("from-console")
    form.get_by_role("button", name="Import").click()
    result = page.locator("#imported")
    expect(result.get_by_role("link", name="Show the dataset")).to_be_visible()
    expect(result.get_by_role("table")).to_have_count(2)
    shade = "one => getComputedStyle(one).backgroundColor"
    assert result.locator(".shaded").first.evaluate(shade) != "rgba(0, 0, 0, 0)"
    assert server.client.get("/v1/datasets/from-console").json()["embedding_dimensions"] == 2
    visit.complaints.clear()  # the refused request


def test_the_format_of_a_log_may_be_named(server: Server) -> None:
    for name, status in (("table", 201), ("otel", 422), ("csv", 422)):
        options = {"options": (None, json.dumps({"format": name}), JSON)}
        reply = put(server, "named-format", log=("calls.jsonl", log()), **options)
        assert reply.status_code == status, (name, reply.text)
    assert reply.json()["errors"][0]["loc"] == ["options", "format"]
