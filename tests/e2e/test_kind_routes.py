"""The routes that every kind has: decision by GET and POST, evaluation in all forms, trade-off curve."""

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from app.cli.main import Commands
from models.base import LIMITS
from models.validation_messages import NO_LIMIT
from solvers import KINDS
from tests.support.kinds import SAMPLES
from tests.support.samples import feature_columns, mixed_columns, trace_columns, trace_embeddings
from tests.support.servers import Server

ROWS = 60
PARQUET, NPY, NDJSON = "application/vnd.apache.parquet", "application/x-npy", "application/x-ndjson"
CLASSIFIERS = ("fast", "middle", "strong")


def path_of(kind: str, operation: str) -> str:
    return f"/v1/{KINDS[kind].plural}/plan/{operation}"


def items_of(kind: str) -> list[dict[str, Any]]:
    """Make complete items of the rows of a kind's sample dataset."""
    if SAMPLES[kind].dataset == "trace":
        cells = trace_columns()
        embeddings = trace_embeddings(cells)
        return [
            {
                "id": f"row-{at}",
                "truth": cells["truth"][at],
                "values": {name: _answer(cells, name, at) for name in CLASSIFIERS},
                **({"embedding": embeddings[at].tolist()} if kind == "portfolio" else {}),
            }
            for at in range(ROWS)
        ]
    columns = feature_columns() if SAMPLES[kind].dataset == "features" else mixed_columns()
    size = {"size": 64} if kind == "index" else {}
    return [
        {"id": f"row-{at}", "values": {name: _cell(own[at]) for name, own in columns.items()}, **size}
        for at in range(ROWS)
    ]


def _answer(cells: dict[str, Any], name: str, at: int) -> dict[str, Any]:
    answer = {"label": cells[f"{name}_says"][at]}
    if f"{name}_confidence" in cells:
        answer["confidence"] = float(cells[f"{name}_confidence"][at])
    return answer


def _cell(cell: Any) -> Any:
    cell = cell.item() if isinstance(cell, np.generic) else cell
    return None if cell != cell else cell


def evaluate(server: Server, kind: str, **limits: Any) -> dict[str, Any]:
    reply = server.client.post(path_of(kind, "evaluate"), json={"items": items_of(kind), **limits})
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


@pytest.mark.parametrize("kind", KINDS)
def test_a_decision_is_the_same_by_get_and_by_post(kind: str, all_kinds: Server) -> None:
    inputs = SAMPLES[kind].inputs
    posted = all_kinds.client.post(path_of(kind, "decision"), json=inputs)
    assert posted.status_code == 200, posted.text
    got = all_kinds.client.get(path_of(kind, "decision"), params=inputs)
    if kind == "portfolio":
        assert got.status_code == 405
    else:
        assert got.json() == posted.json()
        assert all_kinds.client.get(path_of(kind, "decision"), params={"nosuch": 1}).status_code == 422


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_of_other_kinds_is_refused_by_name(kind: str, all_kinds: Server) -> None:
    for limit in LIMITS:
        reply = all_kinds.client.post(path_of(kind, "decision"), json=SAMPLES[kind].inputs | {limit: 0.5})
        if limit in KINDS[kind].query.model_fields:
            assert NO_LIMIT not in reply.text
        else:
            assert reply.status_code == 422
            assert reply.json()["errors"] == [{"loc": [limit], "msg": NO_LIMIT}]


