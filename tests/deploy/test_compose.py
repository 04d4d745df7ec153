"""The compose file is whole: what it names exists, and what must be shut is shut."""

import re
import shutil
import subprocess
from typing import Any

import pytest

from app.http.server import STOP_S
from tests.deploy.documents import COMPOSE, DEPLOY, ROOT, arguments, compose, image_environment, ours, services

SERVICES = services()


def test_it_has_the_services_and_profiles_of_the_runbook() -> None:
    profiles = {name: tuple(service.get("profiles", ())) for name, service in SERVICES.items()}
    assert profiles == {
        "redis": (),
        "server": (),
        "worker": (),
        "more-servers": ("proxy",),
        "proxy": ("proxy",),
        "dask-scheduler": ("dask",),
        "dask-worker": ("dask",),
        "prometheus": ("monitoring",),
        "grafana": ("monitoring",),
    }


def test_how_many_of_each_there_are_is_a_setting_that_the_next_command_does_not_forget() -> None:
    scales = {name: service["scale"] for name, service in SERVICES.items() if "scale" in service}
    assert scales == {
        "worker": "${BUILD_WORKERS:-1}",
        "more-servers": "${MORE_SERVERS:-1}",
        "dask-worker": "${DASK_WORKERS:-1}",
    }
    table = (DEPLOY / "README.md").read_text()
    for setting in ("BUILD_WORKERS", "MORE_SERVERS", "DASK_WORKERS"):
        assert f"\n| `{setting}=" in table


@pytest.mark.parametrize("program", [["docker", "compose"], ["docker-compose"]], ids=" ".join)
def test_either_compose_accepts_it(program: list[str]) -> None:
    if shutil.which(program[0]) is None or subprocess.run([*program, "version"], capture_output=True).returncode != 0:
        pytest.skip(f"{' '.join(program)} is not installed: the file is checked by the other tests of this module only")
    command = [*program, "--file", str(COMPOSE), "--profile", "*", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_has_nothing_that_the_older_compose_refuses() -> None:
    assert set(compose()) - {"services", "networks", "volumes"} == {
        "x-hardened",
        "x-parsimony",
        "x-settings",
        "x-server",
    }


@pytest.mark.parametrize("name", SERVICES)
def test_each_mount_has_its_source(name: str) -> None:
    for mount in SERVICES[name].get("volumes", ()):
        source, target, *mode = mount.split(":")
        assert target.startswith("/")
        if source.startswith("."):
            assert (ROOT / source).exists(), source
            assert mode == ["ro"], f"{mount}: a container may change the repository"
        else:
            assert source in compose()["volumes"]


def test_no_two_services_write_to_one_volume() -> None:
    volumes = [m.split(":")[0] for s in SERVICES.values() for m in s.get("volumes", ()) if not m.startswith(".")]
    assert sorted(volumes) == sorted(compose()["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_each_container_is_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert "privileged" not in service
    assert "cap_add" not in service


@pytest.mark.parametrize("name", sorted(set(SERVICES) - set(ours())))
def test_foreign_images_are_pinned(name: str) -> None:
    assert re.search(r":v?\d+\.\d+(\.\d+)?$", SERVICES[name]["image"])


def test_our_roles_share_one_image() -> None:
    assert {(service["image"], service["build"]) for service in ours().values()} == {("parsimony", ".")}


@pytest.mark.parametrize("name", ours())
def test_our_containers_can_write_where_the_image_says(name: str) -> None:
    writable = [volume.split(":")[1] for volume in SERVICES[name]["volumes"]]
    writable += [mount.split(":")[0] for mount in SERVICES[name]["tmpfs"]]
    for variable in ("PARSIMONY_DATA_DIR", "TMPDIR"):
        path = image_environment()[variable]
        assert any(f"{path}/".startswith(f"{folder}/") for folder in writable), path


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_published_is_published_to_this_machine_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", ()))


def test_the_store_is_reached_by_the_server_and_the_worker_alone() -> None:
    on_it = {name for name, service in SERVICES.items() if "store" in service.get("networks", ("default",))}
    assert on_it == {"redis", "server", "more-servers", "worker"}
    assert SERVICES["redis"]["networks"] == ["store"]
    assert "ports" not in SERVICES["redis"]
    assert compose()["networks"]["store"] == {"internal": True}


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_can_become_healthy(name: str) -> None:
    needed: Any = SERVICES[name].get("depends_on", {})
    for other in needed:
        profiles = SERVICES[other].get("profiles", [])
        assert profiles in ([], SERVICES[name].get("profiles"))
        if isinstance(needed, dict):
            assert needed[other] == {"condition": "service_healthy"}
            assert "test" in SERVICES[other]["healthcheck"]


def test_a_role_without_the_servers_port_does_not_inherit_its_health_check() -> None:
    assert all("healthcheck" in service for service in ours().values())


def test_the_port_is_the_same_everywhere() -> None:
    port = image_environment()["PARSIMONY_PORT"]
    assert arguments("EXPOSE") == [port]
    assert SERVICES["server"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert SERVICES["server"]["environment"]["PARSIMONY_REDIS_URL"] == "redis://redis:6379/0"
    assert "PARSIMONY_PORT" not in SERVICES["server"]["environment"]


def test_the_proxy_finds_all_servers_by_their_common_name_and_is_reached_where_it_listens() -> None:
    proxied, port = (DEPLOY / "haproxy.cfg").read_text(), image_environment()["PARSIMONY_PORT"]
    sharing = {
        name
        for name, service in SERVICES.items()
        if isinstance(service.get("networks"), dict) and "servers" in service["networks"]["default"]["aliases"]
    }
    assert sharing == {"server", "more-servers"}
    assert f" servers:{port} " in proxied
    (listening,) = re.findall(r"bind :(\d+)", proxied)
    assert SERVICES["proxy"]["ports"] == [f"127.0.0.1:{listening}:{listening}"]


def test_a_server_answers_on_for_longer_than_the_proxy_needs_to_notice_and_has_time_to_end_after_it() -> None:
    drain_s = float(SERVICES["server"]["environment"]["PARSIMONY_DRAIN_S"])
    proxied = (DEPLOY / "haproxy.cfg").read_text()
    (check_ms,) = re.findall(r"check inter (\d+)ms fall 1 ", proxied)
    (silent_s,) = re.findall(r"timeout check (\d+)s\n", proxied)
    assert drain_s > 2 * float(check_ms) / 1000
    assert drain_s > float(silent_s) + float(check_ms) / 1000, "one that says nothing is asked until it stops"
    assert float(SERVICES["server"]["stop_grace_period"].removesuffix("s")) > drain_s + STOP_S


def test_more_servers_are_as_the_one() -> None:
    own = {"ports", "volumes", "profiles", "scale"}
    one, more = ({k: v for k, v in SERVICES[n].items() if k not in own} for n in ("server", "more-servers"))
    assert one == more


def test_the_dask_roles_find_each_other() -> None:
    port = SERVICES["dask-scheduler"]["command"][1]
    assert SERVICES["dask-worker"]["command"][0] == f"tcp://dask-scheduler:{port}"
    assert f"PARSIMONY_DASK_SCHEDULER=tcp://dask-scheduler:{port} " in COMPOSE.read_text()


def test_dask_is_used_only_if_the_user_says_so() -> None:
    environments = {name: service.get("environment", {}) for name, service in SERVICES.items()}
    having = {
        name: e["PARSIMONY_DASK_SCHEDULER"] for name, e in environments.items() if "PARSIMONY_DASK_SCHEDULER" in e
    }
    assert having == {"worker": None}
