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
    lines = {"jsonl": (_json_lines(), "jsonl"), "packed-jsonl": (gzip.compress(_json_lines()), "gzip")}
    table = {"parquet": (_parquet(tmp_path / "t.parquet"), "vnd.apache.parquet"), **lines}
    data, media_type = table.get(kind, (gzip.compress(CSV) if kind == "gzip" else CSV, ""))
    media_type = f"application/{media_type}" if media_type else "text/csv"
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
        (b"", "empty"),
        (b"PAR1 but no more", "Parquet"),
        (b"\x1f\x8b but no more", "gzip"),
        (b"," * 30_000, "20000"),
        (b"a;b;c\n1;2;3\n", "'a;b;c'"),
        (b"a,b\n\xff\xfe,1\n", "0xff"),
        (b"a" * (2**20 + 5), "1048576"),
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
    command = [sys.executable, "-m", "app", "dataset", "draft", "t.csv", "-o", "spec.json"]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=True)
    assert json.loads((tmp_path / "spec.json").read_text())["kind"] == "trace"
    assert not (tmp_path / "redis").exists()
