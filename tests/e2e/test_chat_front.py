"""The chat front loses nothing: requests and replies pass whole, streamed or not, with OpenAI's own client."""

from typing import Any

import openai
import pytest

from tests.e2e.chats import EASY, HARD, STREAMED, ask, called, client_of, register
from tests.support.llm_server import LlmServer
from tests.support.servers import Server

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
}


@pytest.fixture
def server(fresh_chats: Server) -> Server:
    return fresh_chats


@STREAMED
@pytest.mark.parametrize(
    "empty",
    ["stream", "tools", "functions", "parallel_tool_calls", "user", "n", "parsimony", "stream_options", "novel"],
)
def test_a_null_field_is_absent(server: Server, llms: LlmServer, empty: str, streamed: bool) -> None:
    completion = ask(server, streamed=streamed and not empty.startswith("stream"), **{empty: None})
    assert completion["choices"][0]["message"]["content"] == "answer of several words"
    assert empty not in llms.bodies["cheap"][0] or (empty.startswith("stream") and streamed)
    assert ask(server, tools=[], metadata={})["choices"][0]["finish_reason"] == "stop"
    assert not {"tools", "metadata"} & llms.bodies["cheap"][1].keys()


FIELDS: dict[str, Any] = {
    "verbosity": "low",
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "metadata": {"a": "b"},
    "store": False,
    "service_tier": "auto",
    "modalities": ["text"],
    "reasoning_effort": "low",
    "frequency_penalty": 0.5,
    "logit_bias": {"1": 2},
    "prediction": {"type": "content", "content": "x"},
    "web_search_options": {"search_context_size": "low"},
}
EXTRA = {"top_k": 3, "chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize("messages", [EASY, HARD], ids=["cheap", "strong"])
def test_every_field_is_passed_on_unless_an_endpoint_drops_it(server: Server, llms: LlmServer, messages: Any) -> None:
    register(server, llms, strong={"drops": ["store", "top_k"], "renames": {"verbosity": "style"}})
    with client_of(server) as client:
        asked: Any = {"model": "cascade/chat", "messages": messages, **FIELDS}
        client.chat.completions.create(**asked, extra_body=EXTRA)
        list(client.chat.completions.create(**asked, extra_body=EXTRA, stream=True))
    for body in llms.bodies["cheap"]:
        assert {name: body.get(name) for name in FIELDS | EXTRA} == FIELDS | EXTRA
        assert "temperature" not in body
    assert len(llms.bodies["strong"]) == (2 if messages is HARD else 0)
    for body in llms.bodies["strong"]:
        assert not {"store", "top_k", "verbosity"} & body.keys()
        assert (body["style"], body["metadata"]) == ("low", FIELDS["metadata"])


@STREAMED
def test_what_an_endpoint_drops_or_limits_is_reported(server: Server, llms: LlmServer, streamed: bool) -> None:
    register(server, llms, cheap={"drops": ["store"], "max_tokens": 256})
    asked = {"store": True, "max_tokens": 4000}
    changed = ask(server, streamed=streamed, **asked)["parsimony"]["changed"]
    assert {(one["endpoint"], one["field"], one["requested"], one["sent"]) for one in changed} == {
        ("cheap", "store", True, None),
        ("cheap", "max_tokens", 4000, 256),
    }
    assert llms.bodies["cheap"][0]["max_tokens"] == 256
    assert ask(server, streamed=streamed, max_tokens=200)["parsimony"]["changed"] == []
    register(server, llms)
    assert ask(server, streamed=streamed, max_completion_tokens=4000)["parsimony"]["changed"] == []
    ask(server, streamed=streamed)
    assert "max_tokens" not in llms.bodies["cheap"][-1]
    assert llms.bodies["cheap"][-2]["max_completion_tokens"] == 4000


@STREAMED
@pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])
def test_a_truncated_answer_is_escalated_or_has_its_finish_reason(
    server: Server, llms: LlmServer, model: str, streamed: bool
) -> None:
    llms.switch(cheap={"finish_reason": "length"})
    escalated = ask(server, streamed=streamed, model="cascade/chat")
    assert (called(escalated), escalated["choices"][0]["finish_reason"]) == (["cheap", "strong"], "stop")
    llms.switch(cheap={"finish_reason": "length"}, strong={"finish_reason": "length"})
    last = ask(server, streamed=streamed, model=model)
    assert last["choices"][0]["finish_reason"] == "length"
    assert last["choices"][0]["message"]["content"] == "answer of several words"


