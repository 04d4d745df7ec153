"""Resumable uploads: through a real server, its worker, and the protocol's reference client."""

import json
import os
import socket
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from app.store.datasets import hash_dataset
from app.store.resumable_uploads import UPLOAD_TTL_S
from tests.app.sources.test_read_upload import FEATURES, TRACE, make_columns, read_in_memory, write_table
from tests.e2e.test_sources import ended
from tests.support.servers import Server, held_worker, running_server, wait_for

TUS = {"Tus-Resumable": "1.0.0"}
KEYS = "reader:decide,writer:build"
WRITER = {"Authorization": "Bearer writer"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(
        tmp_path_factory.mktemp("server"), cold=True, max_upload_bytes=50_000_000, api_keys=KEYS
    ) as running:
        running.client.headers.update(WRITER)
        running.wait_for_worker()
        yield running


@pytest.fixture
def table(tmp_path: Path) -> bytes:
    return write_table(tmp_path / "table", "csv", make_columns("trace")).read_bytes()


def create(server: Server, length: int) -> str:
    reply = server.client.post("/v1/uploads", headers=TUS | {"Upload-Length": str(length)})
    assert (reply.status_code, reply.headers["tus-resumable"]) == (201, "1.0.0")
    return str(reply.headers["location"])


def append(server: Server, path: str, offset: int, data: bytes) -> httpx.Response:
    headers = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    return server.client.patch(path, headers=headers, content=data)


def find_offset(server: Server, path: str) -> int:
    reply = server.client.head(path, headers=TUS)
    assert (reply.status_code, reply.headers["cache-control"]) == (200, "no-store")
    return int(reply.headers["upload-offset"])


def upload(server: Server, data: bytes) -> str:
    """Upload bytes in one part; return the id."""
    path = create(server, len(data))
    assert append(server, path, 0, data).status_code == 204
    return path.rpartition("/")[2]


def put(server: Server, name: str, spec: dict[str, Any], **source: Any) -> httpx.Response:
    parts = {"spec": (None, json.dumps(spec)), "source": (None, json.dumps(source))}
    return server.client.put(f"/v1/datasets/{name}", files=parts)


def list_folders(server: Server) -> set[str]:
    return set(os.listdir(server.data_dir / "uploads"))


@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "parquet"])
@pytest.mark.parametrize("kind", ["trace", "features"])
def test_an_upload_becomes_a_dataset_and_is_deleted(server: Server, tmp_path: Path, form: str, kind: str) -> None:
    spec = TRACE if kind == "trace" else FEATURES
    path = write_table(tmp_path / "table", form, make_columns(kind))
    upload_id, name = upload(server, path.read_bytes()), f"{kind}.{form}"
    reply = put(server, name, spec, upload=upload_id)
    assert (reply.status_code, reply.json()["kind"]) == (202, "dataset")
    build = ended(server, reply.json()["id"])
    assert build["status"] == "succeeded", build["error"]
    shown = server.client.get(f"/v1/datasets/{name}").json()
    assert shown["sha256"] == hash_dataset(read_in_memory(path, spec))
    assert shown["source"]["sha256"] == sha256(path.read_bytes()).hexdigest()
    assert (shown["source"]["files"], shown["source"]["rows"]) == ([], shown["rows"])
    assert upload_id not in list_folders(server)
    if form != "csv":
        return
    request = {"kind": "cascade" if kind == "trace" else "index", "name": name, "dataset": name}
    built = ended(server, server.client.post("/v1/builds", json=request).json()["id"])
    assert built["status"] == "succeeded", built["error"]


def test_an_upload_continues_after_a_broken_connection(server: Server, table: bytes) -> None:
    path = create(server, len(table))
    head = f"PATCH {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer writer\r\nTus-Resumable: 1.0.0\r\n"
    head += f"Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: {len(table)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + table[:50_000])
    wait_for(lambda: find_offset(server, path) == 50_000, 10, "the bytes that arrived were lost")
    assert append(server, path, 0, table).status_code == 409
    assert append(server, path, 50_000, table[50_000:]).status_code == 204
    received = server.data_dir / "uploads" / path.rpartition("/")[2] / "data"
    assert received.read_bytes() == table


def test_only_one_of_two_concurrent_parts_is_received(server: Server) -> None:
    path, data = create(server, 3_000_000), os.urandom(1_000_000)

    def slow() -> Iterator[bytes]:
        yield data
        time.sleep(1.0)
        yield data

    replies: list[int] = []

    def send() -> None:
        headers = TUS | WRITER | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        replies.append(httpx.patch(server.url + path, headers=headers, content=slow(), timeout=30).status_code)

    first = Thread(target=send)
    first.start()
    time.sleep(0.4)
    refused = append(server, path, 0, b"x")
    first.join()
    assert (replies, refused.status_code, refused.json()["title"]) == ([204], 409, "conflict")
    assert find_offset(server, path) == 2_000_000


def test_wrong_lengths_offsets_types_and_versions_are_refused(server: Server) -> None:
    for length, status in (("-1", 422), ("many", 422), ("50000001", 413)):
        assert server.client.post("/v1/uploads", headers=TUS | {"Upload-Length": length}).status_code == status
    assert server.client.post("/v1/uploads", headers=TUS).status_code == 422
    old = server.client.post("/v1/uploads", headers={"Upload-Length": "5", "Tus-Resumable": "0.2.2"})
    assert (old.status_code, old.headers["tus-version"], old.headers["tus-resumable"]) == (412, "1.0.0", "1.0.0")
    path = create(server, 5)
    assert append(server, path, 0, b"123456").status_code == 413
    headers = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    assert server.client.patch(path, headers=headers, content=iter([b"123", b"456"])).status_code == 413
    kept = find_offset(server, path)
    assert kept <= 3
    headers["Content-Type"] = "application/octet-stream"
    assert server.client.patch(path, headers=headers, content=b"45").status_code == 415
    assert append(server, path, kept + 1, b"5").status_code == 409
    assert append(server, path, kept, b"12345"[kept:]).status_code == 204


