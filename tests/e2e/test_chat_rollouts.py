"""Rollouts of artifacts that answer chats: conversations stay with a version, and costs come from the calls."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.chats import register, running_chats
from tests.support.llm_server import LlmServer, chat_artifacts
from tests.support.servers import Server, wait_for

MODELS = ["cascade/chat", "portfolio/chat"]


@pytest.fixture(scope="module")
def server(llms: LlmServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_chats(tmp_path_factory.mktemp("chats")) as server:
        for data in chat_artifacts():  # the second version of each
            headers = {"content-type": "application/octet-stream"}
            server.client.post("/v1/artifacts/import", content=data, headers=headers).raise_for_status()
        llms.switch()
        prices = {name: {"prices": {"per_call": cost}} for name, cost in (("cheap", 0.001), ("strong", 0.03))}
        register(server, llms, **prices)
        yield server


def begin(server: Server, model: str, **rules: Any) -> None:
    path = f"/v1/artifacts/{model}"
    server.client.put(f"{path}/active", json={"version": 1}).raise_for_status()
    server.client.delete(f"{path}/rollout")
    wait_for(lambda: chat(server, model, "an easy prompt") == 1, 5)
    server.client.put(f"{path}/rollout", json={"version": 2, "share": 0.5, **rules}).raise_for_status()


def chat(server: Server, model: str, first: str, *more: str, **fields: Any) -> int:
    """Send a chat, and return the version that answered."""
    turns = [{"role": "user", "content": first}]
    for text in more:
        turns += [{"role": "assistant", "content": "fine"}, {"role": "user", "content": text}]
    reply = server.client.post(
        "/v1/chat/completions", json={"model": f"{model}@budget=60%", "messages": turns, **fields}
    )
    assert reply.status_code == 200, reply.text
    return int(reply.headers["x-parsimony-artifact"].rpartition("/")[2])


@pytest.mark.parametrize("model", MODELS)
def test_all_turns_of_a_conversation_have_one_version(server: Server, model: str) -> None:
    begin(server, model)
    first = [chat(server, model, f"an easy prompt {k}") for k in range(20)]
    assert set(first) == {1, 2}
    assert [chat(server, model, f"an easy prompt {k}", "and then?", "why?") for k in range(20)] == first
    sessions = [chat(server, model, "an easy prompt", metadata={"session_id": str(k)}) for k in range(20)]
    assert set(sessions) == {1, 2}
    assert [chat(server, model, "easy again", metadata={"session_id": str(k)}) for k in range(20)] == sessions
    assert chat(server, model, "an easy prompt", stream=True) in (1, 2)


@pytest.mark.parametrize("model", MODELS)
def test_costs_of_runs_are_compared(server: Server, model: str) -> None:
    begin(server, model, promote={"min_saving": 0.1})
    versions = [chat(server, model, f"an easy prompt {k}") for k in range(30)]
    path = f"/v1/artifacts/{model}/rollout"

    def counts() -> list[int]:
        cost = server.client.get(path).json()["cost"]
        return [cost[arm]["outcomes"] for arm in ("active", "candidate")]

    wait_for(lambda: counts() == [versions.count(1), versions.count(2)], 5, counts)
    rollout = server.client.get(path).json()
    assert (rollout["cost_source"], rollout["unit"]) == ("runs", "USD")
    assert rollout["cost"]["difference"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_shadow_decides_chats_too(server: Server, model: str) -> None:
    begin(server, model, mode="shadow", share=0.9)
    assert {chat(server, model, f"an easy prompt {k}") for k in range(30)} == {1}
    path = f"/v1/artifacts/{model}/rollout"
    wait_for(lambda: server.client.get(path).json()["shadow"]["decisions"] > 10, 5)
    assert server.client.get(path).json()["shadow"]["errors"] == 0


def test_runs_without_an_answer_count_as_wrong(server: Server, llms: LlmServer) -> None:
    begin(server, "cascade/chat")
    llms.switch(cheap={"status": 500}, strong={"status": 500})
    body = {"model": "cascade/chat@budget=60%", "messages": [{"role": "user", "content": "an easy prompt"}]}
    for k in range(10):
        body["messages"] = [{"role": "user", "content": f"an easy prompt {k}"}]
        assert server.client.post("/v1/chat/completions", json=body).status_code in (502, 503)
    llms.switch()
    register(server, llms)

    def counts() -> list[int]:
        accuracy = server.client.get("/v1/artifacts/cascade/chat/rollout").json()["accuracy"]
        return [accuracy[arm]["outcomes"] for arm in ("active", "candidate")]

    wait_for(lambda: sum(counts()) == 10, 5, counts)
    accuracy = server.client.get("/v1/artifacts/cascade/chat/rollout").json()["accuracy"]
    assert {accuracy[arm]["mean"] for arm in ("active", "candidate")} <= {0.0, None}


def test_a_shadow_with_another_window_of_conversations_is_refused(server: Server) -> None:
    """It would decide by an embedding that it was not built for."""
    path, headers = "/v1/artifacts/portfolio/chat", {"content-type": "application/octet-stream"}
    server.client.delete(f"{path}/rollout")
    for data in chat_artifacts(conversation={"window_tokens": 50}):
        made = server.client.post("/v1/artifacts/import", content=data, headers=headers).json()
        if made["kind"] == "portfolio":
            version = made["version"]
    server.client.put(f"{path}/active", json={"version": 1}).raise_for_status()
    rules = {"version": version, "share": 0.5}
    reply = server.client.put(f"{path}/rollout", json={**rules, "mode": "shadow"})
    assert (reply.status_code, reply.json()["errors"][0]["loc"][-1]) == (422, "mode")
    assert server.client.put(f"{path}/rollout", json={**rules, "mode": "canary"}).is_success