@STREAMED
def test_a_reply_keeps_every_field(server: Server, llms: LlmServer, streamed: bool) -> None:
    more = {"reasoning_content": "let me think", "annotations": [{"type": "url_citation"}]}
    llms.switch(cheap={"message": {} if streamed else more, "cached_tokens": 900, "finish_reason": "odd"})
    completion = ask(server, streamed=streamed)
    assert completion["choices"][0]["finish_reason"] == "odd"
    assert completion["system_fingerprint"] == "fp_1"
    usage = completion["usage"]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) == (1000, 900)
    llms.switch(cheap={"message": more})
    reply = ask(server, model="cascade/chat")["choices"][0]["message"]
    assert (reply["reasoning_content"], reply["annotations"]) == (more["reasoning_content"], more["annotations"])


def content_pieces(server: Server, messages: Any) -> list[str]:
    with client_of(server) as client:
        chunks = list(client.chat.completions.create(model="cascade/chat", messages=messages, stream=True))
    return [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]


def test_an_answer_that_may_be_escalated_is_held_and_then_sent_in_its_pieces(server: Server, llms: LlmServer) -> None:
    words = ["answer", " of", " several", " words"]
    assert content_pieces(server, EASY) == words
    assert [body["stream"] for body in llms.bodies["cheap"]] == [True]
    llms.switch(cheap={"message": {"content": "wrong"}})
    assert content_pieces(server, HARD) == words, "nothing of the escalated answer is sent"
    llms.switch(cheap={"break_after": 3})
    assert content_pieces(server, EASY) == words
    assert llms.calls() == {"cheap": 1, "strong": 1}


def test_a_long_answer_that_may_be_escalated_has_the_time_limits_of_streams(server: Server, llms: LlmServer) -> None:
    register(server, llms, cheap={"timeout_s": 0.8, "piece_timeout_s": 0.8})
    llms.switch(cheap={"piece_delay_s": 0.3})
    assert content_pieces(server, EASY) == ["answer", " of", " several", " words"]
    assert llms.calls() == {"cheap": 1}


def test_reasoning_is_streamed_in_pieces_as_it_comes(server: Server, llms: LlmServer) -> None:
    llms.switch(strong={"message": {"reasoning_content": "let me think"}})
    with client_of(server) as client:
        chunks = list(client.chat.completions.create(model="portfolio/chat@budget=100%", messages=HARD, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    pieces = [delta.model_extra["reasoning_content"] for delta in deltas if "reasoning_content" in delta.model_extra]
    assert pieces == ["let", " me", " think"]


@STREAMED
def test_cached_tokens_have_their_own_price(server: Server, llms: LlmServer, streamed: bool) -> None:
    prices = {"input_per_million": 2.0, "cached_input_per_million": 1.0, "output_per_million": 10.0}
    register(server, llms, cheap={"prices": prices})
    llms.switch(cheap={"cached_tokens": 900})
    (step,) = ask(server, streamed=streamed)["parsimony"]["steps"]
    assert step["cost"] == pytest.approx((100 * 2.0 + 900 * 1.0 + 4 * 10.0) / 1e6)
    assert step["tokens"] == [1000, 4]


@pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])
def test_tool_calls_come_back_whole_and_streamed_in_pieces(server: Server, llms: LlmServer, model: str) -> None:
    asked: Any = {"model": model, "messages": EASY, "tools": [TOOL], "tool_choice": "auto"}
    with client_of(server) as client:
        whole = client.chat.completions.create(**asked)
        chunks = list(client.chat.completions.create(**asked, stream=True))
        assert whole.choices[0].message.tool_calls is not None
        (call,) = whole.choices[0].message.tool_calls
        assert (call.function.name, call.function.arguments) == ("add", '{"x": 1}')
        assert (whole.choices[0].finish_reason, whole.choices[0].message.content) == ("tool_calls", None)
        pieces = [one for chunk in chunks for c in chunk.choices for one in c.delta.tool_calls or ()]
        assert "".join(one.function.arguments or "" for one in pieces) == '{"x": 1}'
        assert (pieces[0].id, pieces[0].function.name) == ("call_1", "add")
        assert [c.finish_reason for chunk in chunks for c in chunk.choices][-1] == "tool_calls"
        turn = whole.choices[0].message.model_dump()
        result = {"role": "tool", "tool_call_id": call.id, "content": "2"}
        asked["messages"] = [*EASY, turn, result]
        final = client.chat.completions.create(**asked | {"tool_choice": "none"})
    assert final.choices[0].message.content == "answer of several words"
    bodies = [body for name in ("cheap", "strong") for body in llms.bodies[name]]
    (body,) = [body for body in bodies if len(body["messages"]) == 3][-1:]
    assert body["messages"][1]["tool_calls"][0]["id"] == "call_1"
    assert body["messages"][2] == result
    assert body["tools"] == [TOOL]


INVALID = [
    {"name": "add", "arguments": '{"x": "one"}'},
    {"name": "add", "arguments": "{}"},
    {"name": "add", "arguments": '{"x": 1'},
    {"name": "unknown", "arguments": '{"x": 1}'},
]


