"""The text of a conversation by which it is routed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models.conversation import ConversationOptions, render_conversation

texts = st.text(max_size=300)
message = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": texts})
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": [{"type": "text", "text": "three"}, {"type": "image_url", "image_url": {"url": "x"}}]},
]


def test_the_window_ends_with_the_last_user_message_and_begins_with_the_system_prompt() -> None:
    options = ConversationOptions(turns=2)
    assert render_conversation(CHAT, options) == "system: Be brief.\nassistant: two\nuser: three\n"
    assert render_conversation([*CHAT, {"role": "assistant", "content": "partial"}], options).endswith("three\n")
    without = ConversationOptions(turns=1, system=False, template="{content}")
    assert render_conversation(CHAT, without) == "three"
    assert render_conversation([{"role": "user", "content": None}], without) == ""


@given(messages=st.lists(message, min_size=1, max_size=8), turns=st.integers(1, 5), most=st.integers(100, 500))
def test_a_text_is_at_most_as_long_as_its_maximum(messages: list[dict[str, Any]], turns: int, most: int) -> None:
    options = ConversationOptions(turns=turns, max_characters=most, system=False)
    text = render_conversation(messages, options)
    assert len(text) <= most
    with_system = ConversationOptions(turns=turns, max_characters=most)
    assert len(render_conversation(messages, with_system)) <= most


@pytest.mark.parametrize("fields", [{"turns": 0}, {"template": "{role}"}, {"latch": -1}, {"max_characters": 5}])
def test_options_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ConversationOptions(**fields)
