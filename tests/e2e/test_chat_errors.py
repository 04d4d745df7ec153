"""Errors of language models' providers: whose fault they are, what falls back, and what the caller learns."""

import time
from typing import Any

import openai
import pytest

from tests.e2e.chats import EASY, HARD, STREAMED, ask, called, client_of, register
from tests.support.llm_server import LlmServer
from tests.support.servers import Server

MODELS = pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])
TOO_LONG = {"message": "too many tokens", "type": "odd", "param": "messages", "code": "context_length_exceeded"}


@pytest.fixture
def server(fresh_chats: Server) -> Server:
    return fresh_chats


def problems(server: Server) -> str:
    return " ".join(server.client.get("/health/ready").json()["problems"])


def chat(client: openai.OpenAI, model: str, *, streamed: bool = False, messages: Any = HARD, **more: Any) -> Any:
    reply: Any = client.chat.completions.create(model=model, messages=messages, stream=streamed, **more)
    return list(reply) if streamed else reply


@STREAMED
@MODELS
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_its_provider_rejects_is_answered_at_once_by_the_providers_error(
    server: Server, llms: LlmServer, model: str, status: int, streamed: bool
) -> None:
    refusal = {"status": status, "body": {"error": TOO_LONG}}
    llms.switch(cheap=refusal, strong=refusal)
    with client_of(server, max_retries=2) as client, pytest.raises(openai.APIStatusError) as refused:
        chat(client, model, streamed=streamed)
    error = refused.value
    assert (error.status_code, error.code, error.param, error.type) == (status, TOO_LONG["code"], "messages", "odd")
    assert error.body == TOO_LONG
    assert sum(count for name, count in llms.calls().items() if name != "embedder") == 1
    assert all(server.client.get(f"/v1/endpoints/{name}").json()["circuit"] == "closed" for name in ("cheap", "strong"))


@STREAMED
@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_endpoint_with_a_wrong_key_or_model_is_left_out_at_once_and_named(
    server: Server, llms: LlmServer, status: int, streamed: bool
) -> None:
    llms.switch(cheap={"status": status, "body": {"error": {"message": "no such key"}}})
    for _ in range(3):
        completion = ask(server, streamed=streamed)
        assert completion["choices"][0]["message"]["content"] == "answer of several words"
    assert llms.calls() == {"cheap": 1, "strong": 3}
    assert server.client.get("/v1/endpoints/cheap").json()["circuit"] == "open"
    assert f"'cheap' fails and is left out: answered {status}: no such key" in problems(server)
    assert 'parsimony_circuit_open{endpoint="cheap"} 1.0' in server.client.get("/metrics").text
    lines = [line for line in server.log.read_text().splitlines() if "endpoint=cheap" in line]
    assert f"answered {status}" in lines[-1]


def test_rejections_of_one_client_open_no_circuit(server: Server, llms: LlmServer) -> None:
    llms.switch(cheap={"status": 400})
    for _ in range(6):
        reply = server.client.post("/v1/chat/completions", json={"model": "cascade/chat", "messages": EASY})
        assert reply.status_code == 400
    assert (llms.calls(), server.client.get("/v1/endpoints/cheap").json()["circuit"]) == ({"cheap": 6}, "closed")


def test_a_parameter_that_no_caller_sent_is_the_endpoints_fault(server: Server, llms: LlmServer) -> None:
    llms.switch(cheap={"strict": True})
    assert called(ask(server)) == ["cheap", "strong"]
    assert "Unsupported parameter" in problems(server)
    register(server, llms, cheap={"drops": ["logprobs", "temperature"], "renames": {"max_tokens": "limit"}})
    assert called(ask(server, max_tokens=100)) == ["cheap", "strong"]  # as sure as nothing is without log-probabilities
    assert llms.bodies["cheap"][-1]["limit"] == 100
    assert server.client.get("/v1/endpoints/cheap").json()["circuit"] == "closed"


