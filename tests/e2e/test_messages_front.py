"""The messages front: Anthropic's own client, with and without asyncio, streams, tools, images, and errors."""

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.e2e.chats import STREAMED, register
from tests.support.llm_server import LlmServer
from tests.support.patience import patient
from tests.support.servers import Server

EASY: Any = [{"role": "user", "content": "an easy prompt"}]
HARD: Any = [{"role": "user", "content": "a prompt"}]
TOOL: Any = {
    "name": "add",
    "description": "adds",
    "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    "cache_control": {"type": "ephemeral"},
}
TEXT = "answer of several words"
MODELS = pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])


@pytest.fixture
def server(fresh_chats: Server) -> Server:
    return fresh_chats


@pytest.fixture
def client(server: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(**options(server)) as client:
        yield client


def options(server: Server) -> dict[str, Any]:
    return {"base_url": server.url, "api_key": "none", "max_retries": 0, "timeout": patient(30.0)}


def ask(client: anthropic.Anthropic, *, streamed: bool = False, **body: Any) -> anthropic.types.Message:
    body = {"model": "cascade/chat", "max_tokens": 1000, "messages": EASY, **body}
    if not streamed:
        reply: anthropic.types.Message = client.messages.create(**body)
        return reply
    with client.messages.stream(**body) as stream:
        return stream.get_final_message()


@STREAMED
@MODELS
def test_a_message_is_answered(client: anthropic.Anthropic, llms: LlmServer, model: str, streamed: bool) -> None:
    llms.switch(cheap={"cached_tokens": 900}, strong={"cached_tokens": 900})
    message = ask(client, model=model, messages=HARD, streamed=streamed, system="be brief")
    (block,) = message.content
    assert isinstance(block, anthropic.types.TextBlock)
    assert (block.text, message.stop_reason, message.model, message.role) == (TEXT, "end_turn", model, "assistant")
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (100, 900, 4)
    body = llms.bodies["strong"][0]
    assert body["messages"] == [{"role": "system", "content": "be brief"}, *HARD]
    assert body["max_tokens"] == 1000


def test_a_message_is_answered_with_asyncio(server: Server) -> None:
    async def answers() -> list[Any]:
        asked: Any = {"model": "cascade/chat", "max_tokens": 100, "messages": EASY}
        async with anthropic.AsyncAnthropic(**options(server)) as client:
            whole = await client.messages.create(**asked)
            async with client.messages.stream(**asked) as stream:
                pieces = [text async for text in stream.text_stream]
            count = await client.messages.count_tokens(model="cascade/chat", messages=EASY)
            return [whole.content[0].text, "".join(pieces), count.input_tokens]

    assert asyncio.run(answers()) == [TEXT, TEXT, 8]


def test_the_run_and_what_an_endpoint_dropped_are_reported(
    client: anthropic.Anthropic, server: Server, llms: LlmServer
) -> None:
    register(server, llms, cheap={"drops": ["thinking"]})
    asked: Any = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    run: Any = (ask(client, **asked).model_extra or {})["parsimony"]
    assert [step["classifier"] for step in run["steps"]] == ["cheap"]
    assert [one["field"] for one in run["changed"]] == ["thinking"]
    routed = ask(client, extra_body={"parsimony": {"route_only": True}})
    assert (routed.content, routed.stop_reason) == ([], None)
    assert llms.calls() == {"cheap": 1}


def test_fields_are_translated_or_passed_on(client: anthropic.Anthropic, llms: LlmServer) -> None:
    schema = {"type": "object", "properties": {}}
    ask(
        client,
        stop_sequences=["END"],
        metadata={"user_id": "u" * 100},
        service_tier="standard_only",
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": schema}},
        tools=[TOOL],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 3, "novel": 1},
    )
    (body,) = llms.bodies["cheap"]
    function = {"name": "add", "description": "adds", "parameters": TOOL["input_schema"]}
    wanted: dict[str, Any] = {
        "stop": ["END"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "service_tier": "default",
        "reasoning_effort": "low",
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "novel": 1,
    }
    assert {name: body.get(name) for name in wanted} == wanted
    assert body["response_format"]["json_schema"]["schema"] == schema
    assert len(body["user"]) == 64
    assert not {"metadata", "output_config", "stop_sequences", "system"} & body.keys()


@STREAMED
@MODELS
def test_tools_are_called_and_their_results_are_sent_back(
    client: anthropic.Anthropic, llms: LlmServer, model: str, streamed: bool
) -> None:
    message = ask(client, model=model, tools=[TOOL], streamed=streamed)
    (call,) = message.content
    assert isinstance(call, anthropic.types.ToolUseBlock)
    assert (call.id, call.name, call.input, message.stop_reason) == ("call_1", "add", {"x": 1}, "tool_use")
    shown = [{"type": "text", "text": "2"}, {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": shown}
    turns = [*EASY, message.to_param(), {"role": "user", "content": [result, {"type": "text", "text": "so?"}]}]
    final = ask(client, model=model, messages=turns, tools=[TOOL], tool_choice={"type": "none"}, streamed=streamed)
    assert final.stop_reason == "end_turn"
    answering = "cheap" if model.startswith("cascade") else "strong"
    sent = llms.bodies[answering][-1]["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "user"]
    assert sent[1]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"x":1}'}}
    ]
    assert sent[2] == {"role": "tool", "tool_call_id": "call_1", "content": "2"}
    assert [part["type"] for part in sent[3]["content"]] == ["image_url", "text"]


def test_events_have_anthropics_order(client: anthropic.Anthropic, llms: LlmServer) -> None:
    function = [{"name": "add", "arguments": '{"x": 1}'}, {"name": "add", "arguments": '{"x": 2}'}]
    calls = [{"id": f"c{at}", "type": "function", "function": one} for at, one in enumerate(function)]
    message = {"content": "so it is", "reasoning_content": "let me think", "tool_calls": calls}
    llms.switch(strong={"message": message, "finish_reason": "tool_calls"})
    asked: Any = {"model": "portfolio/chat@budget=100%", "max_tokens": 100, "messages": HARD, "tools": [TOOL]}
    events = list(client.messages.create(**asked, stream=True))
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    begun = [event for event in events if event.type == "content_block_start"]
    assert sorted(event.content_block.type for event in begun) == ["text", "thinking", "tool_use", "tool_use"]
    assert [event.index for event in begun] == [0, 1, 2, 3]
    assert kinds.count("content_block_stop") == 4
    deltas = [event.delta.type for event in events if event.type == "content_block_delta"]
    assert {kind: deltas.count(kind) for kind in set(deltas)} == {
        "thinking_delta": 3,
        "text_delta": 3,
        "input_json_delta": 16,
    }
    final = ask(client, streamed=True, model="portfolio/chat@budget=100%", messages=HARD, tools=[TOOL])
    assert [block.input for block in final.content if block.type == "tool_use"] == [{"x": 1}, {"x": 2}]
    assert [block.type for block in final.content] == [block.content_block.type for block in begun]


@STREAMED
@pytest.mark.parametrize(
    ("switches", "reason"),
    [
        ({"finish_reason": "length"}, "max_tokens"),
        ({"finish_reason": "content_filter"}, "refusal"),
        ({"message": {"content": None, "refusal": "no"}}, "refusal"),
        ({"finish_reason": "odd"}, "end_turn"),
    ],
)
def test_stop_reasons_are_anthropics(
    client: anthropic.Anthropic, llms: LlmServer, switches: dict[str, Any], reason: str, streamed: bool
) -> None:
    llms.switch(cheap=switches, strong=switches)
    assert ask(client, streamed=streamed).stop_reason == reason


@STREAMED
@pytest.mark.parametrize(
    ("switches", "kind"),
    [
        ({"status": 400}, anthropic.BadRequestError),
        ({"status": 422}, anthropic.UnprocessableEntityError),
        ({"status": 429, "headers": {"Retry-After": "30"}}, anthropic.RateLimitError),
        ({"status": 500}, anthropic.InternalServerError),
    ],
)
def test_errors_have_anthropics_form(
    client: anthropic.Anthropic, llms: LlmServer, switches: dict[str, Any], kind: type[Exception], streamed: bool
) -> None:
    llms.switch(cheap=switches, strong=switches)
    with pytest.raises(kind) as refused:
        ask(client, streamed=streamed)
    body: Any = refused.value.body  # type: ignore[attr-defined]
    assert (body["type"], body["error"].keys() >= {"type", "message"}) == ("error", True)


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"model": "gpt-4o"}, "model"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "nobody", "content": "x"}]}, "messages.0"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"model": "cascade/chat@tools=nobody"}, "parsimony.tools"),
    ({"messages": [{"role": "user", "content": [{"type": "server_tool_use"}]}]}, "messages.0"),
]


