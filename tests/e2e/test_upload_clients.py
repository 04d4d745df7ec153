"""Clients of resumable uploads: the protocol's reference client, ours, and the command line."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tusclient.client import TusClient

from app.store.datasets import hash_dataset
from parsimony import AsyncParsimony, Parsimony
from parsimony import resumable_upload as client_module
from parsimony.errors import InvalidRequest, NotFound
from parsimony.resumable_upload import UploadProgress, upload_file
from tests.app.sources.test_read_upload import TRACE, make_columns, read_in_memory, write_table
from tests.e2e.test_sources import ended
from tests.support.commands import ran
from tests.support.servers import Server, running_server, start_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server"), cold=True, max_body_bytes=60_000) as running:
        running.wait_for_worker()
        yield running


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "table.csv", "csv", make_columns("trace"))


def received(server: Server, upload_id: str) -> bytes:
    return (server.data_dir / "uploads" / upload_id / "data").read_bytes()


def test_the_reference_client_of_tus_uploads_and_continues(server: Server, table: Path) -> None:
    client = TusClient(f"{server.url}/v1/uploads")
    with table.open("rb") as file:
        first: Any = client.uploader(file_stream=file, chunk_size=40_000)
        first.upload_chunk()
        assert first.offset == 40_000
        again: Any = client.uploader(file_stream=file, chunk_size=40_000, url=first.url)
        assert again.offset == 40_000
        again.upload()
    assert received(server, first.url.rpartition("/")[2]) == table.read_bytes()


def test_the_clients_shrink_parts_and_continue_uploads(server: Server, table: Path) -> None:
    seen: list[UploadProgress] = []

    def interrupt(progress: UploadProgress) -> None:
        seen.append(progress)
        if progress.sent_bytes > 100_000:
            raise KeyboardInterrupt

    with Parsimony(server.url) as client:
        with pytest.raises(KeyboardInterrupt):
            client.upload_table(table, on_progress=interrupt)
        upload_id = seen[-1].upload_id
        other = table.with_name("other.csv")
        other.write_bytes(b"x")
        with pytest.raises(InvalidRequest):
            client.upload_table(other, upload_id=upload_id)
        with pytest.raises(NotFound):
            client.upload_table(table, upload_id="0" * 32)

    async def proceed() -> None:
        async with AsyncParsimony(server.url) as client:
            offsets: list[int] = []
            await client.upload_table(
                table, upload_id=upload_id, on_progress=lambda each: offsets.append(each.sent_bytes)
            )
            assert offsets[0] == seen[-1].sent_bytes
            build = await client.put_dataset_upload("ours", upload_id, TRACE)
            assert ended(server, build["id"])["status"] == "succeeded"

    asyncio.run(proceed())
    shown = server.client.get("/v1/datasets/ours").json()
    assert shown["sha256"] == hash_dataset(read_in_memory(table, TRACE))


def test_the_command_continues_an_interrupted_upload(
    server: Server, table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    monkeypatch.setenv("PARSIMONY_MAX_BODY_BYTES", "60000")
    spec = table.with_name("spec.json")
    bad = {**TRACE, "label": "missing"}
    spec.write_text(json.dumps(bad))
    status, _, error = ran(monkeypatch, capsys, "dataset", "add", "large", table, "--spec", spec)
    assert status != 0
    upload_id = error.partition("--resume ")[2].split()[0]
    assert len(upload_id) == 32
    spec.write_text(json.dumps(TRACE))
    arguments = ("dataset", "add", "large", table, "--spec", spec, "--resume", upload_id, "--json")
    status, output, error = ran(monkeypatch, capsys, *arguments)
    assert (status, json.loads(output)["source"]["upload"]) == (0, upload_id), error


@pytest.mark.chaos
def test_an_upload_outlives_a_killed_server(tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PART_BYTES", 20_000)
    servers = [start_server(tmp_path / "data", cold=True)]
    servers[0].wait_until_ready()

    def restart(progress: UploadProgress) -> None:
        if progress.sent_bytes > 50_000 and len(servers) == 1:
            servers[0].kill(whole_tree=True)
            servers.append(start_server(tmp_path / "data", port=servers[0].port, cold=True))

    try:
        with Parsimony(servers[0].url) as client:
            upload_id = client.upload_table(table, on_progress=restart)
        assert len(servers) == 2
        assert received(servers[1], upload_id) == table.read_bytes()
    finally:
        servers[-1].stop()


def test_a_file_that_becomes_shorter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"x" * 1000)
    steps = upload_file(path, "0" * 32, None)
    next(steps)
    steps.send(httpx.Response(200, headers={"upload-length": "1000", "upload-offset": "0"}))
    path.write_bytes(b"x" * 500)
    with pytest.raises(InvalidRequest) as caught:
        steps.send(httpx.Response(204, headers={"upload-offset": "500"}))
    assert "1000" in str(caught.value)
    assert "500" in str(caught.value)
