"""What the tests of the chat front share: a server with chats, and its clients."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from app.running.protocols.chat_stream import extend_fields
from tests.support.llm_server import LlmServer, chat_artifacts
from tests.support.patience import patient
from tests.support.servers import Server, running_server, wait_for

EASY: Any = [{"role": "user", "content": "an easy prompt"}]
HARD: Any = [{"role": "user", "content": "a prompt"}]
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@contextmanager
def running_chats(folder: Path, *, params: dict[str, Any] | None = None, **settings: Any) -> Iterator[Server]:
    """Run a server with a cascade and a portfolio, both called ``chat``, and a cascade ``tools``.

    Requests send the first of its keys. params: further parameters of the builds.
    """
    with running_server(folder, endpoint_hosts="127.0.0.1", secret_test="sk-very-secret", **settings) as server:
        if "api_keys" in settings:
            server.client.headers["authorization"] = f"Bearer {str(settings['api_keys']).partition(':')[0]}"
        for data in chat_artifacts(**params or {}):
            headers = {"content-type": "application/octet-stream"}
            reply = server.client.post("/v1/artifacts/import", content=data, headers=headers)
            assert reply.status_code == 201, reply.text
        wait_for(lambda: len(server.client.get("/v1/models").json()["data"]) == 3, 20, "they are not loaded")
        yield server


def register(server: Server, llms: LlmServer, **changes: dict[str, Any]) -> None:
    endpoints = {name: llms.endpoint(name, **changes.get(name, {})) for name in ("cheap", "strong")}
    endpoints["embedder"] = llms.embedder(**changes.get("embedder", {}))
    for name, endpoint in endpoints.items():
        server.client.delete(f"/v1/endpoints/{name}")
        reply = server.client.put(f"/v1/endpoints/{name}", json=endpoint)
        assert reply.status_code == 201, reply.text


def client_of(server: Server, **options: Any) -> openai.OpenAI:
    defaults = {"api_key": "none", "max_retries": 0, "timeout": patient(30.0)}
    return openai.OpenAI(base_url=f"{server.url}/v1", **defaults | options)


def ask(server: Server, *, streamed: bool = False, **body: Any) -> dict[str, Any]:
    """Send a chat and return its completion; a streamed one is put together from its chunks."""
    body = {"model": "cascade/chat", "messages": EASY, **body}
    if not streamed:
        reply = server.client.post("/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        completion: dict[str, Any] = reply.json()
        return completion
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    with server.client.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert reply.status_code == 200, reply.read()
        chunks = [json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: {")]
    return assembled(chunks)


def assembled(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    completion: dict[str, Any] = {"choices": []}
    for chunk in chunks:
        for choice in chunk.pop("choices"):
            while len(completion["choices"]) <= choice["index"]:
                completion["choices"].append({"message": {}})
            own = completion["choices"][choice["index"]]
            extend_fields(own["message"], choice.pop("delta"))
            extend_fields(own, {name: value for name, value in choice.items() if name != "index"})
        completion |= {name: value for name, value in chunk.items() if value is not None}
    return completion


def called(completion: dict[str, Any]) -> list[str]:
    return [step["classifier"] for step in completion["parsimony"]["steps"]]
