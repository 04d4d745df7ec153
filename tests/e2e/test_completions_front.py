"""The completions front: prompts of OpenAI's older API are chats of one message."""

from typing import Any

import openai
import pytest

from tests.e2e.chats import client_of
from tests.support.llm_server import LlmServer
from tests.support.servers import Server

TEXT = "answer of several words"


@pytest.fixture
def server(fresh_chats: Server) -> Server:
    return fresh_chats


@pytest.mark.parametrize("model", ["cascade/chat", "portfolio/chat@budget=100%"])
def test_a_prompt_is_answered_whole_and_streamed(server: Server, llms: LlmServer, model: str) -> None:
    asked: Any = {"model": model, "prompt": "a prompt", "max_tokens": 100, "temperature": 0.5}
    with client_of(server) as client:
        whole = client.completions.create(**asked)
        chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert (whole.choices[0].text, whole.choices[0].finish_reason, whole.object) == (TEXT, "stop", "text_completion")
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == TEXT
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"
    assert chunks[-1].usage == whole.usage
    body = llms.bodies["strong"][0]
    assert (body["messages"], body["max_tokens"]) == ([{"role": "user", "content": "a prompt"}], 100)
    assert not {"prompt", "echo", "best_of", "suffix"} & body.keys()


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"echo": True}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"n": 2}, "n"),
        ({"suffix": "x"}, "suffix"),
        ({"logprobs": 1}, "logprobs"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"model": "gpt-4o"}, "model"),
    ],
)
def test_what_chats_cannot_do_is_refused(server: Server, llms: LlmServer, changes: Any, param: str) -> None:
    with client_of(server) as client, pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": "cascade/chat", "prompt": "an easy prompt", **changes})
    assert refused.value.param == param
    assert llms.calls() == {}


def test_errors_of_a_stream_are_events(server: Server, llms: LlmServer) -> None:
    llms.switch(strong={"break_after": 3})
    asked: Any = {"model": "portfolio/chat@budget=100%", "prompt": "a prompt", "stream": True}
    with client_of(server) as client, pytest.raises(openai.APIError):
        list(client.completions.create(**asked))
