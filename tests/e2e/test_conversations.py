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
LATCH, WINDOW = 2, 100


@pytest.fixture(scope="module")
def llms() -> Iterator[LlmServer]:
    with running_llms() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    conversation = {"window_tokens": WINDOW, "older_chunks": 2, "latch": LATCH, "template": "[{role}] {content}\n"}
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


def decide(server: Server, *texts: str) -> dict[str, Any]:
    """Return a portfolio's decision for a conversation of the user's messages."""
    body: dict[str, Any] = {"model": "portfolio/chat@budget=50%", "parsimony": {"route_only": True}}
    return dict(ask(server, messages=[user(text) for text in texts], **body))


def texts_of(llms: LlmServer) -> list[str]:
    """Return the texts that were embedded since the last call."""
    inputs = [body["input"] for body in llms.bodies["embedder"]]
    llms.bodies.clear()
    return [text for each in inputs for text in ([each] if isinstance(each, str) else each)]


def estimate_cheap(decided: dict[str, Any]) -> float:
    """Return the estimated accuracy of the cheap model, which is high for easy prompts."""
    candidates = decided["parsimony"]["candidates"]
    return float(next(one["estimated_accuracy"] for one in candidates if one["classifier"] == "cheap"))


def test_the_older_turns_of_a_long_conversation_change_its_embedding(server: Server, llms: LlmServer) -> None:
    """The embedder of the tests knows easy texts from others; the window of the last message is not easy."""
    filler, last = " and so on" * 29, "then this"
    recent = decide(server, "x" * len("an easy prompt") + filler, filler, last)
    new, old = texts_of(llms), decide(server, "an easy prompt" + filler, filler, last)
    parts = texts_of(llms)
    assert parts[-1] == new[-1]
    assert parts[-1].endswith(f"[user] {last}\n")
    assert "".join(parts) == f"[user] an easy prompt{filler}\n[user] {filler}\n[user] {last}\n"
    assert all(len(part) <= 3 * WINDOW for part in parts)
    alone, easy = estimate_cheap(decide(server, last)), estimate_cheap(decide(server, "an easy prompt"))
    assert estimate_cheap(recent) == pytest.approx(alone)
    assert alone < estimate_cheap(old) < easy


def test_a_conversation_that_fits_the_window_is_embedded_as_one_text(server: Server, llms: LlmServer) -> None:
    texts_of(llms)
    decide(server, "an easy prompt")
    assert texts_of(llms) == ["[user] an easy prompt\n"]


def test_each_part_of_a_long_conversation_is_paid(server: Server, llms: LlmServer) -> None:
    prices = {"prices": {"input_per_million": 1e6}}
    register(server, llms, embedder=prices)
    asked = [user("an easy prompt" + " and so on" * 50)]
    steps = ask(server, model="portfolio/chat@budget=50%", messages=asked)["parsimony"]["steps"]
    paid = [step for step in steps if step["classifier"] == "embedder"]
    requests, parts = len(llms.bodies["embedder"]), texts_of(llms)
    assert len(paid) == len(parts) == 2
    assert sum(step["cost"] for step in paid) == pytest.approx(5.0 * requests)  # tokens, as the embedder counts them


def test_a_part_without_an_embedding_fails_the_decision(server: Server, llms: LlmServer) -> None:
    llms.switch(embedder={"fails_after": 1})
    register(server, llms, embedder={"max_texts": 1})
    body = {"model": "portfolio/chat@budget=50%", "messages": [user("an easy prompt" + " and so on" * 50)]}
    assert server.client.post("/v1/chat/completions", json=body).status_code == 502


def test_the_params_of_the_artifact_have_the_template(server: Server) -> None:
    for kind in ("cascade", "portfolio"):
        params = server.client.get(f"/v1/artifacts/{kind}/chat").json()["params"]
        assert (params["conversation"]["latch"], params["conversation"]["window_tokens"]) == (LATCH, WINDOW)


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
