"""Every reader of bytes from outside, fed with what almost is what it reads: it gives a value or an error of ours."""

import io
import json
import os
import tempfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from app.http.assignment_requests import read_json, read_parts
from app.processes.sandbox import Sandbox
from app.store.codec import array_to_bytes
from app.store.item_tables import read_item_table
from app.store.query_tables import read_query_table
from app.store.uploads import parse_spec, read_dataset
from models.errors import InvalidRequest, ParsimonyError
from solvers.learners.archives import predict_archived, to_bytes
from tests.support.samples import FEATURES_SPEC, MIXED_SPEC, TRACE_SPEC, to_csv, trace_columns

pytestmark = pytest.mark.unit
PARQUET = "application/vnd.apache.parquet"
COLUMNS = trace_columns(40)
CSV = to_csv(COLUMNS)
SPEC = parse_spec(json.dumps(TRACE_SPEC))
MAX_BYTES = 200_000


def _parquet(**how: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(COLUMNS), out, **how)
    return out.getvalue()


PARQUETS = {
    "plain": _parquet(compression="none", use_dictionary=False),
    "dictionary": _parquet(compression="none"),
    "zstd": _parquet(compression="zstd"),
    "pages": _parquet(compression="snappy", data_page_version="2.0", row_group_size=7),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
few_examples = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(changed) - 1, 0)))
        kind = draw(st.sampled_from(["bit", "bytes", "insert", "cut", "end"]))
        if kind == "bit" and changed:
            changed[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del changed[place : place + draw(st.integers(1, 40))]
        elif kind == "end":
            del changed[place:]
        else:
            new = draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 8, bytes(8), b"\x7f" * 4]))
            changed[place : place if kind == "insert" else place + len(new)] = new
    return bytes(changed)


def tried(table: bytes, media_type: str, spec: Any = SPEC, embeddings: bytes | None = None, run_in: Any = None) -> None:
    with tempfile.TemporaryDirectory() as folder, suppress(ParsimonyError):
        path = Path(folder) / "table"
        path.write_bytes(table)
        work = partial(read_dataset, spec, path, media_type, embeddings, max_bytes=MAX_BYTES)
        work() if run_in is None else run_in(work)


@pytest.fixture(scope="module")
def reading() -> Iterator[Sandbox]:
    made = Sandbox(20.0, imports=("app.store.uploads",))
    yield made
    made.close()


@given(mutated(CSV), st.sampled_from(["text/csv", ""]))
@few_examples
def test_a_changed_csv(data: bytes, media_type: str) -> None:
    tried(data, media_type)


@pytest.mark.parametrize("name", PARQUETS)
@given(st.data())
@few_examples
def test_a_changed_parquet(reading: Sandbox, name: str, data: st.DataObject) -> None:
    tried(data.draw(mutated(PARQUETS[name])), PARQUET, run_in=reading)


def _query_table() -> bytes:
    out = io.BytesIO()
    columns = {"size": np.ones(9), "group": ["a", "b", "c"] * 3, "costs": [[1.0, 2.0]] * 9}
    pa.parquet.write_table(pa.table({"embedding": [[0.5, 1.5]] * 9, **columns}), out, compression="none")
    return out.getvalue()


@given(mutated(_query_table()))
@few_examples
def test_changed_queries_in_parquet(reading: Sandbox, data: bytes) -> None:
    with suppress(ParsimonyError):
        columns = queries_of(data, reading)
        assert columns["embedding"].ndim == 2


def _item_table() -> bytes:
    out = io.BytesIO()
    columns = {"id": ["a", "b", None] * 3, "text": pa.array(["what it says"] * 9).dictionary_encode()}
    pa.parquet.write_table(pa.table({"item": [{"a": [0.5, 1.5], "b": None}] * 9, **columns}), out, compression="none")
    return out.getvalue()


def queries_of(table: bytes, run_in: Any) -> dict[str, Any]:
    return read_query_table(table, max_bytes=MAX_BYTES, run_in=run_in)


def items_of(table: bytes, run_in: Any) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.parquet"
        path.write_bytes(table)
        return read_item_table(path, max_bytes=MAX_BYTES, most=10, run_in=run_in)


@given(mutated(_item_table()))
@few_examples
def test_changed_items_in_parquet(reading: Sandbox, data: bytes) -> None:
    with suppress(ParsimonyError):
        items = items_of(data, reading)
        assert all("item" in json.loads(item) for item in items)
        assert sum(map(len, items)) <= MAX_BYTES


