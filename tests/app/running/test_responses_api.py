"""OpenAI's Responses API as a server: requests and answers are translated without loss."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.running.protocols.responses_replies import ResponseFormat
from app.running.protocols.responses_requests import list_chat_messages
from models.responses import ResponsesRequest
from tests.support.chat_answers import as_chunks, completions


def asked(**changes: Any) -> ResponsesRequest:
    return ResponsesRequest.model_validate({"model": "cascade/chat", "input": "Hi", **changes})


def assemble(data: bytes) -> dict[str, Any]:
    """Return the response of the last event; the events before it hold the same items, piece by piece."""
    events = [json.loads(block.split("\ndata: ")[1]) for block in data.decode().split("\n\n")[:-1]]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    texts: dict[str, str] = {}
    ended: list[dict[str, Any]] = []
    for event in events:
        kind = event["type"]
        if kind.endswith(".delta"):
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
        elif kind == "response.output_item.done":
            assert event["output_index"] == len(ended)
            ended.append(event["item"])
            (text,) = item_texts(event["item"])
            assert texts.get(event["item"]["id"], "") == text
    response: dict[str, Any] = events[-1]["response"]
    assert response["output"] == ended
    return response


def item_texts(item: dict[str, Any]) -> list[str]:
    parts = item.get("content", [{"text": item.get("arguments")}])
    return [part["refusal"] if part.get("type") == "refusal" else part["text"] for part in parts]


def without_ids(response: dict[str, Any]) -> dict[str, Any]:
    items = [{**item, "id": "x"} for item in response["output"]]
    return {**response, "id": "x", "output": items, "created_at": 0}


@given(completions(), st.data())
def test_the_events_of_an_answer_amount_to_the_whole_response(completion: dict[str, Any], data: st.DataObject) -> None:
    whole = ResponseFormat(asked()).write_reply(completion)
    streaming = ResponseFormat(asked())
    chunks, ends = as_chunks(completion, data)
    events = b"".join(streaming.write_chunk(chunk) for chunk in chunks) + streaming.write_end(completion, ends)
    assert without_ids(assemble(events)) == without_ids(whole)


CALL = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
CHAT_CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = {"type": "input_image", "image_url": "http://x/y.png"}
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
ITEMS: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    (
        [{"role": "assistant", "content": "a"}, CALL, {**CALL, "call_id": "2"}],
        [{"role": "assistant", "content": "a", "tool_calls": [CHAT_CALL, {**CHAT_CALL, "id": "2"}]}],
    ),
    (
        [CALL, {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}],
        [{"role": "assistant", "content": "a", "tool_calls": [CHAT_CALL]}],
    ),
    (
        [
            CALL,
            {
                "type": "function_call_output",
                "call_id": "1",
                "output": [{"type": "input_text", "text": "r"}, IMAGE],
            },
            {"role": "user", "content": "so?"},
        ],
        [
            {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "r"},
            {"role": "user", "content": [CHAT_IMAGE]},
            {"role": "user", "content": "so?"},
        ],
    ),
    (
        [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {**IMAGE, "detail": "low"}]}],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "http://x/y.png", "detail": "low"}},
                ],
            }
        ],
    ),
    (
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
        [{"role": "assistant", "content": "no"}],
    ),
    (
        [{"role": "user", "content": [{"type": "input_file", "file_data": "data:a", "filename": "b"}]}],
        [{"role": "user", "content": [{"type": "file", "file": {"filename": "b", "file_data": "data:a"}}]}],
    ),
]


@pytest.mark.parametrize(("items", "wanted"), ITEMS)
def test_items_are_translated(items: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert list_chat_messages(asked(input=items)) == wanted
