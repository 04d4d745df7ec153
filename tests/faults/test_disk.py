"""A disk that is full: a clear error, and the service goes on; with room again, everything is as before."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.samples import table_upload, to_csv, trace_columns
from tests.support.servers import running_server, wait_for
from tests.support.services import LOOK_UP, OCTETS, look_ups, problems, upload_and_build
from tests.support.stored import artifact

SIZE_MB = 24


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as out:
            while out.write(bytes(4096)):
                pass
        yield
    finally:
        filler.unlink()


def test_without_room_for_an_upload_it_is_refused_and_the_service_goes_on(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(small_disk))
    with running_server(tmp_path / "data", "--workers", "2") as server:
        upload_and_build(server, "trace")
        wait_for(lambda: server.client.get(LOOK_UP).status_code == 200, 5)
        large = table_upload(to_csv(trace_columns(40_000)))
        with full(small_disk):
            reply = server.client.put("/v1/datasets/large", files=large)
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
            said = f"no room for the upload in {small_disk}: No space left on device"
            assert reply.json()["detail"].startswith(said), reply.text
            look_ups(server, 20)
            server.client.get("/v1/nosuch/" + "x" * 50)  # a metric that was not there yet
            assert server.client.get("/metrics").status_code == 200
        assert server.client.get("/v1/datasets/large").status_code == 404
        assert server.client.put("/v1/datasets/large", files=large).status_code == 201
        assert [path for path in small_disk.iterdir() if path.name.startswith("parsimony-")] == []


def test_without_room_for_the_embedded_store_nothing_is_lost_and_it_comes_back(small_disk: Path) -> None:
    with running_server(small_disk / "data") as server:
        upload_and_build(server, "trace")
        wait_for(lambda: server.client.get(LOOK_UP).status_code == 200, 5)
        before = look_ups(server, 1)[1]
        with full(small_disk):
            reply = server.client.post("/v1/artifacts/import", content=artifact("late"), headers=OCTETS)
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
            assert f"no room on the disk under {small_disk}" in reply.json()["detail"]
            assert "no room on the disk" in problems(server)
            server.client.delete("/v1/datasets/trace")  # written all the same: the store ends, and is started again
            assert look_ups(server, 20)[1] == before
        wait_for(lambda: problems(server) == "", 60, lambda: problems(server))
        # The store may have ended a moment ago, at what it could not write, and readiness hears of it within a second.
        for path in ("/v1/datasets", "/v1/artifacts/cascade/late"):
            wait_for(lambda path=path: server.client.get(path).status_code != 503, 20, path)
        kept = [info["name"] for info in server.client.get("/v1/datasets").json()["items"]]
        assert kept in (["trace"], [])
        assert server.client.get("/v1/artifacts/cascade/late").status_code == 404
        assert look_ups(server, 1)[1] == before
        upload_and_build(server, "after")
    with running_server(small_disk / "data") as again:
        assert look_ups(again, 1)[1] == before
        assert len(again.client.get("/v1/artifacts").json()["items"]) == 2
