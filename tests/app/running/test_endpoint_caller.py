"""Calls of real servers with really trained models, and every fault that they have by switch."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from app.observability.metrics import Metrics
from app.running.circuit_breaker import FAILURES
from app.running.endpoint_caller import UNKNOWN, EndpointCaller
from app.running.protocols.message import Chat
from app.running.protocols.openai_embeddings import TextBatch
from app.running.ssrf_guard import SsrfGuard
from models.endpoint import ENDPOINT
from parsimony.runs.steps import CIRCUIT_OPEN, CallResult
from tests.support.llm_server import LlmServer, running_llms
from tests.support.model_process import ModelServer, running_models
from tests.support.servers import free_port
from tests.support.trained import LEARN, trained

KEY = "sk-very-secret"
SECRET = {"secret": "PARSIMONY_SECRET_TEST", "secret_header": "X-Key"}


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with running_models() as server:
        yield server


@pytest.fixture
def image() -> list[float]:
    pixels: list[float] = trained().images[LEARN + 800].tolist()
    return pixels


def called(
    endpoints: dict[str, Any],
    name: str,
    item: Any,
    *,
    within: float = 20.0,
    times: int = 1,
    environ: Any = None,
    hosts: tuple[str, ...] = ("127.0.0.1",),
) -> list[CallResult]:

    async def work() -> list[CallResult]:
        caller = EndpointCaller(SsrfGuard(hosts), Metrics(), environ or {"PARSIMONY_SECRET_TEST": KEY})
        caller.update_endpoints({each: ENDPOINT.validate_python(one) for each, one in endpoints.items()})
        try:
            return [await caller.call_endpoint(name, item, within) for _ in range(times)]
        finally:
            await caller.close()

    return asyncio.run(work())


def test_every_protocol_gives_what_the_classifier_says(models: ModelServer, image: list[float]) -> None:
    models.switch()
    shares = trained().answer("all", image)
    best = max(shares, key=lambda label: shares[label])
    endpoints = {
        "json": models.json_endpoint("all"),
        "tensors": models.inference_endpoint("all"),
        "chat": models.chat_endpoint(
            "all", prices={"input_per_million": 5e5, "output_per_million": 2e6, "per_call": 1.0}
        ),
    }
    for name in endpoints:
        (heard,) = called(endpoints, name, image)
        assert (heard.label, heard.error, heard.attempts) == (best, None, 1)
        assert heard.confidence == pytest.approx(shares[best])
    assert called(endpoints, "chat", image)[0].cost == 64 * 0.5 + 2.0 + 1.0
    judge = models.json_endpoint("half", body={"pixels": "{{item/item}}"})  # where the model tells no confidence
    judged = models.chat_endpoint("all", logprobs=False, judge="judge")
    (heard,) = called({"chat": judged, "judge": judge}, "chat", image)
    assert heard.confidence == pytest.approx(max(trained().answer("half", image).values()))


def test_the_agreement_of_several_answers_is_their_confidence() -> None:
    """A failed call counts as another answer; every call is paid, and none requests log-probabilities."""
    prices = {"input_per_million": 1000.0, "output_per_million": 0.0}
    with running_llms() as llms:
        sampled = llms.endpoint("cheap", samples=5, prices=prices, answer={"kind": "choice", "labels": ["yes", "no"]})
        llms.switch(cheap={"contents": ["yes", "No.", "no", "maybe", "NO"]})
        (result,) = called({"cheap": sampled}, "cheap", "is it?")
        assert (result.label, result.confidence, result.cost, result.attempts) == ("no", 0.6, 5.0, 5)
        assert all("logprobs" not in body and "temperature" not in body for body in llms.bodies["cheap"])
        llms.switch(cheap={"contents": ["maybe"]})
        (failed,) = called({"cheap": sampled}, "cheap", "is it?")
        assert (failed.label, failed.confidence, failed.cost, failed.is_paid) == (None, None, 5.0, True)
        assert failed.error is not None
        llms.switch()
        several = Chat([{"role": "user", "content": "easy"}], {"n": 2})
        (result,) = called({"cheap": llms.endpoint("cheap", samples=5)}, "cheap", several)
        assert llms.calls() == {"cheap": 1}
        assert len((result.reply or {})["choices"]) == 2


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"judge": "other"}, {"samples": 21}])
def test_samples_that_cannot_differ_are_refused(wrong: dict[str, Any]) -> None:
    endpoint = {"protocol": "openai-chat", "url": "https://a.example/v1", "model": "m", "samples": 3}
    with pytest.raises(ValidationError):
        ENDPOINT.validate_python(endpoint | wrong)


FAULTS = [
    ("error", {}, "answered 500", 1),
    ("garbage", {}, "must be JSON", 1),
    ("endless", {"max_reply_bytes": 10_000}, "at most 10000 bytes", 1),
    ("wrong-shape", {}, "/answer/label not found", 1),
    ("redirect", {}, "answered 307; redirects are not followed", 1),
    ("reset", {}, "connection lost", 1),
    ("busy", {"retries": {"attempts": 3, "backoff_s": 0.0}}, "answered 429", 3),
    ("hang", {"timeout_s": 0.3}, "no answer within 0.3 s", 1),
]


@pytest.mark.parametrize(("fault", "changes", "said", "tries"), FAULTS, ids=[fault for fault, *_ in FAULTS])
def test_a_fault_is_an_error_that_says_what_and_nothing_is_asked_twice_that_may_be_paid(
    models: ModelServer, image: list[float], fault: str, changes: dict[str, Any], said: str, tries: int
) -> None:
    models.switch(all=fault)
    started = time.monotonic()
    (heard,) = called({"all": models.json_endpoint("all", **changes)}, "all", image)
    assert time.monotonic() - started < 15
    assert said in str(heard.error)
    assert "secret trace" not in str(heard.error)
    assert (heard.label, heard.attempts) == (None, tries)
    assert models.counted()["calls"]["all"] == tries


def test_what_is_busy_is_asked_again_when_it_says_and_not_if_that_is_too_late(
    models: ModelServer, image: list[float]
) -> None:
    models.switch(all="busy-once")
    (heard,) = called({"all": models.json_endpoint("all")}, "all", image)
    assert (heard.error, heard.attempts, models.counted()["answered"]) == (None, 2, {"all": 1})
    endpoint = {"all": models.json_endpoint("all", retries={"attempts": 2, "backoff_s": 0.0})}
    models.switch(all="busy-a-second")
    (heard,) = called(endpoint, "all", image)
    assert (heard.error, heard.attempts, heard.seconds >= 1.0) == (None, 2, True)
    models.switch(all="busy-a-second")
    (late,) = called(endpoint, "all", image, within=0.5)
    assert (late.attempts, models.counted()["calls"]) == (1, {"all": 1})
    assert "no answer within 0.5 s" in str(late.error)
    assert "answered 429" in str(late.error)


def test_where_nothing_listens_it_is_tried_again_and_said(image: list[float]) -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    endpoint = {"protocol": "json", "url": url, "label": "/l", "retries": {"backoff_s": 0.0}}
    (heard,) = called({"all": endpoint}, "all", image)
    assert ("connection failed" in str(heard.error), heard.attempts) == (True, 2)
    (heard,) = called({}, "all", None)
    assert (heard.error, heard.attempts) == (UNKNOWN, 0)


@pytest.mark.parametrize("fault", ["hang", "reset", "endless"])
def test_a_call_that_is_cut_off_costs_its_price(models: ModelServer, image: list[float], fault: str) -> None:
    models.switch(all=fault)
    endpoint = models.json_endpoint("all", prices={"per_call": 3.0}, max_reply_bytes=10_000)
    (heard,) = called({"all": endpoint}, "all", image, within=0.3)
    assert (heard.label, heard.cost, heard.is_paid) == (None, 3.0, True)
    assert fault != "hang" or ("no answer within 0.3 s" in str(heard.error) and heard.seconds < 5)


def test_an_endpoint_that_fails_again_and_again_is_left_out_and_logged_once(
    models: ModelServer, image: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    models.switch(all="error")
    heard = called({"all": models.json_endpoint("all")}, "all", image, times=FAILURES + 2)
    assert [one.error for one in heard[-2:]] == [CIRCUIT_OPEN, CIRCUIT_OPEN]
    assert models.counted()["calls"] == {"all": FAILURES}
    (line,) = (each.getMessage() for each in caplog.records if each.name == "parsimony.endpoints")
    assert str(heard[FAILURES - 1].error) in line


def test_the_key_is_sent_if_it_is_one_only_to_named_hosts_and_never_told(
    models: ModelServer, image: list[float]
) -> None:
    models.switch()
    secret = models.json_endpoint("all", **SECRET)
    for value in ("", "a\r\nX-Other: b", "ключ"):
        (heard,) = called({"all": secret}, "all", image, environ={"PARSIMONY_SECRET_TEST": value})
        assert "PARSIMONY_SECRET_TEST" in str(heard.error)
    (heard,) = called({"all": secret | {"url": "http://models.invalid/"}}, "all", image, hosts=("*",))
    assert "keys are sent only to hosts" in str(heard.error)
    assert models.counted()["calls"] == {}
    (heard,) = called({"all": models.json_endpoint("all", **SECRET)}, "all", image)
    assert heard.error is None
    assert KEY in models.counted()["keys"]
    assert KEY not in repr(heard)
    models.switch(all="echo")  # a reply that repeats the key is no answer
    for pointers in ({}, {"label": "/answer/sure", "confidence": "/answer/label"}):
        (heard,) = called({"all": models.json_endpoint("all", **SECRET, **pointers)}, "all", image)
        assert (heard.label, heard.error) == (None, "the reply contains the secret of the request")


def test_a_get_is_never_sent_twice_by_itself(models: ModelServer, image: list[float]) -> None:
    models.switch()
    url = f"{models.url}/json/all?pixels={{{{item}}}}"
    endpoint = models.json_endpoint("all", method="GET", url=url)
    assert [one.error for one in called({"all": endpoint}, "all", image, times=2)] == [None, None]
    models.switch(all="reset")
    (heard,) = called({"all": endpoint}, "all", image)
    assert (heard.attempts, models.counted()["calls"]) == (1, {"all": 1})


def test_waiting_for_a_free_call_is_no_failure(models: ModelServer, image: list[float]) -> None:
    models.switch(all="slow")

    async def work() -> list[CallResult]:
        caller = EndpointCaller(SsrfGuard(("127.0.0.1",)), Metrics())
        endpoint = models.json_endpoint("all", concurrency=1, timeout_s=1.5)
        caller.update_endpoints({"all": ENDPOINT.validate_python(endpoint)})
        heard = await asyncio.gather(*(caller.call_endpoint("all", image, 20.0) for _ in range(8)))
        assert caller.circuit_state("all") == "closed"
        short = await asyncio.gather(*(caller.call_endpoint("all", image, 0.45) for _ in range(4)))
        assert any("no call was free" in str(one.error) for one in short)
        assert caller.circuit_state("all") == "closed"
        await caller.close()
        return heard

    assert [one.error for one in asyncio.run(work())] == [None] * 8


@pytest.mark.parametrize("fault", ["no-such-digit", "bad-item"])
def test_an_items_fault_opens_no_circuit_and_is_paid_all_the_same(
    models: ModelServer, image: list[float], fault: str
) -> None:
    models.switch(all=fault)
    endpoint = models.chat_endpoint("all", prices={"input_per_million": 5e5})
    heard = called({"all": endpoint}, "all", image, times=FAILURES + 1)
    assert CIRCUIT_OPEN not in [one.error for one in heard]
    if fault == "no-such-digit":
        assert heard[0].cost == 32.0
    assert heard[0].is_paid
    models.switch(all="slow")  # nor does a run that had no time, or an item that the template does not fit
    heard = called({"all": models.json_endpoint("all")}, "all", image, within=0.05, times=FAILURES + 1)
    assert CIRCUIT_OPEN not in [one.error for one in heard]
    models.switch()
    unfit = models.json_endpoint("all", body={"pixels": "{{item/pixels}}"})
    heard = called({"all": unfit}, "all", {"other": 1}, times=FAILURES + 1)
    assert {one.error for one in heard} == {"/pixels not found"}
    assert models.counted()["calls"] == {}


@pytest.mark.parametrize("item", [{"chat": {}}, {"chat": {"messages": [1]}}, 2**70, "\ud800", [float("1e308")]])
def test_no_item_raises(models: ModelServer, item: Any) -> None:
    models.switch()
    for endpoint in (models.json_endpoint("all"), models.chat_endpoint("all"), models.inference_endpoint("all")):
        (heard,) = called({"all": endpoint}, "all", item)
        assert heard.error is not None


def test_a_reply_to_several_texts_may_be_as_long_as_one_to_each(models: ModelServer, image: list[float]) -> None:
    endpoint = {"protocol": "openai-embeddings", "url": models.url, "model": "e", "max_reply_bytes": 800}
    text = json.dumps(image)
    (alone,) = called({"e": endpoint}, "e", text)
    (many,) = called({"e": endpoint}, "e", TextBatch((text,) * 8))
    assert alone.values is not None
    assert many.values == alone.values * 8
    (short,) = called({"e": endpoint | {"max_reply_bytes": 100}}, "e", TextBatch((text,) * 8))
    assert short.error == "the reply must have at most 800 bytes"


def test_a_caller_that_goes_away_ends_its_call(models: ModelServer, image: list[float]) -> None:
    models.switch(all="hang")

    async def work() -> None:
        caller = EndpointCaller(SsrfGuard(("127.0.0.1",)), Metrics())
        caller.update_endpoints({"all": ENDPOINT.validate_python(models.json_endpoint("all"))})
        calling = asyncio.create_task(caller.call_endpoint("all", image, 20.0))
        while not (await asyncio.to_thread(models.counted))["calls"]:
            await asyncio.sleep(0.02)
        calling.cancel()
        await asyncio.wait({calling})
        await caller.close()

    asyncio.run(work())
    for _ in range(200):
        if models.counted()["left"]:
            break
        time.sleep(0.05)
    assert models.counted()["left"] == {"all": 1}


def test_rejections_of_several_clients_in_a_row_open_the_circuit() -> None:
    def circuits(llms: LlmServer, clients: str) -> list[str]:
        async def work() -> list[str]:
            caller = EndpointCaller(SsrfGuard(("127.0.0.1",)), Metrics())
            caller.update_endpoints({"cheap": ENDPOINT.validate_python(llms.endpoint("cheap"))})
            states: list[str] = []
            for client in clients:
                llms.switch(cheap={} if client == "!" else refusal)
                await caller.call_endpoint("cheap", "item", 20.0, client=client)
                states.append(caller.circuit_state("cheap"))
            await caller.close()
            return states

        return asyncio.run(work())

    refusal: dict[str, Any] = {"status": 400}
    with running_llms() as llms:
        assert circuits(llms, "abc") == ["closed", "closed", "open"]
        assert set(circuits(llms, "aaaabb")) == {"closed"}
        assert set(circuits(llms, "ab!cd")) == {"closed"}  # an answer in between
        refusal["body"] = {"error": {"code": "context_length_exceeded"}}
        assert set(circuits(llms, "abcdef")) == {"closed"}