@pytest.mark.parametrize(("read", "where"), [(items_of, "file"), (queries_of, "queries")])
def test_items_and_queries_that_end_the_process_which_reads_them_are_refused(
    reading: Sandbox, read: Any, where: str
) -> None:
    def ended(*_: Any) -> Any:
        return reading(os._exit, 3)

    with pytest.raises(InvalidRequest, match="reading it ended its process") as refused:
        read(_item_table(), ended)
    assert refused.value.faults[0].loc == (where,)
    table = {"item": {"a": [0.5, 1.5], "b": None}, "text": "what it says"}
    items = [table | ({"id": i} if i else {}) for i in ["a", "b", None] * 3]
    assert [json.loads(item) for item in items_of(_item_table(), reading)] == items, "the next is read in another"


@given(mutated(array_to_bytes(np.zeros((40, 2), np.float32))))
@few_examples
def test_changed_embeddings(data: bytes) -> None:
    tried(CSV, "text/csv", embeddings=data)


@pytest.mark.parametrize("spec", [TRACE_SPEC, FEATURES_SPEC, MIXED_SPEC], ids=["trace", "features", "mixed"])
@given(st.data())
@few_examples
def test_a_changed_spec(spec: dict[str, Any], data: st.DataObject) -> None:
    changed = dict(spec)
    for name in data.draw(st.lists(st.sampled_from(sorted(spec)), max_size=2)):
        changed[name] = data.draw(JSON)
    text = data.draw(st.just(json.dumps(changed).encode()) | mutated(json.dumps(changed).encode()))
    with suppress(ParsimonyError):
        tried(CSV, "text/csv", parse_spec(text))


def _no_table(data: bytes) -> dict[str, Any]:
    raise InvalidRequest("no Parquet is read here")


@given(mutated(array_to_bytes(np.ones((3, 2), np.float32))) | st.binary(max_size=200))
@few_examples
def test_changed_queries(data: bytes) -> None:
    with suppress(ParsimonyError):
        queries, _ = read_parts({"queries": data}, {"budget": "50%"}, _no_table)
        assert not isinstance(queries, tuple)
        assert queries.nbytes <= len(data)


@given(JSON.map(lambda v: json.dumps(v).encode()), mutated(array_to_bytes(np.ones((3, 2)))) | st.binary(max_size=99))
@few_examples
def test_changed_parts_beside_queries(limits: bytes, array: bytes) -> None:
    queries = array_to_bytes(np.ones((3, 2), np.float32))
    for name in ("sizes", "costs", "uses.tokens", "surprise"):
        with suppress(ParsimonyError):
            read_parts({"queries": queries, "constraints": limits, name: array}, {}, _no_table)


@given(
    mutated(json.dumps({"queries": [[0.5, 1.0]], "budget": "50%"}).encode())
    | JSON.map(lambda v: json.dumps(v).encode())
)
@few_examples
def test_changed_queries_in_json(data: bytes) -> None:
    with suppress(ParsimonyError, RequestValidationError):
        read_json(data, {})


VALUES, LABELS = load_iris(return_X_y=True)
MODELS = {"bayes": GaussianNB(), "tree": DecisionTreeClassifier(max_depth=3, random_state=0), "vectors": SVC()}


@cache
def archived(name: str) -> bytes:
    return to_bytes(MODELS[name].fit(VALUES[::5], LABELS[::5]))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(20.0, imports=("skops.io",))
    yield made
    made.close()


def predicted(data: bytes) -> int:
    codes, _ = predict_archived(data, VALUES[:5].astype(np.float64), 3)
    return len(codes)


@st.composite
def changed_model(draw: st.DrawFn, data: bytes) -> bytes:
    """Change the bytes of an archive, one of its arrays, or what its schema says."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from([*entries, ""]))
    if not name:
        return draw(mutated(data))
    entries[name] = draw(_other_schema(entries[name])) if name == "schema.json" else draw(mutated(entries[name]))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return out.getvalue()


@st.composite
def _other_schema(draw: st.DrawFn, text: bytes) -> bytes:
    schema = json.loads(text)
    nodes: list[tuple[Any, Any]] = []
    pending = [schema]
    while pending:
        node = pending.pop()
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            nodes.append((node, key))
            if isinstance(value, dict | list):
                pending.append(value)
    node, key = draw(st.sampled_from(nodes))
    other, other_key = draw(st.sampled_from(nodes))
    node[key] = draw(JSON | st.just(json.loads(json.dumps(other[other_key]))))
    return json.dumps(schema).encode()


@pytest.mark.parametrize("name", MODELS)
@given(st.data())
@settings(few_examples, max_examples=40)
def test_a_changed_model(sandbox: Sandbox, name: str, data: st.DataObject) -> None:
    assert sandbox(predicted, archived(name)) == 5
    with suppress(ParsimonyError):
        assert sandbox(predicted, data.draw(changed_model(archived(name)))) == 5


@pytest.mark.parametrize("data", [CSV, *PARQUETS.values()], ids=["csv", *PARQUETS])
def test_tables_that_were_not_changed_are_read_within_a_few_times_their_size(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        assert read_dataset(SPEC, path, "", None, max_bytes=MAX_BYTES).rows == 40
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
