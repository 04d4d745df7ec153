"""The pipeline over HTTP: the curve, decisions, and an item's next step."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.test_errors import is_problem
from tests.support.samples import MIXED_SPEC, mixed_columns, to_csv
from tests.support.servers import Server, running_server, wait_for

pytestmark = pytest.mark.smoke

PATH = "/v1/pipelines/ward"


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with a pipeline called ``ward`` in it, and one of archived models."""
    with running_server(tmp_path_factory.mktemp("pipeline"), max_batch=50) as server:
        columns = {
            name: ["" if cell != cell or cell is None else cell for cell in column.tolist()]
            for name, column in mixed_columns().items()
        }
        table = ("table.csv", to_csv(columns), "text/csv")
        files: dict[str, Any] = {"spec": (None, json.dumps(MIXED_SPEC)), "table": table}
        reply = server.client.put("/v1/datasets/mixed", files=files)
        assert reply.status_code == 201, reply.text
        build(server, "ward", confidence_threshold=0.7)
        build(server, "bayes", confidence_threshold=0.7, learner="sklearn.naive_bayes.GaussianNB")
        yield server


def build(server: Server, name: str, **params: object) -> Any:
    """Build a pipeline and wait for it."""
    body = {"kind": "pipeline", "name": name, "dataset": "mixed", "params": params}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 60)
    reply = server.client.get(path).json()
    assert reply["status"] == "succeeded", reply
    wait_for(lambda: server.client.get(f"/v1/pipelines/{name}/curve").status_code == 200, 5)
    return server.client.get(f"/v1/artifacts/pipeline/{name}").json()


def test_the_front_lists_what_decisions_choose_from(staged: Server) -> None:
    front = staged.client.get(f"{PATH}/curve").json()
    assert front["unit"] == "min"
    decisions = [point["decision"] for point in front["points"]]
    costs = [item["cost"] for item in decisions]
    assert costs == sorted(costs)
    for item, point in list(zip(decisions, front["points"], strict=True))[::4]:
        most = point["expected"]["cost_interval"][1]  # two standard errors above, of which one is spared
        decision = staged.client.get(f"{PATH}/decision", params={"budget": most}).json()
        assert decision["cost"] <= most
        chosen_by = [one["validation"]["conclusive_accuracy"] for one in (decision, item)]
        assert chosen_by[0] >= chosen_by[1]  # the rows that report have no part in the choice
        assert {k: v for k, v in decision.items() if k in item} == decisions[decision["solution"]]
        pinned = staged.client.get(f"{PATH}/decision", params=point["limits"]).json()
        assert pinned["stages"] == item["stages"]
        assert decision["artifact"] == {"kind": "pipeline", "name": "ward", "version": 1}


def test_minima_are_met_by_the_cheapest(staged: Server) -> None:
    front = [point["decision"] for point in staged.client.get(f"{PATH}/curve").json()["points"]]
    wanted = {"min_coverage": 0.5, "min_accuracy": 0.6}
    decision = staged.client.get(f"{PATH}/decision", params=wanted).json()
    fine = [one for one in front if one["coverage"] >= 0.5 and one["conclusive_accuracy"] >= 0.6]
    assert decision["validation"]["cost"] == min(one["validation"]["cost"] for one in fine)
    assert "cheapest" in decision["reason"]


def test_where_each_item_gets_an_answer_no_share_of_them_is_estimated(staged: Server) -> None:
    build(staged, "always", confidence_threshold=0.7, after_last_stage="answer")
    sure, unsure = (staged.client.get(f"/v1/pipelines/{name}/decision").json() for name in ("always", "ward"))
    assert sure["coverage"] == 1.0
    assert sure["expected"].keys() == {"accuracy", "accuracy_interval", "cost", "cost_interval"}
    assert "coverage=" not in sure["decision"]
    low, high = unsure["expected"]["coverage_interval"]
    assert low <= unsure["coverage"] <= high
    assert low < high


