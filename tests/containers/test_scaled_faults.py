"""Behind the proxy one server is killed, cut off, or has another clock or a slow line: callers notice nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.containers.house import PORT, House, docker
from tests.containers.load import unshaken
from tests.deploy.documents import ROOT
from tests.e2e.test_builds import large_upload
from tests.support.patience import patient
from tests.support.servers import wait_for
from tests.support.services import LOOK_UP, build, look_ups, problems, store_state, upload_and_build

SECONDS_PER_HOUR = 3600
DELAY_S, LOSS = 0.1, 0.05
SLOW_LINE = Path(__file__).with_name("slow_line.py")


class Past:
    """A container of the house that is asked itself, past the proxy."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def is_ready(self) -> bool:
        try:
            return self.client.get("/health/ready").status_code == 200 == self.client.get(LOOK_UP).status_code
        except httpx.TransportError:
            return False


@contextmanager
def past(house: House, container: str) -> Iterator[Past]:
    url = f"http://{house.address(container)}:{PORT}"
    with httpx.Client(base_url=url, timeout=patient(10), trust_env=False) as client:
        yield Past(client)


@contextmanager
def one_more(house: House, service: str, *options: str) -> Iterator[str]:
    """Run one more container of a service, found by the same names, that is not as the others in something."""
    name = f"{house.project}-one-more-{service}"
    house.compose("run", "--detach", "--no-deps", "--use-aliases", "--name", name, *options, service)
    try:
        yield name
    finally:
        docker("stop", "--time", "60", name)
        docker("rm", "--force", "--volumes", name)


def test_a_server_that_is_killed_is_not_missed_by_those_who_look_up(proxied: House) -> None:
    before = proxied.restarts("more-servers")
    with unshaken(proxied, callers=2):
        proxied.crash("more-servers")
        wait_for(lambda: proxied.restarts("more-servers") == before + 1, 20)
        with past(proxied, proxied.container("more-servers")) as again:
            wait_for(again.is_ready, 40)
        look_ups(proxied)
    upload_and_build(proxied, "after-the-kill-of-one")


def test_a_server_that_alone_is_cut_off_from_the_store_answers_on_and_catches_up(proxied: House) -> None:
    cut, network, new = proxied.container("more-servers"), f"{proxied.project}_store", "/v1/cascades/while-cut/decision"
    active = {"version": proxied.client.get(LOOK_UP).json()["artifact"]["version"]}
    with past(proxied, cut) as alone, past(proxied, proxied.container("server")) as other, unshaken(proxied, callers=2):
        docker("network", "disconnect", network, cut)
        try:
            wait_for(lambda: store_state(alone) == "unreachable", 15, lambda: problems(alone))
            upload_and_build(other, "while-cut")
            wait_for(lambda: other.client.get(new).status_code == 200, 5)
            # Through the proxy some writes are refused, whole and with a time to come back; repeated, they are done.
            statuses: set[tuple[int, str | None]] = set()

            def writes_have_met_both() -> bool:
                reply = proxied.client.put("/v1/artifacts/cascade/trace/active", json=active)
                statuses.add((reply.status_code, reply.headers.get("retry-after")))
                return len(statuses) > 1

            wait_for(writes_have_met_both, 30)
            assert statuses == {(200, None), (503, "5")}
            assert alone.client.get(new).content != other.client.get(new).content
        finally:
            docker("network", "connect", network, cut)
        wait_for(lambda: alone.client.get(new).content == other.client.get(new).content, 30)


def test_clocks_that_are_hours_apart_change_neither_answers_nor_versions(proxied: House, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "ahead").write_text(str(SECONDS_PER_HOUR))
    (tmp_path / "behind").write_text(str(-SECONDS_PER_HOUR))
    mounts = ("-v", f"{ROOT}/tests/faults/clocks:/clocks:ro", "-v", f"{tmp_path}:/clock:ro")
    ahead, behind = (
        (*mounts, "-e", "PYTHONPATH=/clocks", "-e", f"JUMPING_CLOCK=/clock/{n}") for n in ("ahead", "behind")
    )
    docker("stop", "--time", "60", proxied.container("worker"))
    try:
        with (
            one_more(proxied, "more-servers", *ahead) as server,
            one_more(proxied, "worker", *behind),
            past(proxied, server) as early,
            unshaken(proxied, callers=2),
        ):
            wait_for(early.is_ready, 40)
            assert early.client.put("/v1/datasets/large", files=large_upload()).status_code in (200, 201)
            for asked, dataset in ((proxied, "trace"), (early, "large"), (proxied, "trace"), (early, "trace")):
                build(asked, "by-any-clock", dataset, seconds=120)
            builds = early.client.get("/v1/builds?limit=1").json()["items"]
            versions = early.client.get("/v1/artifacts/cascade/by-any-clock/versions").json()["items"]
    finally:
        docker("start", proxied.container("worker"))
    assert [one["version"] for one in versions][-4:] == list(range(len(versions) - 3, len(versions) + 1))
    assert [one["active"] for one in versions][-4:] == [False, False, False, True]
    difference = datetime.fromisoformat(builds[0]["created_at"]) - datetime.fromisoformat(builds[0]["started_at"])
    assert abs(difference - timedelta(hours=2)) < timedelta(hours=1), "the clocks were not apart"


@pytest.fixture
def slow_store(proxied: House) -> Iterator[str]:
    """Give the name of a host that leads to the store over a slow line that loses packets."""
    name = f"{proxied.project}-slow-line"
    line = [SLOW_LINE.read_text(), "6379", "redis", "6379", str(DELAY_S), str(LOSS)]
    network = f"{proxied.project}_store"
    docker("run", "--detach", "--name", name, "--network", network, "--entrypoint", "python", "parsimony", "-c", *line)
    yield name
    docker("rm", "--force", "--volumes", name)


def test_a_slow_line_to_the_store_slows_no_look_up_and_loses_nothing(proxied: House, slow_store: str) -> None:
    address = ("-e", f"PARSIMONY_REDIS_URL=redis://{slow_store}:6379/0")
    with (
        one_more(proxied, "more-servers", *address) as server,
        past(proxied, server) as far,
        unshaken(proxied, callers=2),
    ):
        wait_for(far.is_ready, 60)
        began = time.monotonic()
        assert far.client.get("/v1/datasets").status_code == 200
        assert time.monotonic() - began > DELAY_S, "the line is not slow"
        upload_and_build(far, "over-a-slow-line")
        upload_and_build(proxied, "past-the-slow-line")
        for name in ("over-a-slow-line", "past-the-slow-line"):
            wait_for(lambda name=name: far.client.get(f"/v1/cascades/{name}/decision").status_code == 200, 10)
        assert problems(far) == ""
