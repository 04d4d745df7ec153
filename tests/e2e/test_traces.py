"""Traces and metrics of OpenTelemetry at a real receiver: requests, runs with their reasons, and calls."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.chats import EASY, HARD, ask, register, running_chats
from tests.support.llm_server import LlmServer
from tests.support.otlp_receiver import OtlpReceiver, ReceivedSpan, running_receiver
from tests.support.servers import Server, wait_for

SERVER, CLIENT = 2, 3
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, llms: LlmServer, receiver: OtlpReceiver) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        patch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        with running_chats(tmp_path_factory.mktemp("chat")) as server:
            yield server


@pytest.fixture(autouse=True)
def _as_new(llms: LlmServer, server: Server, receiver: OtlpReceiver) -> None:
    llms.switch()
    register(server, llms)
    receiver.spans.clear()


def chat(server: Server, **body: Any) -> int:
    """Send a chat as part of a trace; return the status."""
    asked = {"model": "cascade/chat", "messages": HARD, **body}
    return server.client.post("/v1/chat/completions", json=asked, headers={"traceparent": TRACEPARENT}).status_code


def spans_of(receiver: OtlpReceiver) -> dict[str, ReceivedSpan]:
    """Return the spans of the trace by name, once the request's has come, which ends last."""
    wait_for(lambda: any(span.kind == SERVER and span.trace == TRACE for span in receiver.spans), 20, "no span came")
    return {span.name: span for span in receiver.spans if span.trace == TRACE}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_chat_is_a_trace_that_continues_its_callers(
    server: Server, llms: LlmServer, receiver: OtlpReceiver, streamed: bool
) -> None:
    assert chat(server, max_tokens=100, stream=streamed) == 200
    spans = spans_of(receiver)
    request, run = spans["POST /v1/chat/completions"], spans["run cascade/chat"]
    cheap, strong = spans["chat cheap"], spans["chat strong"]
    assert (request.parent, run.parent) == (PARENT, request.span)
    assert {cheap.parent, strong.parent} == {run.span}
    assert (request.kind, cheap.kind, request.is_error) == (SERVER, CLIENT, False)
    assert request.attributes["http.response.status_code"] == 200
    assert llms.headers["cheap"][0]["traceparent"] == f"00-{TRACE}-{cheap.span}-01"
    assert llms.headers["strong"][0]["traceparent"] == f"00-{TRACE}-{strong.span}-01"
    wanted = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "cheap",
        "gen_ai.request.max_tokens": 100,
        "gen_ai.response.model": "cheap",
        "gen_ai.response.id": "chatcmpl-x",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 4,
        "parsimony.endpoint": "cheap",
        "server.address": "127.0.0.1",
    }
    assert {name: cheap.attributes.get(name) for name in wanted} == wanted
    assert receiver.resources[-1]["service.name"] == "parsimony"
    assert receiver.resources[-1]["deployment.environment.name"] == "test"


def test_the_reasons_of_a_decision_are_attributes_and_no_text_is(server: Server, receiver: OtlpReceiver) -> None:
    prompt = [{"role": "user", "content": "a very secret prompt"}]
    assert chat(server, model="portfolio/chat@budget=100%", messages=prompt) == 200
    spans = spans_of(receiver)
    run = spans["run portfolio/chat"].attributes
    assert (run["parsimony.artifact.kind"], run["parsimony.artifact.name"]) == ("portfolio", "chat")
    assert run["parsimony.answered_by"] == run["parsimony.decision.classifier"] == "strong"
    assert run["parsimony.called"] == ["embedder", "strong"]
    assert run["parsimony.decision.id"]
    assert any("cheap" in f"{name}{value}" for name, value in run.items()), "why another one was not chosen"
    assert spans["embeddings embedder"].attributes["gen_ai.operation.name"] == "embeddings"
    assert not any("secret" in str(span) or "answer of several" in str(span) for span in receiver.spans)


def test_failures_have_their_kind(server: Server, llms: LlmServer, receiver: OtlpReceiver) -> None:
    llms.switch(**{name: {"status": 500} for name in ("cheap", "strong")})
    assert chat(server) == 502
    spans = spans_of(receiver)
    request, run, cheap = spans["POST /v1/chat/completions"], spans["run cascade/chat"], spans["chat cheap"]
    assert (request.is_error, run.is_error, cheap.is_error) == (True, True, True)
    kinds = [span.attributes["error.type"] for span in (request, run, cheap)]
    assert kinds == ["502", "EndpointFailed", "500"]


def test_metrics_follow_the_conventions(server: Server, receiver: OtlpReceiver) -> None:
    ask(server, messages=EASY)
    shared = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "cheap"}

    def points(name: str, **more: str) -> list[dict[str, Any]]:
        wanted = (shared | more).items()
        return [point for point in receiver.points.get(name, ()) if point.items() >= wanted]

    tokens = "gen_ai.client.token.usage"
    wait_for(lambda: points(tokens, **{"gen_ai.token.type": "output"}), 20, "no metric came")
    (output,) = points(tokens, **{"gen_ai.token.type": "output"})
    (given,) = points(tokens, **{"gen_ai.token.type": "input"})
    assert given["sum"] / output["sum"] == 250
    assert [point["sum"] > 0 for point in points("gen_ai.client.operation.duration")]
    routes = {point["http.route"] for point in receiver.points["http.server.request.duration"]}
    assert "/v1/chat/completions" in routes
