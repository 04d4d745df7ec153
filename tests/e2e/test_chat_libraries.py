"""Libraries that speak OpenAI's and Anthropic's API: each call by the library, in a process of its own.

A library is used by ``TEST_CLIENTS_PYTHON``, a Python interpreter that has it, or by this one. Without it, its tests
are skipped.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from tests.support.patience import patient
from tests.support.servers import Server

PYTHON = os.environ.get("TEST_CLIENTS_PYTHON", sys.executable)
TEXT = "answer of several words"
CALL = {"name": "add", "args": {"x": 1}}

LANGCHAIN = """
import json, sys
from langchain_openai import ChatOpenAI
from langchain_core.tools import tool

@tool
def add(x: int) -> int:
    "Add one."
    return x + 1

url = sys.argv[1]
chat = ChatOpenAI(base_url=url + "/v1", api_key="none", model="cascade/chat", max_retries=0, **json.loads(sys.argv[2]))
whole = chat.invoke("an easy prompt")
pieces = [chunk for chunk in chat.stream("an easy prompt")]
called = chat.bind_tools([add]).invoke("an easy prompt")
structured = [{"name": one["name"], "args": one["args"]} for one in called.tool_calls]
text = lambda message: message.text if isinstance(message.text, str) else message.text()
print(json.dumps([text(whole), "".join(map(text, pieces)), structured, whole.usage_metadata["input_tokens"]]))
"""
LITELLM = """
import asyncio, json, sys
import litellm

url, model = sys.argv[1], sys.argv[2]
tools = [{"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"x": {"type": "integer"}}}}}]
base = url + "/v1" if model.startswith("openai/") else url
asked = dict(model=model, api_base=base, api_key="none", num_retries=0, max_tokens=100,
             messages=[{"role": "user", "content": "an easy prompt"}])
whole = litellm.completion(**asked)
pieces = [chunk.choices[0].delta.content or "" for chunk in litellm.completion(**asked, stream=True)]
again = asyncio.run(litellm.acompletion(**asked))
assert again.choices[0].message.content == whole.choices[0].message.content
call = litellm.completion(**asked, tools=tools).choices[0].message.tool_calls[0].function
structured = [{"name": call.name, "args": json.loads(call.arguments)}]
print(json.dumps([whole.choices[0].message.content, "".join(pieces), structured, whole.usage.prompt_tokens]))
"""


def needs(library: str) -> pytest.MarkDecorator:
    """Skip a test, and start no server for it, if there is no such library."""
    is_missing = sys.executable == PYTHON and find_spec(library) is None
    return pytest.mark.skipif(
        is_missing, reason=f"{library} is not installed; set TEST_CLIENTS_PYTHON to a Python with it"
    )


@pytest.fixture
def server(fresh_chats: Server) -> Server:
    return fresh_chats


def run(code: str, *arguments: str) -> Any:
    """Run a program by a library."""
    command = [PYTHON, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(120), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@needs("langchain_openai")
@pytest.mark.parametrize("options", [{}, {"use_responses_api": True}], ids=["chat", "responses"])
def test_langchain_is_answered(server: Server, options: dict[str, Any]) -> None:
    answers = run(LANGCHAIN, server.url, json.dumps(options))
    assert answers == [TEXT, TEXT, [CALL], 1000]


@needs("litellm")
@pytest.mark.parametrize("model", ["openai/cascade/chat", "anthropic/cascade/chat"])
def test_litellm_is_answered(server: Server, model: str) -> None:
    assert run(LITELLM, server.url, model) == [TEXT, TEXT, [CALL], 1000]