def test_what_nothing_meets_is_infeasible_with_the_numbers(staged: Server) -> None:
    reply = staged.client.get(f"{PATH}/decision", params={"budget": 0.01})
    assert is_problem(reply, 409, "infeasible")
    assert "the limit is 0.01" in reply.json()["detail"]


@pytest.mark.parametrize("name", ["ward", "bayes"])
def test_an_item_is_walked_to_its_end(staged: Server, name: str) -> None:
    whole = {"age": 61, "blood": [8.2, None], "ward": "a"}
    known: dict[str, Any] = {}
    for _ in range(4):
        reply = staged.client.post(f"/v1/pipelines/{name}/decision", json={"acquired": known}).json()
        step = reply["step"]
        if step["action"] != "acquire":
            break
        assert step["cost"] > 0
        known |= {feature: whole[feature] for feature in step["features"]}
    assert step["action"] in ("classify", "reject")
    assert 0 <= step["confidence"] <= 1
    assert reply["artifact"]["name"] == name
    assert step.get("label", "ill") in ("ill", "well")


@pytest.mark.parametrize("name", ["ward", "bayes"])
def test_items_are_evaluated_as_they_are_walked(staged: Server, name: str) -> None:
    items: list[dict[str, Any]] = [
        {"age": 40.0, "blood": [3.0, 0.5], "ward": "b"},
        {"age": 70.0, "blood": [9.0, 0.1], "ward": None},
        {"age": 61.0, "blood": [8.2, None], "ward": "new"},
    ]
    body = {"items": [{"values": item} for item in items], "solution": 0}
    evaluated = staged.client.post(f"/v1/pipelines/{name}/evaluate", json=body).json()["items"]
    for item, one in zip(items, evaluated, strict=True):
        asked = {"acquired": item, "solution": 0}
        decision = staged.client.post(f"/v1/pipelines/{name}/decision", json=asked).json()
        step, stages = decision["step"], decision["stages"][: decision["step"]["stage"] + 1]
        assert one["accepted"] == (step["action"] == "classify")
        assert (one["label"], one["confidence"]) == (step.get("label"), step["confidence"])
        assert one["cost"] == pytest.approx(sum(stage["cost"] for stage in stages))
        assert one["path"] == [feature for stage in stages for feature in stage["features"]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"acquired": {"weight": 1}}, "acquired.weight: feature not found; available: age, blood, ward"),
        ({"acquired": {"blood": 1}}, "must have 2 values, got 1"),
        ({"acquired": {}, "solution": 9999}, "got 9999"),
        ({"acquired": {"age": "old"}}, "must be a number"),
        ({"solution": 0, "budget": 3}, "solution cannot be combined with limits"),
    ],
)
def test_bad_steps_are_refused_by_their_field(staged: Server, body: dict[str, Any], message: str) -> None:
    reply = staged.client.post(f"{PATH}/decision", json=body)
    assert is_problem(reply, 422, "invalid-request")
    assert message in reply.json()["detail"]


def test_a_batch_over_the_limit_is_refused_and_one_that_reaches_it_is_not(staged: Server) -> None:
    item = {"values": {"age": 40.0, "blood": [3.0, 0.5], "ward": "b"}}
    assert staged.client.post(f"{PATH}/evaluate", json={"items": [item] * 50}).status_code == 200
    reply = staged.client.post(f"{PATH}/evaluate", json={"items": [item] * 51})
    assert is_problem(reply, 413, "payload-too-large")
    assert "must be at most 50 (PARSIMONY_MAX_BATCH), got 51" in reply.json()["detail"]


def test_bad_limits_are_refused(staged: Server) -> None:
    for params in ({"budget": -1}, {"min_accuracy": 1.5}, {"min_coverage": "nan"}, {"most": 1}):
        assert is_problem(staged.client.get(f"{PATH}/decision", params=params), 422, "invalid-request")