@pytest.mark.parametrize(("changes", "param"), INVALID)
def test_invalid_fields_are_named(client: anthropic.Anthropic, llms: LlmServer, changes: Any, param: str) -> None:
    with pytest.raises(anthropic.BadRequestError) as refused:
        ask(client, **changes)
    body: Any = refused.value.body
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["param"].startswith(param)
    assert llms.calls() == {}


def test_an_interrupted_stream_ends_with_an_error_event(client: anthropic.Anthropic, llms: LlmServer) -> None:
    llms.switch(strong={"break_after": 3})
    with pytest.raises(anthropic.APIStatusError) as failed:
        ask(client, model="portfolio/chat@budget=100%", messages=HARD, streamed=True)
    body: Any = failed.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "api_error")


def test_tokens_are_estimated_and_the_reply_states_it(server: Server, client: anthropic.Anthropic) -> None:
    asked: Any = {"model": "cascade/chat", "messages": [{"role": "user", "content": "a" * 4000}]}
    few = client.messages.count_tokens(**asked)
    many = client.messages.count_tokens(**asked, tools=[TOOL], system="b" * 400)
    assert 1000 <= few.input_tokens < many.input_tokens < 1300
    about: Any = (few.model_extra or {})["parsimony"]
    assert about["is_estimate"] is True
    beta = client.beta.messages.count_tokens(**asked)
    assert beta.input_tokens == few.input_tokens
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="cascade/nobody", messages=EASY)


def test_the_beta_client_is_answered(client: anthropic.Anthropic) -> None:
    message = client.beta.messages.create(model="cascade/chat", max_tokens=100, messages=EASY, betas=["x-2026-01-01"])
    assert message.content[0].type == "text"
