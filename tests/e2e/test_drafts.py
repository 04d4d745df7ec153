"""Drafts of specs over HTTP and in the command line, from real files."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.samples import to_csv, trace_columns
from tests.support.servers import Server, environment

CSV = to_csv(trace_columns(60))


def _parquet(path: Path) -> bytes:
    pq.write_table(pa.table(trace_columns(60)), path)
    return path.read_bytes()


def _json_lines() -> bytes:
    columns = trace_columns(60)
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows).encode()


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet", "jsonl", "packed-jsonl"])
def test_a_draft_of_a_table_is_a_spec_that_stores_it(kind: str, server: Server, tmp_path: Path) -> None:
    lines = {"jsonl": _json_lines(), "packed-jsonl": gzip.compress(_json_lines())}
    data = {"csv": CSV, "gzip": gzip.compress(CSV), "parquet": _parquet(tmp_path / "t.parquet"), **lines}[kind]
    kinds = {
        "parquet": "application/vnd.apache.parquet",
        "jsonl": "application/jsonl",
        "packed-jsonl": "application/gzip",
    }
    media_type = kinds.get(kind, "text/csv")
    files = {"table": ("t", data, media_type)}
    reply = server.client.post("/v1/drafts", content=data, headers={"content-type": media_type})
    assert reply.status_code == 200, reply.text
    draft = reply.json()
    assert [one["name"] for one in draft["spec"]["classifiers"]] == ["fast", "middle", "strong"]
    assert draft["spec"]["label"] == "truth"
    assert len(draft["rows"]) == 6
    assert all(len(row) == len(draft["columns"]) for row in draft["rows"])
    stored = server.client.put(f"/v1/datasets/drafted-{kind}", data={"spec": json.dumps(draft["spec"])}, files=files)
    assert stored.status_code == 201, stored.text


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "is empty"),
        (b"PAR1 but no more", "is no readable Parquet"),
        (b"\x1f\x8b but no more", "is no readable gzip"),
        (b"," * 30_000, "at most 20000 are read"),
        (b"a;b;c\n1;2;3\n", "has the one column 'a;b;c': commas part columns"),
        (b"a,b\n\xff\xfe,1\n", "is no CSV in UTF-8: it has the byte 0xff"),
        (b"a" * (2**20 + 5), "has no line that ends within its first 1048576 bytes"),
    ],
)
def test_what_is_no_table_is_refused(data: bytes, fault: str, server: Server) -> None:
    kind = "application/vnd.apache.parquet" if data.startswith(b"PAR1") else "text/csv"
    reply = server.client.post("/v1/drafts", content=data, headers={"content-type": kind})
    assert reply.status_code == 422
    assert fault in reply.json()["detail"]
    assert server.client.post("/v1/drafts", json={}).status_code == 415


def test_the_command_line_drafts_and_says_what_it_guessed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(CSV)
    done = subprocess.run(
        [sys.executable, "-m", "app", "dataset", "draft", "t.csv", "-o", "spec.json"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("wrote spec.json: a trace of ")
    assert json.loads((tmp_path / "spec.json").read_text())["kind"] == "trace"
    assert not (tmp_path / "redis").exists()
