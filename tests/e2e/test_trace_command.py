"""``parsimony trace``: real models behind endpoints, a budget, a judge, and a portfolio from what they answered."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support.commands import ran
from tests.support.servers import Server, running_server
from tests.support.wire import serving

COSTS = {"cheap": 0.001, "strong": 0.03, "judge": 0.002}


class Provider:
    """Three models: ``cheap`` adds numbers below 10 only, ``strong`` all, and ``judge`` compares answers."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def answer(self, request: Request) -> JSONResponse:
        model, text = request.path_params["model"], (await request.json())["item"]
        self.calls[model] += 1
        if model == "judge":
            question, first, second = (part.split("\n\n")[0] for part in text.split(":\n")[2:5])
            right = str(sum(map(int, question.split("+"))))
            return JSONResponse({"label": "tie" if first == second else "A" if first == right else "B"})
        numbers = [int(one) for one in text.split("+")]
        total = sum(numbers) if model == "strong" or max(numbers) < 10 else 0
        return JSONResponse({"label": str(total), "confidence": 0.9})


@pytest.fixture(scope="module")
def provider(server: Server) -> Iterator[Provider]:
    provider = Provider()
    with serving(Starlette(routes=[Route("/{model}", provider.answer, methods=["POST"])])) as port:
        for model, cost in COSTS.items():
            endpoint: dict[str, Any] = {"protocol": "json", "url": f"http://127.0.0.1:{port}/{model}"}
            shape = {"body": {"item": "{{item}}"}, "label": "/label", "prices": {"per_call": cost}}
            reply = server.client.put(f"/v1/endpoints/{model}", json={**endpoint, **shape})
            assert reply.status_code == 201, reply.text
        yield provider


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("trace"), endpoint_hosts="127.0.0.1") as server:
        yield server


@pytest.fixture
def prompts(tmp_path: Path, server: Server, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    monkeypatch.chdir(tmp_path)
    provider.calls.clear()
    pairs = [(1 + k % 17, k // 17) for k in range(80)]
    lines = [json.dumps({"prompt": f"{a}+{b}", "expected": str(a + b)}) for a, b in pairs]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(lines))
    return path


def trace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: object) -> dict[str, Any]:
    command = ("trace", "prompts.jsonl", "--endpoints", "cheap,strong", "--json", *more)
    status, out, err = ran(monkeypatch, capsys, *command)
    assert status == 0, err
    return dict(json.loads(out))


def test_a_trace_is_bought_within_a_budget_and_continued(
    prompts: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = trace(monkeypatch, capsys, "--budget", 1)
    assert (first["rows"], first["calls"], first["spent"]) == (32, 64, pytest.approx(0.992))
    second = trace(monkeypatch, capsys, "--name", "sums")
    assert (second["rows"], second["calls"]) == (80, 160)
    assert provider.calls == {"cheap": 80, "strong": 80}
    table = pyarrow.parquet.read_table("trace.parquet").to_pydict()
    assert sum(table["strong.correct"]) == 80
    assert sum(table["cheap.correct"]) == sum(
        "+" in text and max(map(int, text.split("+"))) < 10 for text in table["prompt"]
    )


def test_a_judge_compares_with_the_strongest(
    prompts: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = trace(monkeypatch, capsys, "--judge", "judge", "-o", "judged.parquet")
    table = pyarrow.parquet.read_table("judged.parquet").to_pydict()
    wrong = sum(max(map(int, text.split("+"))) >= 10 for text in table["prompt"])
    assert sum(table["cheap.correct"]) == 80 - wrong
    assert (provider.calls["judge"], report["position_bias"]) == (2 * wrong, 0.0)
    assert report["spent"] == pytest.approx(80 * 0.031 + 2 * wrong * 0.002)


def test_a_command_can_grade(
    prompts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import json,sys; one = json.load(sys.stdin); print(float(eval(one['text']) == int(one['answer'])))"
    report = trace(monkeypatch, capsys, "--check", f'{sys.executable} -c "{code}"', "--budget", 0.4)
    assert report["rows"] == 12
    assert sum(pyarrow.parquet.read_table("trace.parquet").to_pydict()["strong.correct"]) == 12


def test_what_is_missing_is_named(
    prompts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts.write_text('{"prompt": "1+1"}\n')
    status, _, err = ran(monkeypatch, capsys, "trace", "prompts.jsonl", "--endpoints", "cheap,strong")
    assert (status, err.startswith("parsimony: expected")) == (1, True)
    for options in (("cheap,strong", "--judge", "strong", "--expected", "answer"), ("cheap,cheap", "--check", "true")):
        status, _, err = ran(monkeypatch, capsys, "trace", "prompts.jsonl", "--endpoints", *options)
        field = "expected" if "--expected" in options else "endpoints"
        assert (status, err.startswith(f"parsimony: {field}")) == (1, True)
    command = ("trace", "prompts.jsonl", "--endpoints", "cheap,nobody", "--check", "true")
    status, _, err = ran(monkeypatch, capsys, *command)
    assert (status, "nobody" in err) == (1, True)


def test_nothing_is_paid_for_if_the_judge_is_missing(
    prompts: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(provider.calls)
    command = ("trace", "prompts.jsonl", "--endpoints", "cheap,strong", "--judge", "nobody", "-o", "unjudged.parquet")
    status, _, err = ran(monkeypatch, capsys, *command)
    assert (status, "nobody" in err, dict(provider.calls)) == (1, True, before)
