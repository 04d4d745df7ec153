"""Three stores and Sentinels: when the store that takes writes is gone, another one does, and nothing more is lost."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.house import House, docker
from tests.containers.load import unshaken
from tests.containers.runbook import run_block
from tests.deploy.documents import ROOT, shell_blocks
from tests.support.samples import trace_upload
from tests.support.servers import wait_for
from tests.support.services import problems, store_state, upload_and_build

FILES = ("--file", "docker-compose.yml", "--file", "deploy/docker-compose.sentinel.yml")
STORES = ("redis", "redis-2", "redis-3")
ADDED = ("redis-2", "redis-3", "sentinel-1", "sentinel-2", "sentinel-3", "store-proxy")
ADDRESSES = "{{range $name, $of := .NetworkSettings.Networks}}{{$name}} {{$of.IPAddress}} {{end}}"
VOLUMES = ("store-2", "store-3", "sentinel-1", "sentinel-2", "sentinel-3")
SERVERS = ("server", "worker")


@pytest.fixture(scope="module")
def safe(house: House) -> Iterator[House]:
    """Give the house with stores that take each other's place, over the data that it had; then with one store again."""
    house.compose("--profile", "proxy", "rm", "--stop", "--force", "more-servers", "proxy")
    many = House([*house.words, *FILES], house.project)
    many.compose("up", "--detach", "--no-build", "redis", *ADDED, *SERVERS)
    try:
        wait_for(lambda: many.is_ready() and not problems(many), 90, lambda: problems(many))
        yield many
    finally:
        many.client.close()
        many.compose("rm", "--stop", "--force", *ADDED)
        docker("volume", "rm", *(f"{house.project}_{volume}" for volume in VOLUMES))
        house.compose("up", "--detach", "redis", *SERVERS)
        docker("network", "rm", f"{house.project}_stores")


def replication(house: House, store: str) -> dict[str, str]:
    """Give what a store says of whom it follows and who follows it; nothing if it does not run."""
    try:
        said = house.run_in(store, "valkey-cli", "INFO", "replication")
    except AssertionError:
        return {}
    return dict(line.split(":", 1) for line in said.splitlines() if ":" in line)


def masters(house: House) -> list[str]:
    replications = {store: replication(house, store) for store in STORES}
    return [store for store, said in replications.items() if int(said.get("min_slaves_good_slaves", 0)) > 0]


def master(house: House) -> str:
    wait_for(lambda: len(masters(house)) == 1, 60, lambda: str({store: replication(house, store) for store in STORES}))
    return masters(house)[0]


def datasets(house: House) -> set[str]:
    return {info["name"] for info in house.client.get("/v1/datasets?limit=1000").json()["items"]}


def all_followed(house: House, of: str) -> bool:
    said = replication(house, of)
    offsets = [part for name in ("slave0", "slave1") for part in said.get(name, "").split(",")]
    return offsets.count(f"offset={said.get('master_repl_offset')}") == 2


@pytest.mark.parametrize("harm", ["killed", "cut-off"])
def test_another_store_takes_the_place_of_one_that_is_gone_with_all_that_it_had(safe: House, harm: str) -> None:
    lost = master(safe)
    networks = docker("inspect", "--format", ADDRESSES, safe.container(lost)).split()
    container = safe.container(lost)
    with unshaken(safe):
        upload_and_build(safe, f"before-{harm}")
        before = datasets(safe)
        wait_for(lambda: all_followed(safe, lost), 30, lambda: str(replication(safe, lost)))
        if harm == "killed":
            docker("kill", container)
        else:
            for network in networks[::2]:
                docker("network", "disconnect", network, container)
        wait_for(lambda: store_state(safe) == "unreachable", 60, "the loss of the store goes unnoticed")
        wait_for(lambda: not problems(safe), 120, lambda: problems(safe))
        assert datasets(safe) == before
        assert safe.client.get(f"/v1/cascades/before-{harm}/decision").status_code == 200
        upload_and_build(safe, f"after-{harm}")
        if harm == "killed":
            docker("start", container)
        else:
            for network, address in zip(networks[::2], networks[1::2], strict=True):
                options = ["--ip", address] if network.endswith("_stores") else ["--alias", lost]
                docker("network", "connect", *options, network, container)
        # It comes back as one that follows, with what was written meanwhile, and was asked by nobody before.
        wait_for(
            lambda: replication(safe, lost).get("master_link_status") == "up", 90, lambda: str(replication(safe, lost))
        )
        wait_for(lambda: not problems(safe), 60, lambda: problems(safe))
        assert datasets(safe) == {*before, f"after-{harm}"}
    new = master(safe)
    assert new != lost
    wait_for(lambda: all_followed(safe, new), 30, lambda: str(replication(safe, new)))


