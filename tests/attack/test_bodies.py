"""Bodies that are small and become large, or deep: brackets, gzip, Parquet, columns, learners that are none."""

import gzip
import io
import json
import socket
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.conftest import LIMIT
from tests.support.patience import patient
from tests.support.samples import FEATURES_SPEC, TRACE_SPEC, trace_upload
from tests.support.servers import Server, wait_for

DEPTHS = [90, 200, 300, 480, 700, 850, 900, 940, 970, 985, 1000, 1100, 3000, 100_000]
PARQUET = "application/vnd.apache.parquet"


def json_routes(server: Server) -> list[tuple[str, str, Any]]:
    routes: list[tuple[str, str, Any]] = []
    for path, operations in server.client.get("/openapi.json").json()["paths"].items():
        address = path.replace("{name}", "plan").replace("{kind}", "cascade")
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is not None:
                examples = [one["value"] for one in content.get("examples", {}).values()]
                routes.append((method, address, content.get("example", examples[0] if examples else {})))
    return routes


def deepened(example: Any, depth: int) -> Iterator[str]:
    """Write JSON that is nested so deep: bare, and in the place of each field of an example."""
    arrays, objects = "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth
    yield from (arrays, objects, arrays[:depth], objects[: 5 * depth])
    for name in example if isinstance(example, dict) else ():
        for deep in (arrays, objects):
            yield json.dumps({**example, name: "DEEP"}).replace('"DEEP"', deep)
    if isinstance(example, dict) and "params" in example:
        params = {"learner": "sklearn.tree.DecisionTreeClassifier", "learner_params": {"x": "DEEP"}}
        for kind, deep in (("index", arrays), ("pipeline", objects)):
            yield json.dumps({**example, "kind": kind, "params": params}).replace('"DEEP"', deep)


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_json_is_refused_in_every_body(all_kinds: Server, depth: int) -> None:
    headers = {"content-type": "application/json"}
    recording = {"artifact": {"kind": "cascade", "name": "plan"}}
    assert all_kinds.client.put("/v1/recordings/plan", json=recording).status_code in (200, 201)
    for method, path, example in json_routes(all_kinds):
        for body in deepened(example, depth):
            reply = all_kinds.client.request(method, path, content=body, headers=headers)
            assert reply.status_code in (400, 413, 422), (method, path, body[:80], reply.text[:300])


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_spec_is_refused(all_kinds: Server, depth: int) -> None:
    for example in (TRACE_SPEC, FEATURES_SPEC):
        for spec in deepened(example, depth):
            files = trace_upload() | {"spec": (None, spec)}
            reply = all_kinds.client.put("/v1/datasets/deep", files=files)
            assert reply.status_code == 422, (spec[:80], reply.text[:300])


def parquet(columns: dict[str, Any], **how: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out, **how)
    return out.getvalue()


