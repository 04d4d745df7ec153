"""Conversations: earlier turns are seen, staying is cheaper than switching, and an escalation holds."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.chats import ask, called, register, running_chats
from tests.support.llm_server import LlmServer, running_llms
from tests.support.servers import Server

PRICES = {
    "cheap": {"input_per_million": 1.0, "cached_input_per_million": 0.1, "output_per_million": 2.0},
    "strong": {"input_per_million": 30.0, "cached_input_per_million": 0.3, "output_per_million": 60.0},
}
LATCH = 2


@pytest.fixture(scope="module")
def llms() -> Iterator[LlmServer]:
    with running_llms() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    conversation = {"turns": 3, "latch": LATCH, "template": "[{role}] {content}\n"}
    with running_chats(tmp_path_factory.mktemp("conversations"), params={"conversation": conversation}) as server:
        yield server


@pytest.fixture(autouse=True)
def _as_new(llms: LlmServer, server: Server) -> None:
    llms.switch()
    register(server, llms, **{name: {"prices": prices} for name, prices in PRICES.items()})


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def talk(server: Server, *texts: str, **fields: Any) -> list[list[str]]:
    """Say texts one after the other, each with all turns before it, and return who was called for each."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    callees = []
    for text in texts:
        messages.append(user(text))
        completion = ask(server, messages=messages, **fields)
        messages.append({"role": "assistant", "content": completion["choices"][0]["message"]["content"]})
        callees.append(called(completion))
    return callees


@pytest.mark.parametrize(
    "fields", [{}, {"metadata": {"session_id": "s1"}}, {"streamed": True}], ids=["messages", "id", "stream"]
)
def test_an_escalated_conversation_stays_escalated_for_the_latch(server: Server, fields: dict[str, Any]) -> None:
    """Easy turns are answered by the cheap model, but not in the two turns after an escalation."""
    name = str(fields)
    easy = [f"an easy prompt {name} {place}" for place in range(5)]
    callees = talk(server, easy[0], f"a prompt {name}", *easy[1:], **fields)
    assert callees == [["cheap"], ["cheap", "strong"], ["strong"], ["strong"], ["cheap"], ["cheap"]]


def test_another_conversation_is_not_escalated(server: Server) -> None:
    assert talk(server, "a prompt of the first")[0] == ["cheap", "strong"]
    assert talk(server, "an easy prompt of the second", "an easy prompt, too") == [["cheap"], ["cheap"]]


def test_an_escalation_to_a_model_that_fails_holds_nobody_back(server: Server, llms: LlmServer) -> None:
    messages = [user("a prompt of a third")]
    answer = ask(server, messages=messages)["choices"][0]["message"]
    llms.switch(strong={"status": 401})
    ask(server, messages=[user("another prompt of mine")])  # opens the circuit
    messages += [{"role": "assistant", "content": answer["content"]}, user("an easy prompt of a third")]
    assert called(ask(server, messages=messages)) == ["cheap"]


def test_the_embedder_receives_the_conversation_by_the_template(server: Server, llms: LlmServer) -> None:
    talk(server, "an easy prompt", "and another", model="portfolio/chat@budget=50%")
    texts = [body["input"] for body in llms.bodies["embedder"]]
    assert [one if isinstance(one, str) else one[0] for one in texts] == [
        "[system] Be brief.\n[user] an easy prompt\n",
        "[system] Be brief.\n[user] an easy prompt\n[assistant] answer of several words\n[user] and another\n",
    ]


def test_the_params_of_the_artifact_have_the_template(server: Server) -> None:
    for kind in ("cascade", "portfolio"):
        params = server.client.get(f"/v1/artifacts/{kind}/chat").json()["params"]
        assert (params["conversation"]["latch"], params["conversation"]["turns"]) == (LATCH, 3)


def test_the_cost_of_a_switch_is_that_of_the_whole_prompt(server: Server) -> None:
    """After a long turn that the strong model answered, its prefix is cached: the cheap model's advantage shrinks."""
    long = "an important prompt" + " and so on" * 3000
    model = "portfolio/chat@budget=100%"
    first = ask(server, model=model, messages=[user(long)])
    assert called(first)[-1] == "strong"
    messages = [user(long), {"role": "assistant", "content": first["choices"][0]["message"]["content"]}, user("go on")]

    def costs(*messages: dict[str, Any]) -> dict[str, float]:
        decided = ask(server, model=model, messages=list(messages), parsimony={"route_only": True})["parsimony"]
        return {one["classifier"]: one["cost"] for one in decided["candidates"]}

    new, following = costs(user(long), {"role": "assistant", "content": "of another"}, user("go on")), costs(*messages)
    assert following["cheap"] == pytest.approx(new["cheap"], rel=0.01)
    tokens = len(long) / 3
    assert new["strong"] - following["strong"] == pytest.approx(tokens * 29.7 / 1e6, rel=0.02)
