"""The hot path and the route behind it answer alike, and the documentation tells everything."""

import httpx
import pytest

from tests.support.servers import Server

PATH = "/v1/cascades/trace/decision"
BAD = ["0.5", "nan", "inf", "-inf", "", "-3", "0", "x", "true", "1e999", "0x10", "12&deadline=13", "12&dedline=13"]
GOOD = ["12", "12.5", "1e2", "14.25", "99999999", "012", "12.", ".5e2", "2", "1_0"]


@pytest.mark.parametrize("value", GOOD + BAD)
def test_the_hot_path_answers_as_the_route_does(server: Server, value: str) -> None:
    """An escape in the parameter's name says the same and is left to the route."""
    same_id = {"x-request-id": "same"}
    hot = server.client.get(f"{PATH}?deadline={value}", headers=same_id)
    routed = server.client.get(f"{PATH}?%64eadline={value}", headers=same_id)
    assert hot.status_code == routed.status_code == (200 if value in GOOD else hot.status_code)
    assert hot.content == routed.content
    assert hot.headers["content-type"] == routed.headers["content-type"]
    assert (hot.status_code == 200) == (value in GOOD)


@pytest.mark.parametrize("query", ["dedline=5", "deadline=12&dedline=5", "deadline=12&deadline=13", "deadline=12&a"])
def test_a_parameter_that_is_unknown_or_given_twice_is_refused(server: Server, query: str) -> None:
    reply = server.client.get(f"{PATH}?{query}")
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["loc"] == [query.rpartition("&")[2].partition("=")[0]]


@pytest.mark.parametrize("deadline", [None, 12, 12.5, 1e6])
def test_a_decision_by_version_comes_from_the_route_and_is_the_same(server: Server, deadline: float | None) -> None:
    params = {} if deadline is None else {"deadline": deadline}
    version = server.client.get(PATH).json()["artifact"]["version"]
    hot, routed = server.client.get(PATH, params=params), server.client.get(PATH, params={**params, "version": version})
    assert hot.status_code == routed.status_code == 200
    assert hot.content == routed.content


def test_a_decision_carries_all_that_a_caller_needs(server: Server) -> None:
    decision = server.client.get(PATH, params={"deadline": 14.2}).json()
    assert decision["maximum_duration"] <= 14.2
    assert [step["classifier"] for step in decision["steps"]] == decision["cascade"]
    assert decision["steps"][-1]["confidence_threshold"] is None
    assert all(0 < step["confidence_threshold"] < 1 for step in decision["steps"][:-1])
    assert decision["steps"][0]["probability_of_reaching"] == 1.0
    assert decision["artifact"] == {"solver": "cascade", "name": "trace", "version": 1}


def test_the_step_function_agrees_with_single_decisions(server: Server) -> None:
    reply = server.client.get("/v1/cascades/trace/deadlines").json()
    assert reply["unit"] == "ms"
    for span in reply["items"]:
        at = server.client.get(PATH, params={"deadline": span["deadline_from"]}).json()
        assert (at["cascade"], at["expected_duration"]) == (span["cascade"], span["expected_duration"])
    assert reply["items"][-1]["deadline_to"] is None


def test_decisions_are_counted_by_outcome(server: Server) -> None:
    def counted(outcome: str) -> float:
        label = f'parsimony_decisions_total{{name="trace",outcome="{outcome}",solver="cascade"}} '
        lines = [line for line in server.client.get("/metrics").text.splitlines() if line.startswith(label)]
        return float(lines[0].split()[-1]) if lines else 0.0

    before = counted("answered"), counted("infeasible")
    server.client.get(PATH)
    server.client.get(PATH, params={"deadline": 0.5})
    assert (counted("answered"), counted("infeasible")) == (before[0] + 1, before[1] + 1)


def test_a_request_for_the_root_gives_the_console_which_leads_to_the_documentation(server: Server) -> None:
    reply = httpx.get(server.url, trust_env=False)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert 'href="/docs"' in reply.text
