"""What each protocol makes of an item, and reads from a reply."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.running import protocols
from app.running.circuit_breaker import FAILURES, OPEN_CIRCUIT_S, CircuitBreaker
from app.running.embedding import MAX_LETTERS, split_call_by_text, split_into_requests
from app.running.protocols import openai_embeddings
from app.running.protocols.message import Chat
from app.running.protocols.open_inference import flatten
from app.running.protocols.openai_chat_client import read_label
from app.running.protocols.openai_embeddings import TextBatch
from app.running.request_templates import TemplateMismatch
from models.endpoint import ENDPOINT, ChatEndpoint, Choice, JsonAnswer, Pattern, WholeText
from models.endpoint_presets import PRESETS
from parsimony.runs.steps import CallResult

URL = "http://models.example"
JSON = {"protocol": "json", "url": f"{URL}/{{{{item/id}}}}", "body": {"x": "{{item/x}}"}}
TENSORS = {"protocol": "open-inference", "url": URL, "model": "m", "label_output": "label", "labels": ["a", "b"]}
CHAT = {"protocol": "openai-chat", "url": f"{URL}/v1/", "model": "m"}


def read(endpoint: dict[str, Any], reply: Any) -> Any:
    return protocols.read(ENDPOINT.validate_python(endpoint), reply)


def request(endpoint: dict[str, Any], item: Any) -> Any:
    return protocols.build_request(ENDPOINT.validate_python(endpoint), item)


def test_json_fills_its_templates_and_follows_its_pointers() -> None:
    endpoint = JSON | {"label": "/y/0", "confidence": "/p", "cost": "/usd"}
    made = request(endpoint, {"id": "a/b", "x": [1, 2]})
    assert (made.method, made.url, made.body) == ("POST", f"{URL}/a%2Fb", {"x": [1, 2]})
    said = read(endpoint, {"y": [7], "p": 0.5, "usd": 0.01})
    assert (said.label, said.confidence, said.cost) == ("7", 0.5, 0.01)


def test_json_takes_the_best_of_scores_and_the_values_of_a_feature() -> None:
    said = read(JSON | {"scores": ""}, {"a": 0.2, "b": 0.8})
    assert (said.label, said.confidence) == ("b", 0.8)
    for values, made in (([1, 2.5], (1.0, 2.5)), (3, (3.0,)), ([1, None], (1.0, None)), (None, (None,))):
        assert read(JSON | {"values": "/v"}, {"v": values}).values == made


WRONG: list[tuple[dict[str, Any], Any, str]] = [
    (JSON | {"label": "/y"}, {}, "/y not found"),
    (JSON | {"label": "/y"}, {"y": None}, "label"),
    (JSON | {"label": "/y"}, {"y": ""}, "0 characters"),
    (JSON | {"label": "/y"}, {"y": "x" * 201}, "got 201"),
    (JSON | {"label": "/y"}, [], "/y not found"),
    (JSON | {"label": "/y", "confidence": "/p"}, {"y": "a", "p": "high"}, "confidence"),
    (JSON | {"label": "/y", "cost": "/c"}, {"y": "a", "c": -1}, "cost must be from 0"),
    (JSON | {"label": "/y", "labels": ["a", "b"]}, {"y": "zebra"}, "labels"),
    (JSON | {"scores": "/s"}, {"s": {}}, "scores must not be empty"),
    (JSON | {"scores": "/s"}, {"s": [1]}, "must be an object"),
    (JSON | {"values": "/v"}, {"v": []}, "values must not be empty"),
    (JSON | {"values": "/v"}, {"v": [True]}, "must be a number"),
    (TENSORS, {}, "outputs must not be empty"),
    (TENSORS, {"outputs": []}, "output 'label' not found"),
    (TENSORS, {"outputs": [{"name": "label"}]}, "JSON data"),
    (TENSORS, {"outputs": [{"name": "label", "data": [5]}]}, "got 5"),
    (TENSORS, {"outputs": [{"name": "label", "data": [0, 1]}]}, "got 2"),
]


@pytest.mark.parametrize(("endpoint", "reply", "said"), WRONG)
def test_what_is_wrong_with_a_reply_is_said(endpoint: dict[str, Any], reply: Any, said: str) -> None:
    with pytest.raises(TemplateMismatch, match=said):
        read(endpoint, reply)


def test_open_inference_sends_a_row_and_reads_label_or_probabilities() -> None:
    made = request(TENSORS, [1.0, 2.0])
    assert made.url == f"{URL}/v2/models/m/infer"
    assert made.body["inputs"][0]["shape"] == [1, 2]
    assert made.body["outputs"] == [{"name": "label"}]
    outputs = [{"name": "label", "data": [1]}, {"name": "p", "data": [[0.3, 0.7]]}]
    assert read(TENSORS, {"outputs": outputs}).label == "b"
    said = read(TENSORS | {"probabilities_output": "p"}, {"outputs": outputs})
    assert (said.label, said.confidence, said.scores) == ("b", 0.7, {"a": 0.3, "b": 0.7})
    with pytest.raises(TemplateMismatch, match="a value or a list of values"):
        request(TENSORS, [[1, 2]])


def test_chat_sends_texts_messages_or_a_whole_request() -> None:
    made = request(CHAT | {"system": "be brief", "max_tokens": 3}, "hello")
    assert made.url == f"{URL}/v1/chat/completions"
    assert made.body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    assert (made.body["max_tokens"], made.body["temperature"], made.body["logprobs"]) == (3, 0.0, True)
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert request(CHAT, messages).body["messages"] == messages
    whole = Chat(messages, {"temperature": 1.5, "max_tokens": 9})
    assert request(CHAT, whole).body["temperature"] == 1.5
    assert request(CHAT, whole).body["max_tokens"] == 9
    assert request(CHAT, Chat(messages, {"max_tokens": 10**9})).body["max_tokens"] == 10**9
    limited = CHAT | {"max_tokens": 256}
    assert request(limited, Chat(messages, {"max_tokens": 10**9})).body["max_tokens"] == 256
    assert "temperature" not in request(CHAT, Chat(messages)).body
    assert request(CHAT, Chat(messages, {"max_completion_tokens": 7})).body["max_completion_tokens"] == 7
    disguised = {"chat": {"messages": messages, "n": 128}}
    assert request(CHAT, disguised).body["messages"][0]["content"].startswith("{")
    assert "n" not in request(CHAT, disguised).body
    assert request(CHAT, whole).body["model"] == "m"
    assert request(JSON | {"body": "{{item}}", "url": URL, "label": "/y"}, whole).body == "a"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_fills_what_is_not_given(preset: str) -> None:
    fixed = {"protocol": "openai-chat", "preset": preset, "url": f"{URL}/v1", "model": "m"}
    fields = {name: value for name, value in PRESETS[preset].items() if name != "url"}
    endpoint = ENDPOINT.validate_python(fixed)
    assert {name: getattr(endpoint, name) for name in fields} == fields
    assert endpoint.url == f"{URL}/v1"
    assert ENDPOINT.validate_json(ENDPOINT.dump_json(endpoint)) == endpoint
    own = ENDPOINT.validate_python(fixed | {"drops": ["user"], "logprobs": True})
    assert isinstance(own, ChatEndpoint)
    assert (own.drops, own.logprobs) == (("user",), True)
    whole = Chat([], {"max_tokens": 9, "top_k": 1, "temperature": 1.5})
    body = request(fixed, whole).body
    assert body.get("max_completion_tokens", body.get("max_tokens")) == 9
    assert not body.keys() & set(fields.get("drops", ()))


def chat_reply(content: Any, **more: Any) -> dict[str, Any]:
    choice = {"message": {"content": content}, **more}
    return {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 2}}


def test_chat_is_as_sure_as_its_tokens_and_costs_what_they_cost() -> None:
    tokens = {"content": [{"logprob": -0.1}, {"logprob": -0.3}]}
    said = read(CHAT, chat_reply("yes", logprobs=tokens))
    assert (said.label, said.input_tokens, said.output_tokens) == ("yes", 10, 2)
    assert said.confidence == pytest.approx(0.8187, abs=1e-4)
    assert read(CHAT, chat_reply("yes", logprobs=None)).confidence is None


@pytest.mark.parametrize(
    ("answer", "text", "label", "confidence"),
    [
        (Choice(labels=("Spam", "No spam")), "  no  SPAM. ", "No spam", None),
        (JsonAnswer(confidence="/sure"), '{"label": "a", "sure": 0.5}', "a", 0.5),
        (Pattern(pattern=r"answer: (\w+)"), "so the answer: B!", "B", None),
        (Pattern(pattern=r"\d+"), "about 42 or 43", "42", None),
        (WholeText(), "free text", "free text", None),
        (Pattern(pattern=r"(?:a+)+$|b"), "a" * 5000 + "b", "b", None),  # which would take for ever elsewhere
        (Choice(labels=("a",)), "ab", None, None),
        (JsonAnswer(), "no json", None, None),
        (JsonAnswer(), "{}", None, None),
        (Pattern(pattern="x"), "y", None, None),
        (WholeText(), "", None, None),
    ],
)
def test_labels_are_read_from_answers(answer: Any, text: str, label: str | None, confidence: float | None) -> None:
    if label is not None:
        assert read_label(answer, text) == (label, confidence)
        return
    with pytest.raises(TemplateMismatch):
        read_label(answer, text)


def test_several_embeddings_are_put_into_the_order_of_their_texts() -> None:
    endpoint = {"protocol": "openai-embeddings", "url": URL, "model": "e"}
    body = request(endpoint | {"dimensions": 2}, "text").body
    assert body == {"model": "e", "input": "text", "encoding_format": "float", "dimensions": 2}
    assert read(endpoint | {"dimensions": 2}, {"data": [{"embedding": [0.5, 1]}]}).values == (0.5, 1.0)
    asked = request(endpoint, TextBatch(("a", "b", "c")))
    assert (asked.body["input"], asked.answers) == (["a", "b", "c"], 3)
    vectors = {0: [1.0, 2.0], 1: [3.0, 4.0], 2: [5.0, 6.0]}
    data = [{"index": place, "embedding": vectors[place]} for place in (2, 0, 1)]
    said = openai_embeddings.read({"data": data, "usage": {"prompt_tokens": 9}}, 3)
    assert (said.values, said.input_tokens) == ((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 9)
    unplaced = [{"embedding": vectors[place]} for place in range(3)]
    assert openai_embeddings.read({"data": unplaced}, 3).values == said.values


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "must have 2 embeddings, one per text, got 0"),
        ([{"embedding": [1.0]}], "must have 2 embeddings, one per text, got 1"),
        ([{"index": 0, "embedding": [1.0]}] * 2, "indices"),
        ([{"index": -1, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}], "indices"),
        ([{"index": True, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}], "indices"),
        ([{"index": 0, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}], "indices"),
        ([{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}], "equal lengths"),
        ([{"embedding": [1.0]}, "no object"], "embedding"),
        ([{"embedding": [1.0]}, {"embedding": [None]}], "got null"),
    ],
)
def test_a_reply_that_lacks_an_embedding_is_none(data: Any, said: str) -> None:
    with pytest.raises(TemplateMismatch, match=said):
        openai_embeddings.read({"data": data}, 2)


@given(st.lists(st.text(max_size=8), min_size=1, max_size=40), st.integers(1, 9))
def test_texts_are_cut_into_requests_that_lose_none(texts: list[str], most: int) -> None:
    pieces = list(split_into_requests(texts, most))
    assert [text for piece in pieces for text in piece] == texts
    assert all(1 <= len(piece) <= most for piece in pieces)
    assert len(pieces) == -(-len(texts) // most)
    long = "x" * (MAX_LETTERS - 1)
    assert [len(piece) for piece in split_into_requests(["a", long, "b", "c", long + "yy", "d"], 9)] == [2, 2, 1, 1]


@given(
    st.lists(st.text(max_size=9), min_size=1, max_size=30),
    st.tuples(st.integers(0, 10**6), st.integers(0, 99)),
    st.floats(0, 1e6),
)
def test_what_a_request_took_is_shared_out_in_full(texts: list[str], tokens: tuple[int, int], cost: float) -> None:
    values = tuple(float(number) for number in range(2 * len(texts)))
    shares = split_call_by_text(CallResult("e", values=values, cost=cost, seconds=0.5, tokens=tokens), texts)
    assert [number for one in shares for number in one.values or ()] == list(values)
    assert sum(one.cost or 0.0 for one in shares) == pytest.approx(cost)
    assert sum(one.seconds for one in shares) == pytest.approx(0.5)
    assert tuple(sum(one.tokens[side] for one in shares) for side in (0, 1)) == tokens
    assert all(share >= 0 for one in shares for share in (*one.tokens, one.seconds))


def test_a_circuit_opens_after_failures_in_a_row_and_closes_after_one_good_try() -> None:
    circuit = CircuitBreaker()
    for _ in range(FAILURES - 1):
        circuit.record_end(0.0, True, False)
    circuit.record_end(0.0, None, False)
    circuit.record_end(0.0, False, False)
    for _ in range(FAILURES - 1):
        circuit.record_end(0.0, True, False)
    assert circuit.allows_call(0.0)
    circuit.record_end(1.0, True, False)
    assert (circuit.state_at(1.0), circuit.allows_call(1.0)) == ("open", False)
    circuit.record_end(2.0, False, False)  # a call that was begun before
    assert circuit.state_at(2.0) == "open"
    later = 1.0 + OPEN_CIRCUIT_S
    assert (circuit.state_at(later), circuit.allows_call(later)) == ("half-open", True)
    assert circuit.record_start(later)
    assert not circuit.allows_call(later)
    circuit.record_end(later, True, False)  # another one of these
    assert not circuit.allows_call(later)
    circuit.record_end(later, True, True)
    assert circuit.state_at(later + 1) == "open"
    again = later + OPEN_CIRCUIT_S
    assert circuit.record_start(again)
    circuit.record_end(again, False, True)
    assert circuit.state_at(again) == "closed"


def test_a_tensor_nested_without_end_is_refused_at_once() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(TemplateMismatch, match="8 levels"):
        flatten([deep, *[1] * 100_000])
    assert flatten([1, [2, [3]], 4]) == [1, 2, 3, 4]
