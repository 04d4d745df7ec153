"""The policy over HTTP: steps without state, evaluation, traffic; from a trace and from a table of features."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.store.codec import decode, encode, read_manifest
from solvers.policy import PolicyPlan
from tests.conftest import upload
from tests.e2e.test_errors import is_problem
from tests.support.samples import trace_columns
from tests.support.servers import Server, running_server, wait_for

PATH = "/v1/policies/cats"
SMALL = {"points": 5, "trees": 10, "depth": 2}


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with a policy called ``cats`` in it."""
    with running_server(tmp_path_factory.mktemp("policy"), max_batch=100) as server:
        upload(server)
        body = {"kind": "policy", "name": "cats", "dataset": "trace", "params": SMALL}
        path = server.client.post("/v1/builds", json=body).headers["location"]
        wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 90)
        assert server.client.get(path).json()["status"] == "succeeded", server.client.get(path).json()
        wait_for(lambda: server.client.get(f"{PATH}/curve").status_code == 200, 5)
        yield server


def answers_of(row: int) -> dict[str, Any]:
    """Give what every classifier says of a row."""
    columns = trace_columns(60, seed=9)
    said: dict[str, Any] = {
        name: [columns[f"{name}_says"][row], columns[f"{name}_confidence"][row]] for name in ("fast", "middle")
    }
    return said | {"strong": columns["strong_says"][row]}


def walk(server: Server, row: int, **target: float) -> tuple[str, float, list[str]]:
    """Ask what is next until there is a class."""
    known: dict[str, Any] = {}
    cost, whole = 0.0, answers_of(row)
    for _ in range(4):
        request = {"item": f"row-{row}", "acquired": known, **target}
        step = server.client.post(f"{PATH}/decision", json=request).json()
        if step["action"] == "classify":
            return step["label"], cost, list(known)
        cost += step["cost"]
        known[step["sensor"]] = whole[step["sensor"]]
    raise AssertionError("a policy of three sensors asked for more")


@pytest.mark.parametrize(
    "target",
    [{}, {"budget": 3.0}, {"budget": 0.0}, {"tradeoff": 0.02}, {"deadline": 6.0}, {"deadline": 9.0, "budget": 3}],
)
def test_walking_by_steps_is_what_evaluation_says(asking: Server, target: dict[str, float]) -> None:
    items = [{"id": f"row-{row}", "values": answers_of(row)} for row in range(25)]
    evaluated = asking.client.post(f"{PATH}/evaluate", json={"items": items, **target}).json()
    assert evaluated["artifact"] == {"kind": "policy", "name": "cats", "version": 1}
    for row, one in enumerate(evaluated["items"]):
        label, cost, path = walk(asking, row, **target)
        assert (one["id"], one["label"], one["path"]) == (f"row-{row}", label, path)
        assert one["cost"] == pytest.approx(cost)


def test_a_deadline_shorter_than_anything_is_refused_with_the_numbers(asking: Server) -> None:
    asked = {"deadline": 0.01}
    items = {"items": [{"values": answers_of(0)}], **asked}
    for path, body in ((f"{PATH}/decision", asked), (f"{PATH}/evaluate", items)):
        problem = is_problem(asking.client.post(path, json=body), 409, "infeasible")
        assert "the fastest sensor, fast, takes up to 1 ms; the deadline is 0.01" in problem["detail"]
    (decision,) = asking.client.get("/v1/decisions?name=cats&deadline=0.01").json()["items"]
    assert "the fastest sensor" in decision["refusal"]
    assert decision["ignored"] == []


@pytest.mark.parametrize("query", ["", "budget=3", "budget=0", "tradeoff=0.02", "budget=3&version=1"])
def test_traffic_adds_up_to_what_the_curve_says(asking: Server, query: str) -> None:
    reply = asking.client.get(f"{PATH}/traffic?{query}").json()
    curve = [point["decision"] for point in asking.client.get(f"{PATH}/curve").json()["points"]]
    assert reply["artifact"] == {"kind": "policy", "name": "cats", "version": 1}
    assert (reply["unit"], reply["rows"], reply["nodes"][0]["items"]) == ("ms", 400, 400)
    assert sum(point["share"] for point in reply["points"]) == pytest.approx(1)
    assert all({name: point[name] for name in curve[0]} in curve for point in reply["points"])
    assert reply["error"] == pytest.approx(sum(node["wrong"] for node in reply["nodes"]) / 400)
    assert sum(node["stopped"] for node in reply["nodes"]) == pytest.approx(400)
    if query == "budget=3&version=1":
        assert sum(point["share"] * point["cost_bound"] for point in reply["points"]) == pytest.approx(3)


