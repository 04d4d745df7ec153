"""Anthropic's Messages API as a server: requests and answers are translated without loss."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.running.protocols.anthropic_replies import MessageFormat
from app.running.protocols.anthropic_requests import estimate_tokens, list_chat_messages, to_chat_request
from models import InvalidRequest
from models.errors import EndpointFailed
from models.messages import CountRequest, MessagesRequest
from tests.support.chat_answers import as_chunks, completions

ASKED: dict[str, Any] = {"model": "cascade/chat", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


def asked(**changes: Any) -> MessagesRequest:
    return MessagesRequest.model_validate({**ASKED, **changes})


def events_in(data: bytes) -> Iterator[dict[str, Any]]:
    for block in data.decode().split("\n\n")[:-1]:
        name, content = block.split("\n")
        event: dict[str, Any] = json.loads(content.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        yield event


def assemble(data: bytes) -> dict[str, Any]:
    """Put a message together from its events, as a client does; each block ends before the next one begins."""
    message: dict[str, Any] = {}
    texts: list[str] = []
    for event in events_in(data):
        match event["type"]:
            case "message_start":
                assert not message
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"]) == len(texts)
                message["content"].append(event["content_block"])
                texts.append("")
            case "content_block_delta":
                assert event["index"] == len(texts) - 1
                (text,) = (value for name, value in event["delta"].items() if name != "type")
                texts[-1] += text
            case "message_delta":
                message |= {**event["delta"], "usage": event["usage"], "parsimony": event["parsimony"]}
    for block, text in zip(message["content"], texts, strict=True):
        if block["type"] == "tool_use":
            block["input"] = json.loads(text or "{}")
        else:
            block[block["type"]] = text
    return message


@given(completions(), st.data())
def test_the_events_of_an_answer_amount_to_the_whole_message(completion: dict[str, Any], data: st.DataObject) -> None:
    whole = MessageFormat(asked()).write_reply(completion)
    streaming = MessageFormat(asked())
    chunks, ends = as_chunks(completion, data)
    events = b"".join(streaming.write_chunk(chunk) for chunk in chunks) + streaming.write_end(completion, ends)
    streamed = assemble(events)
    assert {**streamed, "id": "x"} == {**whole, "id": "x"}


def test_mixed_pieces_of_tool_calls_are_an_error() -> None:
    streaming = MessageFormat(asked())
    for index in (0, 1):
        call = {"index": index, "id": "c", "function": {"name": "f", "arguments": "{"}}
        streaming.write_chunk({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    late = {"index": 0, "function": {"arguments": "}"}}
    with pytest.raises(EndpointFailed):
        streaming.write_chunk({"choices": [{"index": 0, "delta": {"tool_calls": [late]}}]})


def test_the_stop_sequence_is_passed_on_where_a_server_states_it() -> None:
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop", "stop_reason": "END"}
    reply = MessageFormat(asked(stop_sequences=["END"])).write_reply({"choices": [choice]})
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("stop_sequence", "END")
    reply = MessageFormat(asked()).write_reply({"choices": [choice]})
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("end_turn", None)


def turn(*blocks: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


PDF = {"type": "base64", "media_type": "application/pdf", "data": "aa"}
TURNS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (turn({"type": "text", "text": "a", "cache_control": {}}), [{"role": "user", "content": "a"}]),
    (
        turn({"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a"}, role="assistant"),
        [{"role": "assistant", "content": "a"}],
    ),
    (turn({"type": "text", "text": "a"}, role="system"), [{"role": "system", "content": "a"}]),
    (
        turn({"type": "tool_result", "tool_use_id": "1", "content": "bad", "is_error": True}),
        [{"role": "tool", "tool_call_id": "1", "content": "Error: bad"}],
    ),
    (
        turn({"type": "text", "text": "a"}, {"type": "tool_result", "tool_use_id": "1"}),
        [{"role": "tool", "tool_call_id": "1", "content": ""}, {"role": "user", "content": "a"}],
    ),
    (
        turn({"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}),
        [{"role": "user", "content": [{"type": "text", "text": "t\n\nd"}]}],
    ),
    (
        turn({"type": "document", "source": PDF}),
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {"filename": "document", "file_data": "data:application/pdf;base64,aa"},
                    }
                ],
            }
        ],
    ),
    (
        turn({"type": "image", "source": {**PDF, "media_type": "image/png"}}),
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}]}],
    ),
]


@pytest.mark.parametrize(("sent", "wanted"), TURNS)
def test_turns_are_translated(sent: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
    assert list_chat_messages(asked(messages=[sent])) == wanted


def test_system_blocks_are_one_prompt_and_metadata_are_kept() -> None:
    system = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    chat = to_chat_request(asked(system=system, metadata={"user_id": "u", "session_id": "s"}))
    assert chat.messages[0].content == "a\n\nb"
    assert (chat.model_extra or {}).items() >= {"user": "u", "metadata": {"session_id": "s"}}.items()


def test_several_answers_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="n: "):
        to_chat_request(asked(n=2))


@given(st.text(max_size=200), st.text(max_size=200))
def test_longer_texts_are_estimated_to_have_at_least_as_many_tokens(text: str, more: str) -> None:
    short, long = (CountRequest.model_validate({**ASKED, "system": each}) for each in (text, text + more))
    assert 0 < estimate_tokens(short) <= estimate_tokens(long)
