"""The texts of a conversation by which it is routed, and the mean of their embeddings."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models import Trace, TraceSpec, dataset_from_columns
from models.conversation import (
    ConversationOptions,
    ConversationWindow,
    encode_chat,
    estimate_text_tokens,
    read_conversation,
    read_embedding_rule,
    split_conversation,
    split_prompts,
)
from models.word_embedding import embed_prompts, embed_words

texts = st.text(max_size=300)
message = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": texts})
chats = st.lists(message, min_size=1, max_size=12)
windows = st.builds(
    ConversationWindow,
    window_tokens=st.integers(16, 200),
    older_chunks=st.integers(0, 5),
    template=st.sampled_from(["{role}: {content}\n", "{content}", "«{content}» "]),
)
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": [{"type": "text", "text": "three"}, {"type": "image_url", "image_url": {"url": "x"}}]},
]


def render_all(messages: Sequence[dict[str, Any]], window: ConversationWindow) -> str:
    """Return the whole text up to the last user message: system prompts first."""
    users = [place for place, one in enumerate(messages) if one["role"] == "user"]
    seen = messages[: users[-1] + 1] if users else messages
    ordered = sorted(seen, key=lambda one: one["role"] != "system")
    return "".join(
        window.template.replace("{role}", one["role"]).replace("{content}", one["content"]) for one in ordered
    )


def test_a_conversation_that_fits_is_one_text_up_to_the_last_user_message() -> None:
    window = ConversationWindow()
    whole = "system: Be brief.\nuser: one\nassistant: two\nuser: three\n"
    assert split_conversation(CHAT, window) == (whole,)
    assert split_conversation([*CHAT, {"role": "assistant", "content": "partial"}], window) == (whole,)
    plain = ConversationWindow(system=False, template="{content}")
    assert split_conversation(CHAT, plain) == ("onetwothree",)
    assert split_conversation([{"role": "user", "content": None}], plain) == ("",)


def test_older_turns_are_chunks_and_the_window_keeps_the_beginning_of_the_system_prompt() -> None:
    window = ConversationWindow(window_tokens=16, older_chunks=1, template="{content}")
    turns = [{"role": "user", "content": letter * 30} for letter in "abcd"]
    older, recent = split_conversation([{"role": "system", "content": "s" * 20}, *turns], window)
    assert recent == "s" * 12 + "c" * 6 + "d" * 30
    assert older == "b" * 24 + "c" * 24


@given(messages=chats, window=windows)
def test_every_part_is_bounded(messages: list[dict[str, Any]], window: ConversationWindow) -> None:
    parts = split_conversation(messages, window)
    assert 1 <= len(parts) <= 1 + window.older_chunks
    assert all(estimate_text_tokens(part) <= window.window_tokens for part in parts)


@given(messages=chats, window=windows)
def test_each_token_is_in_exactly_one_part(messages: list[dict[str, Any]], window: ConversationWindow) -> None:
    """Within the bound, the parts are the whole text: the beginning of the system prompt moves into the window."""
    whole, parts = render_all(messages, window), split_conversation(messages, window)
    fits = estimate_text_tokens(whole) <= (1 + window.older_chunks) * (window.window_tokens - 1)
    *older, recent = parts
    joined = [recent[:head] + "".join(older) + recent[head:] for head in range(len(recent) + 1)]
    if fits:
        assert whole in joined
    else:  # the oldest turns are cut
        assert any(whole.endswith("".join(older) + recent[head:]) for head in range(len(recent) + 1))


@given(messages=chats, window=windows)
def test_a_text_that_fits_is_unchanged(messages: list[dict[str, Any]], window: ConversationWindow) -> None:
    whole = render_all(messages, window)
    is_one = estimate_text_tokens(whole) <= window.window_tokens
    assert (split_conversation(messages, window) == (whole,)) == is_one or window.older_chunks == 0


def test_vectors_are_averaged_by_tokens_and_single_ones_are_unchanged() -> None:
    window = ConversationWindow(window_tokens=16, older_chunks=2, template="{content}")
    chats = [encode_chat([{"role": "user", "content": text}]) for text in ("a" * 24 + "b" * 48, "short")]
    parts = split_prompts(chats, window)
    assert parts.texts == ["a" * 24, "b" * 48, "short"]
    vectors = np.array([[3.0, 0.0], [0.0, 3.0], [0.1, 0.7]])
    averaged = parts.average_vectors(vectors)
    assert averaged[0].tolist() == pytest.approx([1.0, 2.0])
    assert averaged[1].tobytes() == vectors[2].tobytes()


@given(st.lists(texts, max_size=5))
def test_prompts_without_a_window_are_embedded_as_they_are(prompts: list[str]) -> None:
    assert split_prompts(prompts, None).texts == prompts
    assert embed_prompts(prompts, None).tobytes() == embed_words(prompts).tobytes()


@given(messages=chats, window=windows)
def test_a_chat_written_as_json_is_split_like_the_chat(
    messages: list[dict[str, Any]], window: ConversationWindow
) -> None:
    assert tuple(split_prompts([encode_chat(messages)], window).texts) == split_conversation(messages, window)


@given(messages=chats, window=windows)
def test_a_dataset_embeds_its_chats_by_its_window(messages: list[dict[str, Any]], window: ConversationWindow) -> None:
    chats = [encode_chat(messages), "plain"]
    classifier = {"name": "a", "correct": "right", "cost": 1.0}
    about = {"kind": "trace", "unit": "USD", "text": "chat", "classifiers": [classifier]}
    spec = TraceSpec.model_validate_json(json.dumps({**about, "conversation": window.model_dump()}))
    dataset = dataset_from_columns(spec, {"chat": np.array(chats, dtype=object), "right": np.array([1.0, 0.0])})
    assert isinstance(dataset, Trace)
    assert dataset.embeddings.tolist() == embed_prompts(chats, window).tolist()


@pytest.mark.parametrize("prompt", ["plain", "[1, 2]", '{"role": "user"}', "[]", "[{}]"])
def test_a_prompt_that_is_no_chat_is_a_user_message(prompt: str) -> None:
    window = ConversationWindow(template="{role} {content}")
    assert split_prompts([prompt], window).texts == [f"user {prompt}"]


@pytest.mark.parametrize(
    "fields", [{"window_tokens": 0}, {"template": "{role}"}, {"latch": -1}, {"older_chunks": -1}, {"turns": 4}]
)
def test_options_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ConversationOptions(**fields)


def test_embeddings_are_determined_by_the_embedder_and_the_window() -> None:
    params: dict[str, Any] = {"embedder": "e", "conversation": {"window_tokens": 50}}
    rule = read_embedding_rule(params)
    assert read_embedding_rule({**params, "conversation": {"window_tokens": 50, "latch": 3}}) == rule
    for other in ({"embedder": "f"}, {"conversation": None}, {"conversation": {"window_tokens": 60}}):
        assert read_embedding_rule({**params, **other}) != rule
    assert read_embedding_rule({"conversation": {"latch": 3}}) == read_embedding_rule({})


def test_options_are_read_from_parameters() -> None:
    options = ConversationOptions(window_tokens=50, latch=2)
    params = json.loads(json.dumps({"conversation": options.model_dump()}))
    assert read_conversation(params) == options
    assert read_conversation({"conversation": None}) is None
    assert read_conversation({}) is None
    assert options.window == ConversationWindow(window_tokens=50)