@STREAMED
@MODELS
def test_after_a_long_wait_is_requested_the_next_model_answers_at_once(
    server: Server, llms: LlmServer, model: str, streamed: bool
) -> None:
    messages, limited, other = (EASY, "cheap", "strong") if model.startswith("cascade") else (HARD, "strong", "cheap")
    llms.switch(**{limited: {"status": 429, "headers": {"Retry-After": "120"}}})
    started = time.monotonic()
    for _ in range(3):
        completion = ask(server, model=model, messages=messages, streamed=streamed)
        answered = [one["classifier"] for one in completion["parsimony"]["steps"] if one["accepted"]]
        assert answered == [other]
    assert time.monotonic() - started < 5
    assert {name: count for name, count in llms.calls().items() if name != "embedder"} == {limited: 1, other: 3}


@STREAMED
@MODELS
def test_if_all_models_are_at_their_limits_the_reply_has_the_shortest_wait(
    server: Server, llms: LlmServer, model: str, streamed: bool
) -> None:
    waits = {"cheap": "120", "strong": "30"}
    llms.switch(**{name: {"status": 429, "headers": {"Retry-After": wait}} for name, wait in waits.items()})
    with client_of(server) as client:
        for _ in range(2):
            with pytest.raises(openai.RateLimitError) as refused:
                chat(client, model, streamed=streamed)
            assert 25 <= int(refused.value.response.headers["retry-after"]) <= 30
    assert {name: count for name, count in llms.calls().items() if name != "embedder"} == {"cheap": 1, "strong": 1}
    llms.switch(cheap={"status": 500}, strong={"status": 429, "headers": {"Retry-After": "30"}})
    register(server, llms)
    with client_of(server) as client, pytest.raises(openai.InternalServerError) as failed:
        chat(client, model, streamed=streamed)
    assert failed.value.status_code == 502


def test_a_slow_stream_is_whole_and_one_that_stalls_is_not(server: Server, llms: LlmServer) -> None:
    asked: Any = {"streamed": True, "model": "portfolio/chat@budget=100%", "messages": HARD}
    slow = {"timeout_s": 0.5, "piece_timeout_s": 0.5}
    register(server, llms, strong=slow)
    llms.switch(strong={"piece_delay_s": 0.25})
    completion = ask(server, **asked)  # six pieces take 1.5 s
    assert completion["choices"][0]["message"]["content"] == "answer of several words"
    limits: list[tuple[dict[str, Any], dict[str, Any], float]] = [
        (slow, {}, 0.8),
        (slow | {"total_timeout_s": 0.6}, {}, 0.25),
        (slow, {"extra_body": {"parsimony": {"timeout_s": 0.6}}}, 0.25),
    ]
    for changes, more, delay_s in limits:
        register(server, llms, strong=changes)
        llms.switch(strong={"piece_delay_s": delay_s})
        with client_of(server) as client, pytest.raises(openai.APIError, match="interrupted"):
            chat(client, "portfolio/chat@budget=100%", streamed=True, **more)
    register(server, llms, strong=slow)
    llms.switch(strong={"delay_s": 0.8})
    assert called(ask(server, **asked))[-1] == "cheap"  # nothing had come, so another model may answer


def test_a_stream_that_ends_early_is_an_error(server: Server, llms: LlmServer) -> None:
    llms.switch(strong={"break_after": 3})
    with client_of(server) as client, pytest.raises(openai.APIError, match="interrupted"):
        chat(client, "portfolio/chat@budget=100%", streamed=True)


@STREAMED
def test_without_the_embedder_its_fallback_answers_and_the_reply_says_so(
    server: Server, llms: LlmServer, streamed: bool
) -> None:
    llms.switch(embedder={"status": 500})
    with client_of(server) as client, pytest.raises(openai.InternalServerError):
        chat(client, "portfolio/chat@budget=100%", streamed=streamed)
    register(server, llms, embedder={"fallback": "cheap"})
    completion = ask(server, model="portfolio/chat@budget=100%", messages=HARD, streamed=streamed)
    assert called(completion) == ["embedder", "cheap"]
    assert "embedder" in completion["parsimony"]["degraded"]
    assert completion["choices"][0]["message"]["content"] == "answer of several words"
    llms.switch()
    assert ask(server, model="portfolio/chat@budget=100%", streamed=streamed)["parsimony"]["degraded"] is None