def test_what_was_acknowledged_before_the_last_moment_is_there_after_a_failover(safe: House) -> None:
    """The last one may be lost: its acknowledgement does not wait for a replica."""
    lost, acknowledged, stop = master(safe), list[str](), threading.Event()

    def write() -> None:
        for number in range(1000):
            if stop.is_set():
                return
            name = f"written-{number}"
            if safe.client.put(f"/v1/datasets/{name}", files=trace_upload(), timeout=120).status_code == 201:
                acknowledged.append(name)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        wait_for(lambda: len(acknowledged) > 20, 60)
        docker("kill", safe.container(lost))
        beforehand = acknowledged[:-1]
        wait_for(lambda: len(acknowledged) > len(beforehand) + 20, 120)
    finally:
        stop.set()
        writing.join()
        docker("start", safe.container(lost))
    assert not {*beforehand} - datasets(safe)
    assert not {*acknowledged[len(beforehand) + 1 :]} - datasets(safe), "lost though the new store has taken it"
    wait_for(
        lambda: replication(safe, lost).get("master_link_status") == "up", 90, lambda: str(replication(safe, lost))
    )


def test_the_runbooks_blocks_back_up_restore_and_lead_back_to_one_store(safe: House, tmp_path: Path) -> None:
    """The last test of this house: it ends as one with one store."""
    start, back_up, restore, take_writes, one_store = shell_blocks("A store that fails over")
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    run_block(safe, tmp_path, start.splitlines()[0])
    master(safe)
    upload_and_build(safe, "in-the-backup-of-three")
    before = datasets(safe)
    assert run_block(safe, tmp_path, back_up)[:5] in ("VALKE", "REDIS")
    upload_and_build(safe, "after-the-backup-of-three")
    run_block(safe, tmp_path, restore)
    wait_for(lambda: safe.is_ready() and not problems(safe), 90, lambda: problems(safe))
    assert datasets(safe) == before
    assert safe.client.get("/v1/cascades/in-the-backup-of-three/decision").status_code == 200
    assert safe.client.get("/v1/cascades/after-the-backup-of-three/decision").status_code == 404
    wait_for(lambda: all_followed(safe, master(safe)), 60, lambda: str(replication(safe, "redis")))

    def redis_takes_writes() -> bool:
        asked, ask_master = take_writes.splitlines()
        if run_block(safe, tmp_path, ask_master).strip() != "master":
            run_block(safe, tmp_path, f"{asked} || true")  # there is one under way, or its replicas are not known yet
        return run_block(safe, tmp_path, ask_master).strip() == "master"

    wait_for(redis_takes_writes, 60, "redis does not take writes")
    wait_for(lambda: all_followed(safe, "redis"), 60, lambda: str(replication(safe, "redis")))
    run_block(safe, tmp_path, one_store)
    wait_for(lambda: safe.is_ready() and not problems(safe), 90, lambda: problems(safe))
    assert not safe.containers("sentinel-1"), "what is not part of the house any more stays"
    assert datasets(safe) == before
    upload_and_build(safe, "with-one-store-again")
