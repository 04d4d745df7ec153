"""Answers to chats as properties need them: whole, and cut into the chunks of a stream."""

import json
from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
FINISHES = st.sampled_from(["stop", "length", "tool_calls", "content_filter", "odd"])


@st.composite
def completions(draw: st.DrawFn) -> dict[str, Any]:
    """Give a completion with any of: reasoning, a text, a refusal, and tool calls."""
    texts = {name: draw(TEXTS | st.none()) for name in ("reasoning_content", "content", "refusal")}
    arguments = draw(st.lists(st.dictionaries(TEXTS, st.integers(0, 9), max_size=2), max_size=3))
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": f"f{at}", "arguments": json.dumps(each)}}
        for at, each in enumerate(arguments)
    ]
    message = {"role": "assistant", **texts} | ({"tool_calls": calls} if calls else {})
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    details = {"prompt_tokens_details": {"cached_tokens": draw(st.integers(0, 10))}}
    choice = {"index": 0, "message": message, "finish_reason": draw(FINISHES)}
    return {"choices": [choice], "usage": usage | details, "parsimony": {"steps": []}}


def as_chunks(completion: dict[str, Any], data: st.DataObject) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the chunks of a completion, each text cut somewhere, and the ends of its choices."""
    (choice,) = completion["choices"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for name, text in choice["message"].items():
        if name != "role" and isinstance(text, str):
            cut = data.draw(st.integers(0, len(text)))
            deltas += [{name: text[:cut]}, {name: text[cut:]}]
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        text = call["function"]["arguments"]
        cut = data.draw(st.integers(0, len(text)))
        begun = {**call, "index": index, "function": {**call["function"], "arguments": text[:cut]}}
        deltas += [{"tool_calls": [one]} for one in (begun, {"index": index, "function": {"arguments": text[cut:]}})]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return chunks, [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]