@pytest.mark.parametrize(
    ("query", "where"), [("budget=-1", "budget"), ("tradeoff=nan", "tradeoff"), ("cost=1", "cost")]
)
def test_a_bad_target_names_the_parameter(asking: Server, query: str, where: str) -> None:
    problem = is_problem(asking.client.get(f"{PATH}/traffic?{query}"), 422, "invalid-request")
    assert problem["errors"][0]["loc"] == [where]
    both = is_problem(asking.client.get(f"{PATH}/traffic?budget=1&tradeoff=1"), 422, "invalid-request")
    assert "tradeoff cannot be combined with budget" in both["detail"]


def test_a_version_without_counted_traffic_says_to_build_it_again(asking: Server) -> None:
    data = asking.client.get("/v1/artifacts/policy/cats/versions/1/export").content
    manifest = {name: value for name, value in read_manifest(data).items() if name not in ("format", "type")}
    del manifest["summary"]["traffic"]
    older = encode(decode(data, PolicyPlan), manifest | {"name": "older"})
    headers = {"content-type": "application/octet-stream"}
    assert asking.client.post("/v1/artifacts/import", content=older, headers=headers).status_code == 201
    wait_for(lambda: asking.client.get("/v1/policies/older/curve").status_code == 200, 5)
    problem = is_problem(asking.client.get("/v1/policies/older/traffic"), 409, "conflict")
    assert "build it again" in problem["detail"]


def test_an_answer_gives_every_class_its_probability(asking: Server) -> None:
    step = asking.client.post(f"{PATH}/decision", json={"budget": 0, "acquired": {}}).json()
    assert step["action"] == "classify"
    assert sum(step["probabilities"].values()) == pytest.approx(1)
    assert step["label"] == max(step["probabilities"], key=step["probabilities"].__getitem__)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"acquired": {"slow": "cat"}}, "slow"),
        ({"acquired": {"fast": ["cat", 0.5, 1]}}, "acquired.fast"),
        ({"acquired": {"fast": ["cat"]}}, "acquired.fast: must have label and confidence, got 1 values"),
        ({"budget": 1, "tradeoff": 1, "acquired": {}}, "tradeoff cannot be combined with budget"),
        ({"budget": -1}, "budget"),
    ],
)
def test_bad_steps_are_refused_by_their_field(asking: Server, body: dict[str, Any], message: str) -> None:
    reply = asking.client.post(f"{PATH}/decision", json=body)
    assert is_problem(reply, 422, "invalid-request")
    assert message in reply.json()["detail"]


def test_a_sensor_that_is_acquired_twice_is_refused(asking: Server) -> None:
    twice = b'{"budget": 3, "acquired": {"strong": "cat", "strong": "dog"}}'
    for kind in ("application/json", "application/json; charset=utf-8"):
        reply = asking.client.post(f"{PATH}/decision", content=twice, headers={"content-type": kind})
        assert is_problem(reply, 422, "invalid-request")
        assert reply.json()["detail"] == "strong: is a duplicate name"


def test_bad_items_are_refused_by_their_place(asking: Server) -> None:
    lacking = {"items": [{"values": answers_of(0)}, {"values": {"strong": "cat"}}]}
    reply = asking.client.post(f"{PATH}/evaluate", json=lacking)
    assert is_problem(reply, 422, "invalid-request")["errors"][0]["loc"] == ["items", 1, "values", "fast.label"]
    many = asking.client.post(f"{PATH}/evaluate", json={"items": [{"values": {}}] * 101})
    assert is_problem(many, 413, "payload-too-large")


JUDGED = "/v1/policies/judged"


def judged_rows(rows: int, seed: int) -> dict[str, Any]:
    """Draw how good the answers of two language models were, the small one of which tells how sure it is."""
    rng = np.random.default_rng(seed)
    sure = rng.random(rows).round(3)
    return {
        "small": (rng.random(rows) < 0.2 + 0.75 * sure).astype(int),
        "large": (0.7 + 0.3 * rng.random(rows)).round(2),
        "small sure": sure,
    }