@pytest.mark.parametrize("kind", KINDS)
def test_every_item_is_evaluated(kind: str, all_kinds: Server) -> None:
    reply = evaluate(all_kinds, kind)
    items, summary = reply["items"], reply["summary"]
    assert [item["id"] for item in items] == [f"row-{at}" for at in range(ROWS)]
    assert summary["items"] == ROWS
    assert summary["cost"] == pytest.approx(np.mean([item["cost"] for item in items]))
    assert summary["coverage"] == pytest.approx(np.mean([item["accepted"] for item in items]))
    for item in items:
        assert item["accepted"] == (item["label"] is not None)
        if item["probabilities"] is not None:
            assert sum(item["probabilities"].values()) == pytest.approx(1)
            assert item["label"] in (None, max(item["probabilities"], key=item["probabilities"].get))
    correct = [item["correct"] for item in items if item["correct"] is not None]
    if correct:
        assert summary["accuracy"] == pytest.approx(np.mean(correct))
        low, high = summary["accuracy_interval"]
        assert 0 <= low <= summary["accuracy"] <= high <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_evaluation_can_be_streamed_and_tabled(kind: str, all_kinds: Server) -> None:
    wanted = evaluate(all_kinds, kind)["items"]
    url, body = path_of(kind, "evaluate"), {"items": items_of(kind)}
    lines = all_kinds.client.post(url, json=body, headers={"accept": NDJSON})
    assert lines.headers["content-type"].startswith(NDJSON)
    assert [json.loads(line) for line in lines.text.splitlines()] == wanted
    table = all_kinds.client.post(url, json=body, headers={"accept": PARQUET})
    rows = pa.parquet.read_table(io.BytesIO(table.content)).to_pylist()
    assert [row["cost"] for row in rows] == [item["cost"] for item in wanted]
    assert [row["path"] for row in rows] == [item["path"] for item in wanted]
    array = np.load(io.BytesIO(all_kinds.client.post(url, json=body, headers={"accept": NPY}).content))
    assert array["label"].tolist() == [item["label"] or "" for item in wanted]
    assert array["accepted"].tolist() == [item["accepted"] for item in wanted]


@pytest.mark.parametrize("column", ["cost", "correct"])
def test_a_refusal_further_on_ends_the_stream_with_its_place(column: str, all_kinds: Server) -> None:
    answers = {name: {"label": "cat", "confidence": 1.0} for name in CLASSIFIERS}
    items: list[dict[str, Any]] = [{"values": answers} for _ in range(2600)]
    items[2500] = {"values": {name: {**answer, column: -1} for name, answer in answers.items()}}
    url = path_of("cascade", "evaluate")
    lines = all_kinds.client.post(url, json={"items": items}, headers={"accept": NDJSON}).text.splitlines()
    assert len(lines) == 2001
    problem = json.loads(lines[-1])["problem"]
    assert (problem["status"], problem["errors"][0]["loc"][:2]) == (422, ["items", 2500])
    whole = all_kinds.client.post(url, json={"items": items})
    assert (whole.status_code, whole.json()["errors"]) == (422, problem["errors"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_evaluated_as_its_items_are(kind: str, all_kinds: Server) -> None:
    items = items_of(kind)
    columns: dict[str, list[Any]] = {"id": [item["id"] for item in items], "stray": [1] * len(items)}
    if "truth" in items[0]:
        columns["answer"] = [item["truth"] for item in items]
    for field in ("embedding", "size"):
        if field in items[0]:
            columns[field] = [item[field] for item in items]
    for name, value in items[0]["values"].items():
        if isinstance(value, dict):
            columns |= {f"{name}.{part}": [item["values"][name][part] for item in items] for part in value}
        else:
            columns[name] = [item["values"][name] for item in items]
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out)
    wanted = evaluate(all_kinds, kind)
    reply = all_kinds.client.post(
        path_of(kind, "evaluate"),
        params={"truth_column": "answer"} if "answer" in columns else {},
        content=out.getvalue(),
        headers={"content-type": PARQUET},
    )
    assert reply.status_code == 200, reply.text
    assert reply.json()["items"] == wanted["items"]
    assert "stray" in reply.json()["summary"]["ignored"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_curve_has_intervals_baselines_and_the_default(kind: str, all_kinds: Server) -> None:
    reply = all_kinds.client.get(path_of(kind, "curve"))
    assert reply.status_code == 200, reply.text
    curve = reply.json()
    assert curve["rows"] == SAMPLES[kind].judged_rows
    assert curve["points"]
    assert curve["baselines"]
    costs = [point["expected"]["cost"] for point in curve["points"]]
    assert costs == sorted(costs)
    for point in curve["points"]:
        low, high = point["expected"]["accuracy_interval"]
        assert low <= point["expected"]["accuracy"] <= high
    for baseline in curve["baselines"]:
        for point in baseline["points"]:
            low, high = point["accuracy_interval"]
            assert low <= point["accuracy"] <= high
    asked = {**curve["points"][0]["limits"], **{k: v for k, v in SAMPLES[kind].inputs.items() if k == "query"}}
    assert all_kinds.client.post(path_of(kind, "decision"), json=asked).status_code == 200
    record = all_kinds.client.get(f"/v1/artifacts/{kind}/plan").json()
    assert curve["default"] == record["savings"]["query"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"items": []}, ["items"]),
        ({"items": [{"values": {}}]}, None),
        ({"items": [{"values": {}, "surprise": 1}]}, ["items", 0, "surprise"]),
        ({"budget": -1, "items": [{"values": {}}]}, None),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    kind: str, body: dict[str, Any], loc: list[Any] | None, all_kinds: Server
) -> None:
    reply = all_kinds.client.post(path_of(kind, "evaluate"), json=body)
    assert reply.status_code == 422, reply.text
    places = [error["loc"] for error in reply.json()["errors"]]
    assert loc is None or loc in places


