"""Datasets by reference: from files and an object store, through a real server and its worker."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.app.sources.test_read import SPEC, columns
from tests.support.servers import Server, free_port, running_server, wait_for

ROWS = 3000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    for part in range(2):
        pa.parquet.write_table(pa.table(columns(ROWS, part)), folder / f"part-{part}.parquet")
    return folder


@pytest.fixture(scope="module")
def bucket(files: Path) -> Iterator[str]:
    """An object store with the files in the bucket ``lake``; settings for S3 clients are in the environment."""
    from moto.server import ThreadedMotoServer

    port = free_port()
    store = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    store.start()
    address = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        server = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http"}
        lake = pyarrow.fs.S3FileSystem(allow_bucket_creation=True, **server)
        lake.create_dir("lake")
        for path in files.iterdir():
            for key in (path.name, f"team@eu 12:00/{path.name}"):
                with lake.open_output_stream(f"lake/calls/{key}") as out:
                    out.write(path.read_bytes())
        yield address
    store.stop()


@pytest.fixture(scope="module")
def server(files: Path, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    allowed = f"file://{files},s3://lake/calls"
    with running_server(tmp_path_factory.mktemp("server"), cold=True, dataset_sources=allowed) as running:
        running.wait_for_worker()
        yield running


def put(server: Server, name: str, url: str, **options: Any) -> Any:
    parts = {"spec": json.dumps(SPEC), "source": json.dumps({"url": url} | options)}
    reply = server.client.put(f"/v1/datasets/{name}", files={part: (None, text) for part, text in parts.items()})
    return reply.status_code, reply.json()


def ended(server: Server, build: str) -> Any:
    def show() -> Any:
        return server.client.get(f"/v1/builds/{build}").json()

    wait_for(lambda: show()["finished_at"], 120, "the build does not end")
    return show()


@pytest.mark.parametrize("place", ["file", "s3", "signs"])
def test_a_dataset_refers_to_files_and_builds_learn_from_a_sample(server: Server, files: Path, place: str) -> None:
    urls = {"file": f"file://{files}", "s3": "s3://lake/calls/*.parquet", "signs": "s3://lake/calls/team@eu 12:00"}
    url = urls[place]
    status, build = put(server, f"calls-{place}", url, sample_rows=1000)
    assert (status, build["kind"]) == (202, "dataset")
    assert ended(server, build["id"])["status"] == "succeeded"
    shown = server.client.get(f"/v1/datasets/calls-{place}").json()
    assert shown["source"]["rows"] == 2 * ROWS
    assert 800 < shown["rows"] < 1200
    assert [file["rows"] for file in shown["source"]["files"]] == [ROWS, ROWS]
    request = {"kind": "cascade", "name": f"calls-{place}", "dataset": f"calls-{place}"}
    assert ended(server, server.client.post("/v1/builds", json=request).json()["id"])["status"] == "succeeded"


def test_a_build_on_a_changed_file_fails_and_names_it(server: Server, files: Path) -> None:
    folder = files / "changing"
    folder.mkdir()
    path = folder / "a.parquet"
    pa.parquet.write_table(pa.table(columns(500, 5)), path)
    _, build = put(server, "changing", f"file://{folder}")
    assert ended(server, build["id"])["status"] == "succeeded"
    pa.parquet.write_table(pa.table(columns(500, 6)), path)
    again = server.client.post("/v1/builds", json={"kind": "cascade", "name": "changing", "dataset": "changing"})
    failed = ended(server, again.json()["id"])
    path.unlink()
    assert failed["status"] == "failed"
    assert path.name in failed["error"]


@pytest.mark.parametrize(
    "url", ["file:///etc", "s3://other/calls", "s3://lake/calls/../x", "http://127.0.0.1/x", "s3://lake/calls?a=b"]
)
def test_other_locations_are_refused_before_anything_is_queued(server: Server, url: str) -> None:
    status, problem = put(server, "refused", url)
    assert status == 422
    assert [error["loc"] for error in problem["errors"]] == [["source", "url"]]
    assert server.client.get("/v1/datasets/refused").status_code == 404


def test_a_source_with_an_invalid_row_is_not_stored(server: Server, files: Path) -> None:
    folder = files / "bad"
    folder.mkdir()
    broken = columns(500, 7)
    broken["small_p"][400] = -1.0
    pa.parquet.write_table(pa.table(broken), folder / "bad.parquet")
    _, build = put(server, "bad", f"file://{folder}")
    failed = ended(server, build["id"])
    (folder / "bad.parquet").unlink()
    assert failed["status"] == "failed"
    assert "row 401 of" in failed["error"]
    assert server.client.get("/v1/datasets/bad").status_code == 404


def test_source_and_table_cannot_be_combined(server: Server) -> None:
    files: dict[str, Any] = {
        "spec": (None, json.dumps(SPEC)),
        "source": (None, "{}"),
        "table": ("t.csv", io.BytesIO(b"a\n1\n")),
    }
    reply = server.client.put("/v1/datasets/both", files=files)
    assert reply.status_code == 422
    assert [error["loc"] for error in reply.json()["errors"]] == [["table"]]
