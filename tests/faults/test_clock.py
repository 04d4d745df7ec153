"""The clock jumps by years, forwards and back: no expiry, order or version depends on it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from app.building.worker import HEARTBEAT_INTERVAL_S
from app.store.embedded_files import socket_path
from tests.e2e.test_builds import ROWS, large_upload, start_build, the_worker
from tests.support.servers import Server, running_server, wait_for
from tests.support.services import LOOK_UP, problems, upload_and_build

YEAR = 365 * 24 * 3600.0
EXPIRING = (b"parsimony:ledger:", b"parsimony:memo:")
"""What goes by itself when unused for months, by the store's clock: what streams have spent, and training's memory."""


@dataclass(frozen=True)
class Jumping:
    """A server, its worker and its store, on a clock that the test sets."""

    server: Server
    file: Path

    def jump(self, seconds: float) -> None:
        self.file.write_text(str(seconds))

    def beats(self) -> int:
        with redis.Redis(unix_socket_path=str(socket_path((self.server.data_dir / "redis").resolve()))) as store:
            return sum(map(int, store.hvals("parsimony:builds:beats")))

    @property
    def year(self) -> int:
        return int(self.server.client.get("/v1/datasets").json()["items"][-1]["created_at"][:4])


@pytest.fixture(scope="module")
def jumping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jumping]:
    folder = tmp_path_factory.mktemp("jumping")
    file = folder / "jump"
    file.write_text("0")
    with pytest.MonkeyPatch.context() as patch:
        here = str(Path(__file__).parent / "clocks")
        patch.setenv("PYTHONPATH", os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])]))
        patch.setenv("JUMPING_CLOCK", str(file))
        with running_server(folder / "data", cold=True) as server:
            yield Jumping(server, file)


def test_versions_and_lists_keep_their_order_whatever_the_clock_says(jumping: Jumping) -> None:
    server = jumping.server
    for years in (0, 10, -20, 0):
        jumping.jump(years * YEAR)
        upload_and_build(server, "trace")
    versions = server.client.get("/v1/artifacts/cascade/trace/versions").json()["items"]
    assert [record["version"] for record in versions] == [1, 2, 3, 4]
    assert [record["active"] for record in versions] == [False, False, False, True]
    created = [int(record["created_at"][:4]) for record in versions]
    assert created[1] - created[0] == 10, "the clock did not jump"
    assert created[2] < created[0]
    builds = server.client.get("/v1/builds").json()["items"]
    assert [build["artifact"]["version"] for build in builds] == [4, 3, 2, 1]
    wait_for(lambda: server.client.get(LOOK_UP).json()["artifact"]["version"] == 4, 5)


@pytest.mark.parametrize(("years", "looks"), [(10, 1), (-10, 0)])
def test_a_jump_ends_no_build_that_runs_and_no_worker(jumping: Jumping, years: int, looks: int) -> None:
    server = jumping.server
    assert server.client.put("/v1/datasets/large", files=large_upload(ROWS // 4)).status_code in (200, 201)
    path = start_build(server, "long")
    (horse,) = the_worker(server).children()
    horse.suspend()
    jumping.jump(years * YEAR)
    before = jumping.beats()
    # its worker has checked how long it works
    wait_for(lambda: jumping.beats() >= before + looks, 3 * HEARTBEAT_INTERVAL_S)
    horse.resume()
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 60)
    ended = server.client.get(path).json()
    assert ended["status"] == "succeeded", ended
    assert abs(int(ended["finished_at"][:4]) - int(ended["started_at"][:4])) in (9, 10, 11)
    assert problems(server) == ""
    jumping.jump(0)


def test_nothing_of_ours_expires(jumping: Jumping) -> None:
    store = redis.Redis(unix_socket_path=str(socket_path((jumping.server.data_dir / "redis").resolve())))
    names = [name for name in store.scan_iter("parsimony:*") if not name.startswith(EXPIRING)]
    assert len(names) > 10
    assert [name for name in names if store.ttl(name) != -1] == []
    store.close()
