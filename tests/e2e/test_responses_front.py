"""The responses front: OpenAI's own client, with and without asyncio, streams, functions, and errors."""

import asyncio
from typing import Any

import openai
import pytest

from tests.e2e.chats import STREAMED, client_of
from tests.support.llm_server import LlmServer
from tests.support.patience import patient
from tests.support.servers import Server

EASY, HARD = "an easy prompt", "a prompt"
TOOL: Any = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    "strict": False,
}
TEXT = "answer of several words"
MODELS = pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])


@pytest.fixture
def server(fresh_chats: Server) -> Server:
    return fresh_chats


def respond(server: Server, *, streamed: bool = False, **body: Any) -> Any:
    """Return the response; of a stream its last event's."""
    body = {"model": "cascade/chat", "input": EASY, **body}
    with client_of(server) as client:
        if not streamed:
            return client.responses.create(**body)
        events = list(client.responses.create(**body, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type in ("response.completed", "response.incomplete")
    return events[-1].response


@STREAMED
@MODELS
def test_a_text_is_answered(server: Server, llms: LlmServer, model: str, streamed: bool) -> None:
    llms.switch(cheap={"cached_tokens": 900}, strong={"cached_tokens": 900})
    response = respond(server, model=model, input=HARD, instructions="be brief", streamed=streamed)
    assert (response.output_text, response.status, response.model) == (TEXT, "completed", model)
    usage = response.usage
    assert (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens) == (1000, 900, 4)
    assert (response.store, response.previous_response_id, response.instructions) == (False, None, "be brief")
    body = llms.bodies["strong"][0]
    assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": HARD}]


def test_a_text_is_answered_with_asyncio_and_by_the_streaming_helper(server: Server) -> None:
    async def answers() -> list[str]:
        options: Any = {"base_url": f"{server.url}/v1", "api_key": "none", "timeout": patient(30.0)}
        asked: Any = {"model": "cascade/chat", "input": EASY}
        async with openai.AsyncOpenAI(**options) as client:
            whole = await client.responses.create(**asked)
            async with client.responses.stream(**asked) as stream:
                pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
                final = await stream.get_final_response()
            return [whole.output_text, "".join(pieces), final.output_text]

    assert asyncio.run(answers()) == [TEXT] * 3


def test_fields_are_translated_or_passed_on(server: Server, llms: LlmServer) -> None:
    schema = {"type": "object", "properties": {}}
    response = respond(
        server,
        max_output_tokens=50,
        temperature=0.5,
        metadata={"a": "b"},
        parallel_tool_calls=False,
        reasoning={"effort": "low"},
        text={"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}},
        tools=[TOOL],
        tool_choice={"type": "function", "name": "add"},
        store=False,
        include=["reasoning.encrypted_content"],
        extra_body={"novel": 1},
    )
    (body,) = llms.bodies["cheap"]
    function = {"name": "add", "parameters": TOOL["parameters"], "strict": False}
    wanted: dict[str, Any] = {
        "max_completion_tokens": 50,
        "temperature": 0.5,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "verbosity": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "novel": 1,
    }
    assert {name: body.get(name) for name in wanted} == wanted
    assert not {"store", "include", "input", "reasoning", "text"} & body.keys()
    assert (response.metadata, response.tools[0].name, response.reasoning.effort) == ({"a": "b"}, "add", "low")


@STREAMED
@MODELS
def test_functions_are_called_and_their_results_are_sent_back(
    server: Server, llms: LlmServer, model: str, streamed: bool
) -> None:
    response = respond(server, model=model, tools=[TOOL], tool_choice="auto", streamed=streamed)
    (call,) = response.output
    assert (call.type, call.call_id, call.name, call.arguments) == ("function_call", "call_1", "add", '{"x": 1}')
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "2"}
    items: Any = [{"role": "user", "content": EASY}, *response.output, result]
    final = respond(server, model=model, input=items, tools=[TOOL], tool_choice="none", streamed=streamed)
    assert final.output_text == TEXT
    bodies = [body for name in ("cheap", "strong") for body in llms.bodies[name]]
    (sent,) = (body["messages"] for body in bodies if body["tool_choice"] == "none")
    assert [one["role"] for one in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"x": 1}'}
    assert sent[2] == {"role": "tool", "tool_call_id": "call_1", "content": "2"}


@STREAMED
@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_incomplete_answer_states_its_reason(
    server: Server, llms: LlmServer, finish: str, reason: str, streamed: bool
) -> None:
    llms.switch(cheap={"finish_reason": finish}, strong={"finish_reason": finish})
    response = respond(server, streamed=streamed)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", reason)


@STREAMED
def test_reasoning_is_an_item_and_is_not_sent_on(server: Server, llms: LlmServer, streamed: bool) -> None:
    llms.switch(strong={"message": {"reasoning_content": "let me think"}})
    response = respond(server, model="portfolio/chat@budget=100%", input=HARD, streamed=streamed)
    kinds = {item.type: item for item in response.output}
    assert kinds["reasoning"].content[0].text == "let me think"
    assert kinds["message"].content[0].text == TEXT
    respond(server, input=[*response.output, {"role": "user", "content": EASY}])
    sent = llms.bodies["cheap"][0]["messages"]
    assert sent == [{"role": "assistant", "content": TEXT}, {"role": "user", "content": EASY}]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"store": True}, "store"),
    ({"background": True}, "background"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"include": ["message.output_text.logprobs"]}, "include"),
    ({"truncation": "auto"}, "truncation"),
    ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input"),
    ({"model": "gpt-4o"}, "model"),
    ({"input": []}, "input"),
    ({"extra_body": {"n": 2}}, "n"),
]


@pytest.mark.parametrize(("changes", "param"), REFUSED)
def test_what_needs_state_or_is_invalid_is_refused_with_its_field(
    server: Server, llms: LlmServer, changes: Any, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        respond(server, **changes)
    assert str(refused.value.param).startswith(param)
    assert llms.calls() == {}


@STREAMED
def test_errors_of_providers_are_passed_on(server: Server, llms: LlmServer, streamed: bool) -> None:
    error = {"message": "too long", "type": "odd", "param": "messages", "code": "context_length_exceeded"}
    llms.switch(cheap={"status": 400, "body": {"error": error}})
    with pytest.raises(openai.BadRequestError) as refused:
        respond(server, streamed=streamed)
    assert refused.value.body == error
    llms.switch(**{name: {"status": 429, "headers": {"Retry-After": "30"}} for name in ("cheap", "strong")})
    with pytest.raises(openai.RateLimitError):
        respond(server, streamed=streamed)


def test_an_interrupted_stream_ends_with_a_failed_response(server: Server, llms: LlmServer) -> None:
    llms.switch(strong={"break_after": 3})
    with client_of(server) as client:
        events = list(client.responses.create(model="portfolio/chat@budget=100%", input=HARD, stream=True))
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    failed: Any = events[-1]
    assert (failed.response.status, failed.response.error.code) == ("failed", "server_error")
