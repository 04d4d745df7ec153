"""The store's disk is full: nothing that was acknowledged is lost, look-ups go on, and with room again all resumes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from tests.containers.house import PROJECT, House, docker
from tests.containers.load import unshaken
from tests.deploy.documents import ROOT, services
from tests.support.servers import wait_for
from tests.support.services import look_ups, problems, upload_and_build, writes

KEEPER, SMALL = (f"{PROJECT}-small-disk-{role}" for role in ("keeper", "store"))
SPARE_MB = 32
COPY = "cp -a /data/. /small/ && touch /small/copied && exec sleep 3600"
COPY_BACK = "rm -r /data/appendonlydir && cp -a /small/appendonlydir /data/"
FILL = "dd if=/dev/zero of=/small/filler bs=4096 2>&1 || true"


@pytest.fixture
def small_disk(house: House) -> Iterator[None]:
    """Let the store run on a disk a few megabytes larger than all that it has, until it is back on its own.

    Another container holds that disk too, so that it outlives a store that ends, and can be filled and emptied.
    """
    store: dict[str, Any] = services()["redis"]
    used_mb = int(docker("exec", house.container("redis"), "du", "-sm", "/data").split()[0])
    options = f"o=size={used_mb + SPARE_MB}m,uid=999,gid=999"
    create = f"volume create --name {PROJECT}_small --opt type=tmpfs --opt device=tmpfs --opt"
    volume = docker(*create.split(), options)
    docker("stop", "--time", "60", house.container("redis"))
    mounts = ["--volume", f"{house.project}_store:/data", "--volume", f"{volume}:/small"]
    own = ["--name", KEEPER, "--user", store["user"], *mounts]
    docker("run", "--detach", "--init", *own, store["image"], "sh", "-c", COPY)
    try:
        wait_for(lambda: docker("exec", KEEPER, "sh", "-c", "ls /small").split().count("copied"), 20)
        network = ["--network", f"{house.project}_store", "--network-alias", "redis"]
        mounts = ["--volume", f"{volume}:/data", "--volume", f"{ROOT}/deploy/redis.conf:/etc/valkey/valkey.conf:ro"]
        as_composed = ["--restart", store["restart"], "--user", store["user"], "--read-only", *network, *mounts]
        docker("run", "--detach", "--name", SMALL, *as_composed, store["image"], *store["command"])
        wait_for(_has_loaded, 60, "the store does not answer")  # a server may not have seen yet that it was away
        yield
    finally:
        with suppress(AssertionError):  # it was never started
            docker("stop", "--time", "60", SMALL)
            docker("exec", KEEPER, "sh", "-c", COPY_BACK)
            docker("rm", "--volumes", SMALL)
        docker("rm", "--force", "--volumes", KEEPER)
        docker("volume", "rm", volume)
        docker("start", house.container("redis"))
        house.wait_until_ready()


def _has_loaded() -> bool:
    with suppress(AssertionError):  # it is not there yet
        return "PONG" in docker("exec", SMALL, "valkey-cli", "ping")
    return False


@contextmanager
def full() -> Iterator[None]:
    assert "No space left on device" in docker("exec", KEEPER, "sh", "-c", FILL)
    try:
        yield
    finally:
        docker("exec", KEEPER, "rm", "/small/filler")


def restarts() -> int:
    return int(docker("inspect", "--format", "{{.RestartCount}}", SMALL))


def answered(house: House, path: str) -> httpx.Response:
    """Ask until the store is there: it may have ended a moment ago, and readiness hears of it within seconds."""
    replies: list[httpx.Response] = []

    def is_there() -> bool:
        replies.append(house.client.get(path))
        return replies[-1].status_code != 503

    wait_for(is_there, 60, path)
    return replies[-1]


def ended(house: House, build: str) -> dict[str, Any]:
    wait_for(lambda: answered(house, build).json()["status"] not in ("queued", "running"), 60)
    reply = answered(house, build)
    assert reply.status_code == 200, reply.text
    record: dict[str, Any] = reply.json()
    assert record["status"] == "succeeded" or record["error"], record
    return record


def versions_of(house: House, name: str) -> int:
    reply = answered(house, f"/v1/artifacts/cascade/{name}/versions")
    assert reply.status_code in (200, 404), reply.text
    return len(reply.json()["items"]) if reply.status_code == 200 else 0


def test_a_store_whose_disk_is_full_loses_nothing_and_comes_back_when_there_is_room(
    house: House, small_disk: None
) -> None:
    wait_for(lambda: not problems(house), 60, lambda: problems(house))
    upload_and_build(house, "before-it-was-full")
    before = {info["name"] for info in house.client.get("/v1/datasets").json()["items"]}
    with unshaken(house):
        with full():
            upload, build, imported, _ = replies = [reply for reply, _ in writes(house)]
            assert [upload.status_code, imported.status_code] == [503, 503], upload.text + imported.text
            for reply in replies:
                # A store that starts again cuts off the command that it could not finish: a short one may fit there,
                # in what is left of a block of the disk.
                refused = (reply.status_code, reply.headers.get("retry-after")) == (503, "5")
                assert refused or reply.is_success, reply.text
            wait_for(lambda: restarts() > 0, 30, "the store has not ended for want of room")
            wait_for(lambda: problems(house), 30, "the full disk goes unnoticed")
            look_ups(house)
        wait_for(lambda: not problems(house), 90, lambda: problems(house))
        assert {info["name"] for info in answered(house, "/v1/datasets").json()["items"]} == before
        built = build.is_success and ended(house, build.headers["location"])["status"] == "succeeded"
        assert versions_of(house, "late") == built
        upload_and_build(house, "after-it-was-full")