@STREAMED
@pytest.mark.parametrize("function", INVALID)
def test_an_invalid_tool_call_is_escalated(
    server: Server, llms: LlmServer, function: dict[str, str], streamed: bool
) -> None:
    calls = {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
    llms.switch(cheap={"message": calls})
    completion = ask(server, streamed=streamed, tools=[TOOL])
    assert called(completion) == ["cheap", "strong"]
    assert completion["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"x": 1}'
    assert called(ask(server, streamed=streamed, tools=[TOOL], messages=HARD)) == ["cheap", "strong"]
    llms.switch()
    assert called(ask(server, streamed=streamed, tools=[TOOL])) == ["cheap"]
    assert called(ask(server, streamed=streamed, tools=[TOOL], messages=HARD)) == ["cheap", "strong"]


@STREAMED
@pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat"])
def test_who_answers_a_turn_with_tools_can_be_chosen(server: Server, model: str, streamed: bool) -> None:
    asked: dict[str, Any] = {"streamed": streamed, "tools": [TOOL], "messages": HARD}
    assert called(ask(server, model=model, parsimony={"tools": "strongest"}, **asked)) == ["strong"]
    assert called(ask(server, model=model, parsimony={"tools": "cheap"}, **asked)) == ["cheap"]
    assert called(ask(server, model=f"{model}@tools=strongest", **asked)) == ["strong"]
    plain = ask(server, model="cascade/chat@tools=strongest", streamed=streamed)
    assert called(plain) == ["cheap"]
    with client_of(server) as client, pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=f"{model}@tools=nobody", messages=EASY)
    assert refused.value.param == "parsimony.tools"


@STREAMED
def test_an_artifact_has_a_rule_for_tools_that_a_request_overrides(server: Server, streamed: bool) -> None:
    asked: dict[str, Any] = {"streamed": streamed, "tools": [TOOL], "messages": EASY}
    assert called(ask(server, model="cascade/tools", **asked)) == ["strong"]
    assert called(ask(server, model="cascade/tools@tools=decide", **asked)) == ["cheap"]
    assert called(ask(server, model="cascade/tools", parsimony={"tools": "cheap"}, **asked)) == ["cheap"]
    assert called(ask(server, model="cascade/tools", streamed=streamed)) == ["cheap"]


@STREAMED
def test_several_answers_and_log_probabilities_are_those_of_the_last_call(
    server: Server, llms: LlmServer, streamed: bool
) -> None:
    asked: dict[str, Any] = {"n": 2, "logprobs": True, "top_logprobs": 1, "streamed": streamed}
    completion = ask(server, model="portfolio/chat@budget=100%", messages=HARD, **asked)
    assert [one["message"]["content"] for one in completion["choices"]] == ["answer of several words"] * 2
    assert llms.bodies["strong"][0]["top_logprobs"] == 1
    if not streamed:
        assert completion["choices"][1]["logprobs"]["content"][0]["token"] == "answer"
    reply = server.client.post("/v1/chat/completions", json={"model": "cascade/chat", "messages": EASY, "n": 2})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "n")
    assert "cheap" not in llms.calls()
    judged = ask(server, logprobs=True, streamed=streamed)["choices"][0]
    assert len(judged["logprobs"]["content"]) == 4
    assert ask(server, streamed=streamed)["choices"][0].get("logprobs") is None


@STREAMED
@pytest.mark.parametrize(
    "refusal", [{"message": {"content": None, "refusal": "no"}}, {"finish_reason": "content_filter"}]
)
def test_a_refusal_is_an_answer_that_may_be_escalated(
    server: Server, llms: LlmServer, refusal: dict[str, Any], streamed: bool
) -> None:
    llms.switch(cheap=refusal)
    completion = ask(server, streamed=streamed, messages=HARD)
    assert called(completion) == ["cheap"]
    choice = completion["choices"][0]
    assert choice["message"].get("refusal") == "no" or choice["finish_reason"] == "content_filter"
    escalated = ask(server, streamed=streamed, messages=HARD, parsimony={"escalate_refusals": True})
    assert called(escalated) == ["cheap", "strong"]


def test_a_model_is_found_by_its_id_also_percent_encoded(server: Server) -> None:
    with client_of(server) as client:
        listed = {one.id: one for one in client.models.list()}
        for name in ("cascade/chat", "portfolio/chat"):
            assert client.models.retrieve(name) == listed[name]
            assert server.client.get(f"/v1/models/{name.replace('/', '%2F')}").json()["id"] == name
        assert client.models.retrieve("portfolio/chat@budget=30%").id == "portfolio/chat"
        for name in ("cascade/nobody", "gpt-4o"):
            with pytest.raises(openai.NotFoundError):
                client.models.retrieve(name)


