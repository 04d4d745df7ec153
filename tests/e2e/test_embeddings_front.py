"""The embeddings front: texts pass to a registered embedder, with OpenAI's own client."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from app.cli.text_embeddings import MAX_TEXTS_PER_EMBEDDING_CALL
from tests.e2e.chats import client_of, register
from tests.support.commands import ran
from tests.support.llm_server import LlmServer
from tests.support.patience import patient
from tests.support.servers import Server

TEXTS = ["easy", "hard", "easy too"]
VECTORS = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


@pytest.fixture
def server(fresh_chats: Server) -> Server:
    return fresh_chats


def embed(server: Server, **body: Any) -> openai.types.CreateEmbeddingResponse:
    with client_of(server) as client:
        reply: openai.types.CreateEmbeddingResponse = client.embeddings.create(**{"model": "embedder", **body})
        return reply


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}], ids=["base64", "float"])
def test_texts_are_embedded_in_their_order(server: Server, llms: LlmServer, options: dict[str, Any]) -> None:
    reply = embed(server, input=TEXTS, **options)
    assert [(one.index, one.embedding) for one in reply.data] == list(enumerate(VECTORS))
    assert (reply.model, reply.usage.prompt_tokens, reply.usage.total_tokens) == ("embedder", 5, 5)
    assert [body["input"] for body in llms.bodies["embedder"]] == [TEXTS]
    (one,) = embed(server, input="easy", **options).data
    assert one.embedding == [1.0, 0.0]


def test_texts_are_embedded_with_asyncio(server: Server) -> None:
    async def embedded() -> list[list[float]]:
        options: Any = {"base_url": f"{server.url}/v1", "api_key": "none", "timeout": patient(30.0)}
        async with openai.AsyncOpenAI(**options) as client:
            reply = await client.embeddings.create(model="embedder", input=TEXTS)
            return [one.embedding for one in reply.data]

    assert asyncio.run(embedded()) == VECTORS


def test_many_texts_are_split_as_the_endpoint_takes_them(server: Server, llms: LlmServer) -> None:
    register(server, llms, embedder={"max_texts": 4, "prices": {"input_per_million": 2.0}})
    reply = embed(server, input=["easy"] * 10)
    assert sorted(len(body["input"]) for body in llms.bodies["embedder"]) == [2, 4, 4]
    assert len(reply.data) == 10
    assert reply.usage.prompt_tokens == 15
    assert (reply.model_extra or {})["parsimony"]["cost"] == pytest.approx(15 * 2e-6)


def test_tokens_and_further_fields_are_passed_on(server: Server, llms: LlmServer) -> None:
    embed(server, input=[[1, 2], [3]], dimensions=2, user="u")
    embed(server, input=[1, 2, 3])
    first, second = llms.bodies["embedder"]
    assert (first["input"], first["dimensions"], first["user"], first["model"]) == ([[1, 2], [3]], 2, "u", "embedder")
    assert second["input"] == [[1, 2, 3]]


def test_errors_are_openais(server: Server, llms: LlmServer) -> None:
    register(server, llms, embedder={"dimensions": 2})
    for changes, param in (
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": "a", "dimensions": 3}, "dimensions"),
        ({"input": ["a"] * 2049}, "input"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            embed(server, **changes)
        assert str(refused.value.param).startswith(param)
    with pytest.raises(openai.NotFoundError) as unknown:
        embed(server, model="nobody", input="a")
    assert unknown.value.code == "unknown-endpoint"
    assert llms.calls() == {}
    failures: list[tuple[dict[str, Any], type[openai.APIStatusError]]] = [
        ({"status": 400}, openai.BadRequestError),
        ({"status": 500}, openai.InternalServerError),
        ({"status": 429, "headers": {"Retry-After": "30"}}, openai.RateLimitError),
    ]
    for switches, kind in failures:
        llms.switch(embedder=switches)
        with pytest.raises(kind) as failed:
            embed(server, input="a")
        if kind is openai.BadRequestError:
            assert failed.value.code == "switched"
    assert 25 <= int(failed.value.response.headers["retry-after"]) <= 30


def test_logs_are_imported_with_embeddings_and_no_prompt_is_embedded_twice(
    server: Server,
    llms: LlmServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    register(server, llms, embedder={"max_texts": 100, "prices": {"input_per_million": 2.0}})
    log, trace = tmp_path / "calls.jsonl", tmp_path / "trace.parquet"
    calls = [
        {"model": ("cheap", "strong")[at % 2], "prompt": f"{('easy', 'hard')[at % 3 > 0]} {at}", "correct": at % 4 > 0}
        for at in range(700)
    ]
    log.write_text("".join(json.dumps({**call, "cost": 1.0}) + "\n" for call in calls))
    command = ("import-logs", str(log), "--embedder", "embedder", "-o", str(trace))
    llms.switch(embedder={"fails_after": 3})
    status, _, err = ran(monkeypatch, capsys, *command)
    assert (status, trace.with_suffix(".npy").exists()) == (1, False), err
    assert "refused by a switch" in err
    register(server, llms, embedder={"max_texts": 100, "prices": {"input_per_million": 2.0}})
    llms.switch()
    status, _, err = ran(monkeypatch, capsys, *command, "--name", "embedded")
    assert status == 0, err
    assert sum(len(body["input"]) for body in llms.bodies["embedder"]) == 700 - 3 * MAX_TEXTS_PER_EMBEDDING_CALL
    vectors = np.load(trace.with_suffix(".npy"))
    assert vectors.tolist() == [[1.0, 0.0] if "easy" in str(call["prompt"]) else [0.0, 1.0] for call in calls]
    assert server.client.get("/v1/datasets/embedded").json()["embedding_dimensions"] == 2
    llms.switch()
    assert ran(monkeypatch, capsys, *command)[0] == 0
    assert not llms.bodies["embedder"]
    assert ran(monkeypatch, capsys, "import-logs", str(log), "--embedder", "nosuch", "-o", str(trace))[0] == 1