@pytest.mark.parametrize("upload_id", ["0" * 32, "..", "%2e%2e", "..%2f..%2fetc", "A" * 32, "0" * 33])
def test_unknown_ids_and_paths_are_not_found(server: Server, upload_id: str) -> None:
    path = f"/v1/uploads/{upload_id}"
    assert append(server, path, 0, b"x").status_code in (404, 405)
    assert server.client.delete(path, headers=TUS).status_code in (404, 405)
    assert put(server, "unknown", FEATURES, upload=upload_id).status_code in (404, 422)
    assert server.client.get("/v1/datasets/unknown").status_code == 404


def test_uploads_require_the_role_of_builders(server: Server) -> None:
    path = create(server, 5)
    for headers, status in (({"Authorization": "Bearer reader"}, 403), ({"Authorization": ""}, 401)):
        for method, target in (("POST", "/v1/uploads"), ("PATCH", path), ("DELETE", path)):
            sent = TUS | headers | {"Upload-Length": "5", "Upload-Offset": "0"}
            assert server.client.request(method, server.url + target, headers=sent).status_code == status
    assert server.client.delete(path, headers=TUS).status_code == 204
    assert server.client.head(path, headers=TUS).status_code == 404


def test_uploads_expire(server: Server) -> None:
    old, new = create(server, 5), create(server, 5)
    folder = server.data_dir / "uploads"
    long_ago = time.time() - UPLOAD_TTL_S - 60
    os.utime(folder / old.rpartition("/")[2] / "data", (long_ago, long_ago))
    create(server, 5)
    assert server.client.head(old, headers=TUS).status_code == 404
    assert find_offset(server, new) == 0


def test_the_limits_are_shown_before_an_upload(server: Server) -> None:
    shown = server.client.options("/v1/uploads")
    assert (shown.status_code, shown.headers["tus-max-size"]) == (204, "50000000")
    assert shown.headers["tus-extension"] == "creation,expiration,termination"


def test_a_source_has_one_location_and_a_complete_upload(server: Server, table: bytes) -> None:
    path = create(server, len(table))
    append(server, path, 0, table[:1000])
    partial = put(server, "partial", TRACE, upload=path.rpartition("/")[2])
    (error,) = partial.json()["errors"]
    assert (partial.status_code, error["loc"]) == (422, ["source", "upload"])
    assert f"1000 of {len(table)}" in error["msg"]
    for source in ({}, {"url": "file:///data", "upload": "0" * 32}):
        assert put(server, "partial", TRACE, **source).status_code == 422


def test_a_failed_check_keeps_the_upload_for_a_corrected_spec(server: Server, tmp_path: Path) -> None:
    columns = make_columns("trace")
    columns["large_ms"] = [*map(str, columns["large_ms"][:-1]), "slow"]
    upload_id = upload(server, write_table(tmp_path / "table", "csv", columns).read_bytes())
    failed = ended(server, put(server, "again", TRACE, upload=upload_id).json()["id"])
    assert failed["status"] == "failed"
    assert "large_ms" in failed["error"]
    assert f"row {len(columns['id'])}" in failed["error"]
    assert server.client.get("/v1/datasets/again").status_code == 404
    fixed = TRACE | {"classifiers": [TRACE["classifiers"][0], TRACE["classifiers"][1] | {"cost": 5.0}]}
    assert ended(server, put(server, "again", fixed, upload=upload_id).json()["id"])["status"] == "succeeded"
    assert upload_id not in list_folders(server)


def test_a_malformed_file_does_not_end_the_worker(server: Server) -> None:
    for data in (b"PAR1" + os.urandom(5000) + b"PAR1", b"\x1f\x8b" + os.urandom(500), b"\0" * 5000):
        failed = ended(server, put(server, "bad", FEATURES, upload=upload(server, data)).json()["id"])
        assert failed["status"] == "failed"
        assert "internal" not in failed["error"]
    assert not server.client.get("/health/ready").json()["problems"]


def test_a_canceled_build_stores_nothing(server: Server, table: bytes) -> None:
    upload_id = upload(server, table)
    with held_worker(server):
        build = put(server, "canceled", TRACE, upload=upload_id).json()["id"]
        assert server.client.delete(f"/v1/builds/{build}").json()["status"] == "cancelled"
    assert ended(server, build)["status"] == "cancelled"
    assert server.client.get("/v1/datasets/canceled").status_code == 404
    assert os.listdir(server.data_dir / "uploads" / upload_id) in (["data", "upload.json"], ["upload.json", "data"])


@pytest.mark.chaos
def test_an_upload_continues_after_a_killed_server(tmp_path: Path, table: bytes) -> None:
    with running_server(tmp_path / "data", cold=True) as first:
        path = create(first, len(table))
        assert append(first, path, 0, table[:40_000]).status_code == 204
        first.kill(whole_tree=True)
    with running_server(tmp_path / "data", cold=True) as second:
        second.wait_for_worker()
        assert append(second, path, find_offset(second, path), table[40_000:]).status_code == 204
        build = put(second, "resumed", TRACE, upload=path.rpartition("/")[2]).json()["id"]
        assert ended(second, build)["status"] == "succeeded"
        (tmp_path / "table.csv").write_bytes(table)
        shown = second.client.get("/v1/datasets/resumed").json()
        assert shown["sha256"] == hash_dataset(read_in_memory(tmp_path / "table.csv", TRACE))