def test_arrays_are_evaluated_by_column(all_kinds: Server) -> None:
    confidences = np.array(
        [[item["values"][name].get("confidence", 0.5) for name in CLASSIFIERS] for item in items_of("cascade")]
    )
    out = io.BytesIO()
    np.save(out, confidences)
    reply = all_kinds.client.post(path_of("cascade", "evaluate"), content=out.getvalue(), headers={"content-type": NPY})
    assert reply.status_code == 200, reply.text
    wanted = evaluate(all_kinds, "cascade")["items"]
    assert [item["path"] for item in reply.json()["items"]] == [item["path"] for item in wanted]
    out = io.BytesIO()
    np.save(out, trace_embeddings(trace_columns())[:ROWS])
    routed = all_kinds.client.post(
        path_of("portfolio", "evaluate"), content=out.getvalue(), headers={"content-type": NPY}
    )
    wanted = evaluate(all_kinds, "portfolio")["items"]
    assert [item["path"] for item in routed.json()["items"]] == [item["path"] for item in wanted]
    np.save(out := io.BytesIO(), np.zeros((3, 1)))
    refused = all_kinds.client.post(
        path_of("portfolio", "evaluate"), content=out.getvalue(), headers={"content-type": NPY}
    )
    assert refused.status_code == 422


@pytest.mark.parametrize(
    ("wrong", "right"), [("policies/plan/deadlines", "traffic"), ("cascades/plan/traffic", "deadlines")]
)
def test_a_route_of_another_kind_says_which_routes_this_one_has(wrong: str, right: str, all_kinds: Server) -> None:
    reply = all_kinds.client.get(f"/v1/{wrong}")
    assert (reply.status_code, reply.json()["type"]) == (404, "urn:parsimony:not-found")
    for operation in (right, "curve", "decision", "evaluate", "runs"):
        assert operation in reply.json()["detail"]


@pytest.mark.parametrize(
    ("kind", "values", "column"),
    [
        ("cascade", {"strong": {"label": "cat", "correct": 7}}, "strong.correct"),
        ("cascade", {"strong": {"label": "cat", "cost": -3}}, "strong.cost"),
        ("cascade", {"strong": {"label": "cat", "confidence": "x"}}, "strong.confidence"),
        ("policy", {"strong": {"label": "cat", "cost": "abc"}}, "strong.cost"),
        ("portfolio", {"strong": {"label": "cat", "cost": -3}, "fast": {"cost": -3}, "middle": {"cost": -3}}, None),
    ],
)
def test_figures_of_classifiers_beyond_their_bounds_are_refused(
    kind: str, values: dict[str, Any], column: str | None, all_kinds: Server
) -> None:
    (item,) = items_of(kind)[:1]
    item["values"] = {**item["values"], **values}
    for name in CLASSIFIERS[:2]:
        if kind == "cascade":
            item["values"][name] = {"label": None}
    limits = {"budget": 1e9} if kind != "portfolio" else {"budget": "100%"}
    reply = all_kinds.client.post(path_of(kind, "evaluate"), json={"items": [item], **limits})
    assert reply.status_code == 422, reply.text
    (error,) = reply.json()["errors"]
    assert error["loc"][:3] == ["items", 0, "values"]
    assert column is None or error["loc"][3] == column