@pytest.fixture(scope="module")
def judged(asking: Server) -> Server:
    """Add a policy of language models whose answers were judged, not told."""
    classifiers = [
        {"name": "small", "cost": 0.001, "correct": "small", "confidence": "small sure"},
        {"name": "large", "cost": 0.03, "quality": "large"},
    ]
    spec = {"kind": "trace", "unit": "USD", "classifiers": classifiers}
    columns = judged_rows(300, 0)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    files = {"spec": (None, json.dumps(spec), "application/json"), "table": ("t.csv", "\n".join(lines), "text/csv")}
    assert asking.client.put("/v1/datasets/judged", files=files).status_code == 201
    body = {"kind": "policy", "name": "judged", "dataset": "judged", "params": {"trees": 16, "depth": 2}}
    path = asking.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: asking.client.get(path).json()["status"] not in ("queued", "running"), 90)
    assert asking.client.get(path).json()["status"] == "succeeded", asking.client.get(path).json()
    wait_for(lambda: asking.client.get(f"{JUDGED}/curve").status_code == 200, 5)
    return asking


def test_of_judged_answers_a_policy_says_whose_to_take(judged: Server) -> None:
    columns = judged_rows(40, 1)
    items = [
        {
            "id": str(row),
            "values": {
                "small": {"confidence": columns["small sure"][row], "correct": int(columns["small"][row])},
                "large": {"correct": columns["large"][row]},
            },
        }
        for row in range(40)
    ]
    evaluated = judged.client.post(f"{JUDGED}/evaluate", json={"items": items, "budget": 0.015}).json()
    assert {one["classifier"] for one in evaluated["items"]} == {"small", "large"}
    for row, one in enumerate(evaluated["items"]):
        assert one["correct"] == columns[one["classifier"]][row]
        known: dict[str, Any] = {}
        while True:
            asked = {"item": str(row), "budget": 0.015, "acquired": known}
            step = judged.client.post(f"{JUDGED}/decision", json=asked).json()
            if step["action"] == "answer":
                break
            known[step["sensor"]] = columns["small sure"][row] if step["sensor"] == "small" else None
        assert (step["answer"], list(known), one["label"]) == (one["classifier"], one["path"], None)
        assert step["qualities"].keys() == known.keys()
        assert step["quality"] == max(step["qualities"].values()) == pytest.approx(1 - step["expected_loss"])


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"acquired": {"small": "yes"}}, 422, "acquired.small: must be the confidence, a number"),
        ({"acquired": {"large": 0.5}}, 422, "acquired.large: must be null"),
        ({"budget": 0.0005}, 409, "the cheapest answer costs 0.001 USD, the budget is 0.0005"),
    ],
)
def test_what_judged_answers_cannot_have_told_is_refused(
    judged: Server, body: dict[str, Any], status: int, message: str
) -> None:
    reply = judged.client.post(f"{JUDGED}/decision", json=body)
    assert is_problem(reply, status, "infeasible" if status == 409 else "invalid-request")
    assert message in reply.json()["detail"]


def test_judged_answers_have_a_curve_traffic_and_a_what_if(judged: Server) -> None:
    points = judged.client.get(f"{JUDGED}/curve").json()["points"]
    assert points[0]["expected"]["cost"] >= 0.001
    traffic = judged.client.get(f"{JUDGED}/traffic?budget=0.02").json()
    assert traffic["nodes"][0]["stopped"] == 0
    assert sum(node["stopped"] for node in traffic["nodes"]) == pytest.approx(300)
    asked = judged.client.get("/v1/decisions?name=judged&budget=0.02").json()
    assert [one["decision"]["action"] for one in asked["items"]] == ["acquire"]
    (timeless,) = judged.client.get("/v1/decisions?name=judged&budget=0.02&deadline=5").json()["items"]
    assert (timeless["decision"]["action"], timeless["ignored"]) == ("acquire", ["deadline"])
    too_little = judged.client.get("/v1/decisions?name=judged&budget=0.0001").json()
    assert "the cheapest answer costs" in str(too_little)


def test_what_became_of_judged_answers_is_counted(judged: Server) -> None:
    step = judged.client.post(f"{JUDGED}/decision", json={"budget": 0.02, "item": "a"}).json()
    row = {"small": 1, "large": 0.9, "small sure": 0.7}
    outcome = {"decision": step["decision"], "classifier": "large", "quality": 0.8, "cost": 0.03, "row": row}
    fed_back = judged.client.post("/v1/feedback", json={"items": [outcome]})
    assert fed_back.status_code == 200, fed_back.text
    assert (fed_back.json()["accepted"], fed_back.json()["rows"]) == (1, 1)
    report = judged.client.get("/v1/feedback/policy/judged").json()
    assert report["accuracy"]["actual"] == pytest.approx(0.8)