SURROGATES = [
    (b'{"model": "cascade/chat", "messages": [{"role": "user", "content": "a\\ud800"}]}', "messages.0.content"),
    (b'{"model": "cascade/chat", "messages": [{"role": "user", "content": "a\\udc00b"}]}', "messages.0.content"),
    (b'{"model": "cascade/chat", "messages": [{"role": "user", "content": "a"}], "stop": ["\\ud83d"]}', "stop.0"),
    (b'{"model": "cascade/chat", "messages": [{"role": "user", "content": "a", "\\ud83d": 1}]}', "messages.0"),
    (b'{"model": "cascade/chat", "messages": [{"role": "user", "content": "a\xed\xa0\x80"}]}', "messages.0.content"),
]


@pytest.mark.parametrize(("body", "param"), SURROGATES)
@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"], ids=["fast", "usual"])
def test_a_lone_surrogate_is_refused_with_its_field(
    server: Server, llms: LlmServer, body: bytes, param: str, kind: str
) -> None:
    reply = server.client.post("/v1/chat/completions", content=body, headers={"content-type": kind})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert llms.calls() == {}


@STREAMED
@pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])
def test_an_image_is_passed_on_and_not_embedded(server: Server, llms: LlmServer, model: str, streamed: bool) -> None:
    url = f"data:image/png;base64,{'a' * 1_500_000}"
    parts = [{"type": "text", "text": "easy"}, {"type": "image_url", "image_url": {"url": url}}]
    completion = ask(server, model=model, messages=[{"role": "user", "content": parts}], streamed=streamed)
    answering = called(completion)[-1]
    assert llms.bodies[answering][0]["messages"][0]["content"] == parts
    assert [body["input"] for body in llms.bodies["embedder"]] == (["easy"] if "portfolio" in model else [])
    longer = {"model": model, "messages": [{"role": "user", "content": "a" * (20 * 2**20)}]}
    refused = server.client.post("/v1/chat/completions", json=longer)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "payload-too-large")
    assert "PARSIMONY_MAX_CHAT_BYTES" in refused.json()["error"]["message"]


REASONING = {"preset": "openai-reasoning"}


@STREAMED
@pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])
def test_a_reasoning_model_is_usable_by_its_preset(server: Server, llms: LlmServer, model: str, streamed: bool) -> None:
    register(server, llms, cheap=REASONING, strong=REASONING)
    llms.switch(cheap={"strict": True}, strong={"strict": True})
    completion = ask(server, model=model, messages=HARD, streamed=streamed, max_tokens=100, temperature=0.5)
    assert completion["choices"][0]["message"]["content"] == "answer of several words"
    assert {one["field"] for one in completion["parsimony"]["changed"]} == {"temperature"}
    body = llms.bodies["strong"][-1]
    assert (body["max_completion_tokens"], "max_tokens" in body, "temperature" in body) == (100, False, False)
    run = server.client.post("/v1/cascades/chat/runs", json={"item": "easy"})
    assert (run.status_code, run.json()["label"]) == (200, "answer of several words")


@pytest.mark.parametrize("ending", ["", "/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions?api-version=1"])
def test_the_url_of_a_language_model_may_be_given_in_several_ways(server: Server, llms: LlmServer, ending: str) -> None:
    url = llms.url.removesuffix("/v1")
    register(server, llms, cheap={"url": f"{url}{ending}"}, embedder={"url": url})
    assert called(ask(server)) == ["cheap"]
    query = "?api-version=1" if "?" in ending else ""
    assert server.client.get("/v1/endpoints/cheap").json()["endpoint"]["url"] == f"{url}/v1{query}"
    assert called(ask(server, model="portfolio/chat@budget=100%"))[0] == "embedder"


def test_the_probe_quotes_the_providers_message(server: Server, llms: LlmServer) -> None:
    llms.switch(cheap={"status": 404, "body": {"error": {"message": "no deployment"}}})
    reply = server.client.post("/v1/endpoints/cheap/probe", json={"item": "easy"}).json()
    assert reply["error"] == "answered 404: no deployment"


@pytest.mark.parametrize(
    ("factor", "is_odd"), [(1.0, False), (3.0, False), (1e-3, True), (1e-6, True), (1e3, True), (1e6, True)]
)
def test_prices_in_another_unit_are_noticed(server: Server, llms: LlmServer, factor: float, is_odd: bool) -> None:
    """A call costs 0.001 on average in the dataset."""
    prices = {"input_per_million": 1.0 * factor, "output_per_million": 2.5 * factor}
    put = server.client.put("/v1/endpoints/cheap", json=llms.endpoint("cheap", prices=prices)).json()
    probe = server.client.post("/v1/endpoints/cheap/probe", json={"item": "easy"}).json()
    assert [bool(reply["warnings"]) for reply in (put, probe)] == [is_odd, is_odd]
    assert len(put["warnings"]) == (3 if is_odd else 0)
