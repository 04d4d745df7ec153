"""Each container is what docker-compose.yml and the Dockerfile say: its user, its root, its rights, its limits."""

import re
import subprocess
from typing import Any

import httpx
import pytest

from tests.containers.house import House, docker
from tests.deploy.documents import arguments
from tests.support.patience import patient
from tests.support.servers import wait_for
from tests.support.services import LOOK_UP

USERS = {"redis": "999", "prometheus": "65534", "grafana": "472"}
"""Whom foreign images name; ours is in the Dockerfile."""
SERVICES = ["redis", "server", "worker", "prometheus", "grafana"]
UNITS = {"m": 2**20, "g": 2**30}


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest, services: dict[str, dict[str, Any]]) -> str:
    name = str(request.param)
    if name not in services:
        pytest.skip(f"{name} is left out: its image cannot be had")
    return name


def test_it_is_healthy_and_was_never_started_again(house: House, service: str) -> None:
    wait_for(lambda: house.is_well(service), 60, lambda: str(house.inspect(service)["State"]))
    assert house.restarts(service) == 0
    assert house.inspect(service)["State"]["OOMKilled"] is False


def test_all_its_processes_are_the_users_that_the_files_name(house: House, service: str) -> None:
    wanted = USERS.get(service, arguments("USER")[0].split(":")[0])
    for line in house.run_in(service, "sh", "-c", "grep -h ^Uid: /proc/[0-9]*/status").splitlines():
        assert line.split()[1:] == [wanted] * 4, line


def test_its_root_cannot_be_written_and_its_folders_can(
    house: House, service: str, services: dict[str, dict[str, Any]]
) -> None:
    refused = subprocess.run(
        ["docker", "exec", house.container(service), "sh", "-c", "echo > /written"], capture_output=True, text=True
    )
    assert refused.returncode != 0
    assert "ead-only" in refused.stderr
    folders = [mount.split(":")[1] for mount in services[service]["volumes"] if not mount.endswith(":ro")]
    folders += [mount.split(":")[0] for mount in services[service].get("tmpfs", [])]
    for folder in folders:
        house.run_in(service, "sh", "-c", f"echo > {folder}/written && rm {folder}/written")


def test_its_first_process_has_no_rights_and_can_get_none(house: House, service: str) -> None:
    status = dict(re.findall(r"(?m)^(\w+):\s*(\S+)$", house.run_in(service, "cat", "/proc/1/status")))
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_its_limits_hold(house: House, service: str, services: dict[str, dict[str, Any]]) -> None:
    said = services[service]["mem_limit"]
    limit = int(said[:-1]) * UNITS[said[-1]]
    host = house.inspect(service)["HostConfig"]
    assert host["Memory"] == limit
    assert (host["PidsLimit"] or None) == services[service].get("pids_limit")
    version_1, version_2 = "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"
    assert int(house.run_in(service, "sh", "-c", f"cat {version_1} 2>&- || cat {version_2}")) == limit


def test_only_this_machine_reaches_it(house: House, service: str) -> None:
    published = house.inspect(service)["NetworkSettings"]["Ports"] or {}
    addresses = {place["HostIp"] for places in published.values() for place in places or ()}
    assert addresses == ({"127.0.0.1"} if service not in ("redis", "worker") else set())


def test_the_store_has_no_way_out_and_monitoring_no_way_to_the_store(house: House) -> None:
    assert list(house.inspect("redis")["NetworkSettings"]["Networks"]) == [f"{house.project}_store"]
    assert docker("network", "inspect", "--format", "{{.Internal}}", f"{house.project}_store") == "true"
    assert list(house.inspect("prometheus")["NetworkSettings"]["Networks"]) == [f"{house.project}_default"]


def test_what_was_built_by_the_worker_is_decided_by_the_server(house: House) -> None:
    reply = house.client.get(LOOK_UP).json()
    assert reply["artifact"] == {"kind": "cascade", "name": "trace", "version": 1}
    assert reply["cascade"][-1] == "strong"


def test_monitoring_collects_from_the_server_and_knows_the_alerts(house: House) -> None:
    with httpx.Client(base_url="http://127.0.0.1:9090/api/v1", timeout=patient(5), trust_env=False) as prometheus:

        def up() -> list[str]:
            series = prometheus.get("/query", params={"query": 'up{job="parsimony"}'}).json()["data"]["result"]
            return [one["value"][1] for one in series]

        wait_for(lambda: up() == ["1"], 40, up)
        rules = prometheus.get("/rules").json()["data"]["groups"]
        assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}
        assert sum(len(group["rules"]) for group in rules) > 5