def test_a_cascade_goes_on_where_a_classifier_gave_no_answer(all_kinds: Server) -> None:
    """As a run does: a label of null is none, and at the end the most confident earlier answer is taken."""
    strong, sure = {"label": "dog"}, {"label": "cat", "confidence": 1.0}
    items = [
        {"values": {"fast": {"label": None, "confidence": 1.0}, "middle": sure, "strong": strong}},
        {"values": {"fast": {"label": "owl", "confidence": 0.0}, "middle": None, "strong": None}},
    ]
    body = {"items": items, "deadline": 1e9}
    first, second = all_kinds.client.post(path_of("cascade", "evaluate"), json=body).json()["items"]
    assert first["path"][:1] != ["strong"]
    assert first["label"] in ("cat", "dog")
    assert second["label"] == "owl"


def test_labels_and_truths_are_compared_as_datasets_have_them(all_kinds: Server) -> None:
    items = [{"truth": "1.0", "values": {name: {"label": 1.0, "confidence": 1.0} for name in CLASSIFIERS}}]
    reply = all_kinds.client.post(path_of("cascade", "evaluate"), json={"items": items}).json()
    assert [item["correct"] for item in reply["items"]] == [1.0]


def test_tables_are_refused_before_they_are_unpacked(all_kinds: Server) -> None:
    np.save(out := io.BytesIO(), np.zeros((10_001, 3), dtype=np.uint8))
    reply = all_kinds.client.post(path_of("cascade", "evaluate"), content=out.getvalue(), headers={"content-type": NPY})
    assert (reply.status_code, reply.json()["type"]) == (413, "urn:parsimony:payload-too-large")
    pa.parquet.write_table(pa.table({"fast.label": ["cat"] * 10_001}), out := io.BytesIO())
    reply = all_kinds.client.post(
        path_of("cascade", "evaluate"), content=out.getvalue(), headers={"content-type": PARQUET}
    )
    assert (reply.status_code, reply.json()["type"]) == (413, "urn:parsimony:payload-too-large")


@pytest.mark.parametrize(
    ("columns", "params", "loc"),
    [
        ({"id": ["x" * 201]}, {}, ["items", 0, "id"]),
        ({"size": [0.5]}, {}, ["items", 0, "size"]),
        ({"fast.label": ["cat"]}, {"truth_column": "nosuch"}, ["truth_column"]),
    ],
)
def test_rows_of_tables_have_the_bounds_of_items(
    columns: dict[str, Any], params: dict[str, str], loc: list[Any], all_kinds: Server
) -> None:
    pa.parquet.write_table(pa.table(columns), out := io.BytesIO())
    reply = all_kinds.client.post(
        path_of("cascade", "evaluate"), params=params, content=out.getvalue(), headers={"content-type": PARQUET}
    )
    assert reply.status_code == 422
    assert [error["loc"] for error in reply.json()["errors"]] == [loc]


def test_long_texts_in_columns_that_are_not_used_are_ignored(all_kinds: Server) -> None:
    """Logs have prompts in addition to the columns of the artifact."""
    cells: dict[str, list[Any]] = {"fast.label": ["cat"], "prompt": ["x" * 5000]}
    pa.parquet.write_table(pa.table(cells), out := io.BytesIO())
    reply = all_kinds.client.post(
        path_of("cascade", "evaluate"), content=out.getvalue(), headers={"content-type": PARQUET}
    )
    assert "prompt" not in str(reply.json().get("errors"))


def test_what_a_pipeline_acquired_is_known_whatever_is_left_out(all_kinds: Server) -> None:
    path = path_of("pipeline", "decision")
    asked = {"budget": 1e9, "acquired": {"age": 50.0}}
    whole = all_kinds.client.post(path, json=asked).json()
    excluded = all_kinds.client.post(path, json={**asked, "excluded": ["age"]}).json()
    assert excluded["solution"] == whole["solution"]
    assert all_kinds.client.post(path, json={"solution": 0, "excluded": ["age"]}).status_code == 422


def test_every_command_can_be_loaded() -> None:
    assert all(Commands()[name] is not None for name in Commands())
