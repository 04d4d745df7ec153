"""Logs of model calls over HTTP: stored as a dataset, with a report of what was used; refused with the reason."""

import json
from typing import Any

import numpy as np

from tests.support.servers import Server

JSON = "application/json"


def log(calls: int = 200, **changes: Any) -> bytes:
    rng = np.random.default_rng(1)
    lines = []
    for number in range(calls):
        model, right = ("small", "large")[rng.random() < 0.5], bool(rng.random() < 0.7)
        call = {"id": f"r{number}", "model": model, "prompt": f"q {number % 150}", "correct": right, "cost": 1.5}
        renamed = {"q": call["prompt"]} if changes else {}
        lines.append(json.dumps({**call, **renamed, **changes}))
    return "\n".join(lines).encode()


def put(server: Server, name: str, **parts: Any) -> Any:
    return server.client.put(f"/v1/datasets/{name}/calls", files=parts)


def test_a_log_is_stored_as_a_partial_trace(server: Server) -> None:
    broken = log() + b'\n{"id": "x", "model": "small", "prompt": "q", "cost": 1}\n'
    reply = put(server, "imported", log=("calls.jsonl", broken))
    assert reply.status_code == 201, reply.text
    stored = reply.json()
    assert (stored["records"], stored["calls"], list(stored["unused"].values())) == (201, 200, [1])
    assert (stored["spec"]["item"], stored["spec"]["text"], stored["embedding_dimensions"]) == ("item", "prompt", 258)
    assert stored["items"] == 150
    assert stored["complete_rows"] < 60
    assert "partial-calls" in {one["code"] for one in stored["warnings"]}
    profile = server.client.get("/v1/datasets/imported/profile").json()
    assert sum(one["calls"] for one in profile["classifiers"]) == 200
    again = put(server, "imported", log=("calls.jsonl", log()))
    assert (again.status_code, again.json()["replaced"]["rows"]) == (200, stored["rows"])


def test_feedback_prices_and_pointers_are_parts(server: Server) -> None:
    calls = log(prompt=None, correct=None, cost=None, prompt_tokens=1000, completion_tokens=0)
    outcomes = "\n".join(json.dumps({"request_id": f"r{number}", "quality": 0.5}) for number in range(200))
    reply = put(
        server,
        "priced",
        log=("calls.jsonl", calls),
        feedback=("feedback.jsonl", outcomes.encode()),
        prices=(None, json.dumps({name: {"input_per_million": 3.0} for name in ("small", "large")}), JSON),
        options=(None, json.dumps({"unit": "EUR", "pointers": {"text": "/q"}}), JSON),
    )
    assert reply.status_code == 201, reply.text
    assert (reply.json()["calls"], reply.json()["spec"]["unit"]) == (200, "EUR")


def test_bad_logs_are_refused_by_part_and_nothing_is_stored(server: Server) -> None:
    cases = (
        ({"log": ("x", b"")}, "x"),
        ({"log": ("x", b'{"a": 1}')}, "log"),
        ({"log": ("x", log(correct=None))}, "log"),
        ({"log": ("x", b'{"model": 1}\nnonsense')}, "log"),
        ({"log": ("x", log()), "table": ("y", b"")}, "table"),
        ({"log": ("x", log()), "prices": (None, '{"small": {"input_per_million": -1}}', JSON)}, "prices"),
        ({"log": ("x", log()), "options": (None, '{"pointers": {"prompt": "/x"}}', JSON)}, "pointers"),
        ({"feedback": ("x", log())}, "log"),
    )
    for parts, _ in cases:
        reply = put(server, "refused", **parts)
        assert reply.status_code == 422, (parts, reply.text)
        assert reply.json()["errors"], reply.text
    assert server.client.get("/v1/datasets/refused").status_code == 404