def trace_parquet(rows: int, said: Any, **how: Any) -> bytes:
    numbers = pa.array(np.full(rows, 0.5))
    names = ["truth", "fast_says", "middle_says", "strong_says"]
    confidences = ["fast_confidence", "middle_confidence", "strong_ms"]
    return parquet(dict.fromkeys(names, said) | dict.fromkeys(confidences, numbers), **how)


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "gzip": (lambda: gzip.compress(bytes(400_000_000), 1), "text/csv"),
    "gzip in gzip": (lambda: gzip.compress(gzip.compress(bytes(400_000_000), 1)), "text/csv"),
    "gzips one after another": (lambda: gzip.compress(bytes(1_900_000), 9) * 300, "application/gzip"),
    "one text in many rows": (
        lambda: trace_parquet(
            100_000, pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["z" * 100_000]))
        ),
        PARQUET,
    ),
    "packed text": (
        lambda: trace_parquet(30, pa.array(["z" * 5_000_000] * 30), use_dictionary=False, compression="zstd"),
        PARQUET,
    ),
    "wide bytes": (lambda: trace_parquet(100_000, pa.array([b"z" * 4_000] * 100_000, pa.binary(4_000))), PARQUET),
    "many rows": (lambda: trace_parquet(5_000_000, pa.array(["a"] * 5_000_000)), PARQUET),
    "one list in many rows": (lambda: trace_parquet(20_000, pa.array([["z" * 5_000]] * 20_000)), PARQUET),
    "commas": (lambda: b"truth," + b"," * 1_000_000, "text/csv"),
    "quoted commas": (lambda: b'\xef\xbb\xbf"\n"' + b"," * 1_000_000 + b"\n", "text/csv"),
    "commas after lines": (lambda: b"\n\r\n" + b"," * 1_000_000 + b"\n", "text/csv"),
    "newlines": (lambda: b"truth\n" + b"\n" * 1_900_000, "text/csv"),
    "one quote": (lambda: b'truth,"' + b"\n," * 900_000, "text/csv"),
}
"""Made where they are wanted, for every test process reads this module."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_table_takes_no_more_memory_than_its_limit_allows(all_kinds: Server, name: str) -> None:
    made, media_type = BOMBS[name]
    table = made()
    assert len(table) < LIMIT
    process = psutil.Process(all_kinds.process.pid)
    all_kinds.client.put("/v1/datasets/bomb", files=trace_upload())
    before = process.memory_info().rss
    files: dict[str, Any] = {"spec": (None, json.dumps(TRACE_SPEC)), "table": ("table", table, media_type)}
    reply = all_kinds.client.put("/v1/datasets/bomb", files=files, timeout=patient(60))
    peak = _peak(process)
    assert reply.status_code in (413, 422), reply.text[:300]
    assert peak - before < 200_000_000, (before, peak)


ROWS = 3_000_000
ONE_CLASSIFIER = {
    "kind": "trace",
    "label": "y",
    "unit": "ms",
    "classifiers": [{"name": "a", "prediction": "a", "cost": {"column": "m"}}],
}


def packed_rows() -> tuple[bytes, str]:
    codes = pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int8)), ["a"])
    out = io.BytesIO()
    pa.parquet.write_table(pa.table({"y": codes, "a": codes, "m": np.ones(ROWS)}), out, compression="zstd")
    return out.getvalue(), PARQUET


def plain_rows() -> tuple[bytes, str]:
    return b"y,a,m\n" + b"a,a,1.5\n" * (ROWS * 3 // 4), "text/csv"


@pytest.mark.parametrize("made", [packed_rows, plain_rows])
def test_a_table_is_checked_outside_the_process_that_answers(server: Server, made: Any) -> None:
    process = psutil.Process(server.process.pid)
    before, (table, media_type) = _peak(process), made()
    files: dict[str, Any] = {"spec": (None, json.dumps(ONE_CLASSIFIER)), "table": ("table", table, media_type)}
    reply = server.client.put("/v1/datasets/many-rows", files=files, timeout=patient(60))
    assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, ["table", "y"])  # all rows are of one class
    assert _peak(process) - before < 20_000_000


def _peak(process: psutil.Process) -> int:
    with open(f"/proc/{process.pid}/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))


KILLER = b64decode(
    "UEFSMRUAFSoVKiwVBhUAFQYVBhwAAAACAAAABgEBAAAAYQEAAABiAQAAAGEVABU8FTwsFQYVABUGFQYcAAAAAgAAAAYBAAAAAAAA"
    "8D8AAAAAAAAAQAAAAAAAAAhAFQQZPDUAGAZzY2hlbWEVBAAVDCUiGAF5JQBMHAAAABUKJQIYAXgAFgYZHBksJgAcFQwZJQYAGRgB"
    "eRUAFgYWUBZQJghJHBUAFQAVAgA8FgYZBhkmAAYAAAAmABwVChklBgAZGAF4FQAWBhZiFmImWEkcFQAVABUCADwpBhkmAAYAAAAW"
    "sgEWBiYIFrIBACggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNi4wLjEZLBwAABwAAAC5AAAAUEFSMQ=="
)
"""A Parquet file with a few bytes changed, of whose metadata pyarrow 26 ends its process with an uncaught exception."""


def test_a_table_that_ends_the_process_which_reads_it_ends_no_other(all_kinds: Server) -> None:
    features = [{"name": "x", "columns": ["x"], "cost": 1}]
    spec = {"kind": "features", "label": "y", "unit": "ms", "features": features}
    files: dict[str, Any] = {"spec": (None, json.dumps(spec)), "table": ("table", KILLER, PARQUET)}
    for _ in range(3):
        reply = all_kinds.client.put("/v1/datasets/killer", files=files)
        assert reply.status_code == 422
        assert reply.json()["errors"][0]["loc"] == ["table"]
    assert all_kinds.process.poll() is None
    good = {**files, "table": ("table", parquet({"y": ["a", "b"] * 20, "x": [1.0, 2.0] * 20}), PARQUET)}
    assert all_kinds.client.put("/v1/datasets/good", files=good).status_code == 201
    assert all_kinds.client.delete("/v1/datasets/good").status_code == 204


ZEROS = np.zeros(2_500, np.int32)
ITEM_BOMBS: dict[str, Callable[[], pa.Table]] = {
    "one text in many rows": lambda: pa.table({"item": pa.DictionaryArray.from_arrays(ZEROS, ["z" * 100_000])}),
    "the same as it is": lambda: pa.table({"item": pa.array(["z" * 100_000] * 2_500)}),
    "one list in many rows": lambda: pa.table({"item": pa.array([[0.0] * 20_000] * 1_000)}),
    "one code in many lists": lambda: pa.table(
        {
            "item": pa.ListArray.from_arrays(
                np.arange(0, 2_501 * 100, 100, dtype=np.int32),
                pa.DictionaryArray.from_arrays(np.zeros(250_000, np.int32), ["z" * 1_000]),
            )
        }
    ),
    "one long name in many rows": lambda: pa.table({"item": pa.array([{"z" * 100_000: True}] * 2_500)}),
}
QUERY_BOMBS: dict[str, Callable[[], pa.Table]] = {
    "one list in many rows": lambda: pa.table({"embedding": pa.array([[0.0] * 20_000] * 1_000)}),
    "one group in many rows": lambda: pa.table(
        {"embedding": [[0.0]] * 2_500, "group": pa.DictionaryArray.from_arrays(ZEROS, ["z" * 100_000])}
    ),
}


def post_items(client: httpx.Client, table: bytes, **how: Any) -> httpx.Response:
    spec = (None, json.dumps({"kind": "cascade", "name": "plan"}))
    return client.post("/v1/batches", files={"spec": spec, "file": ("items", table, PARQUET)}, **how)


def post_queries(client: httpx.Client, table: bytes, **how: Any) -> httpx.Response:
    path = "/v1/portfolios/plan/assignments?budget=50%25"
    return client.post(path, content=table, headers={"content-type": PARQUET}, **how)


@pytest.mark.parametrize(
    ("post", "bomb"),
    [
        *(pytest.param(post_items, bomb, id=f"items: {name}") for name, bomb in ITEM_BOMBS.items()),
        *(pytest.param(post_queries, bomb, id=f"queries: {name}") for name, bomb in QUERY_BOMBS.items()),
    ],
)
def test_items_and_queries_in_parquet_take_no_more_memory_than_their_limit_allows(
    all_kinds: Server, post: Any, bomb: Callable[[], pa.Table]
) -> None:
    out = io.BytesIO()
    pa.parquet.write_table(bomb(), out, compression="zstd")
    assert len(out.getvalue()) < LIMIT
    process = psutil.Process(all_kinds.process.pid)
    before = process.memory_info().rss
    reply = post(all_kinds.client, out.getvalue(), timeout=patient(60))
    assert reply.status_code in (413, 422), reply.text[:300]
    assert "no endpoint" not in reply.text, "it was read"
    assert process.memory_info().rss - before < 100_000_000


@pytest.mark.parametrize(("post", "where"), [(post_items, "file"), (post_queries, "queries")])
def test_items_and_queries_that_end_a_process_which_reads_tables_end_no_other(
    all_kinds: Server, post: Any, where: str
) -> None:
    reply = post(all_kinds.client, KILLER)
    assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, [where])
    assert all_kinds.process.poll() is None


LEARNERS = """os.system subprocess.Popen builtins.eval app.processes.sandbox.Sandbox sklearn.datasets.load_files
    sklearn.utils._joblib.joblib sklearn.externals.conftest sklearnx.tree.DecisionTreeClassifier sklearn..os.system
    .os.system sklearn.pipeline.Pipeline sklearn sklearn.tree.DecisionTreeClassifier.__init__.__globals__"""


@pytest.mark.parametrize("learner", [*LEARNERS.split(), "", "sklearn.\x00", "sklearn." * 5000])
@pytest.mark.parametrize("kind", ["index", "pipeline"])
def test_a_learner_comes_from_the_allowed_modules_only(all_kinds: Server, kind: str, learner: str) -> None:
    dataset = {"index": "features", "pipeline": "mixed"}[kind]
    nested = {"learner": "sklearn.ensemble.BaggingClassifier", "learner_params": {"estimator": {"learner": learner}}}
    for params in ({"learner": learner}, nested):
        body = {"kind": kind, "name": "evil", "dataset": dataset, "params": params}
        reply = all_kinds.client.post("/v1/builds", json=body)
        if reply.status_code == 202:  # what only the worker can tell
            with all_kinds.client.stream("GET", f"{reply.headers['location']}/events") as events:
                last = [line for line in events.iter_lines() if line.startswith("data: ")][-1]
            assert '"failed"' in last
            assert "internal error" not in last, last
            assert json.loads(last.removeprefix("data: "))["error"].startswith(("learner", "learner_params"))
        else:
            assert reply.status_code == 422, reply.text


def test_a_caller_who_leaves_in_mid_body_is_no_error_of_ours(all_kinds: Server) -> None:
    paths = [(method.upper(), path) for method, path, _ in json_routes(all_kinds)]
    for method, path in paths:
        head = f"{method} {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer k\r\nX-Request-ID: left{path}\r\n"
        body = 'Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"items'
        with socket.create_connection(("127.0.0.1", all_kinds.port), timeout=patient(10)) as raw:
            raw.sendall(f"{head}{body}".encode())
            time.sleep(0.1)  # so that the route waits for the rest

    def logged() -> list[str]:
        return [line for line in all_kinds.log.read_text().splitlines() if " left/" in line]

    wait_for(lambda: len(logged()) == len(paths), 10)
    assert not [line for line in logged() if " 500 " in line]
    assert "Traceback" not in all_kinds.log.read_text()
