"""The compose file is whole: what it names exists, and what must be shut is shut."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.settings import Settings
from tests.deploy.documents import COMPOSE, ROOT, compose, image_environment, services

SERVICES = services()


@pytest.mark.parametrize("program", [["docker", "compose"], ["docker-compose"]], ids=" ".join)
def test_either_compose_accepts_it(program: list[str]) -> None:
    if shutil.which(program[0]) is None or subprocess.run([*program, "version"], capture_output=True).returncode != 0:
        pytest.skip(f"{' '.join(program)} is not installed: the file is checked by the other tests of this module only")
    command = [*program, "--file", str(COMPOSE), "--profile", "*", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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
    assert "build" in service or re.search(r":v?\d+\.\d+(\.\d+)?$", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_store_is_reached_by_the_server_and_the_worker_alone() -> None:
    on_it = {name for name, service in SERVICES.items() if "store" in service.get("networks", ("default",))}
    assert on_it == {"redis", "server", "more-servers", "worker"}
    assert SERVICES["redis"]["networks"] == ["store"]
    assert "ports" not in SERVICES["redis"]
    assert compose()["networks"]["store"] == {"internal": True}


def test_every_setting_can_be_given_and_the_composed_values_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name for service in ("server", "worker") for name in SERVICES[service]["environment"]}
    of_commands = {"PARSIMONY_URL", "PARSIMONY_KEY"}
    assert (
        given | set(image_environment())
        >= {f"PARSIMONY_{name.upper()}" for name in Settings.model_fields} - of_commands
    )
    values = {**image_environment(), **SERVICES["server"]["environment"], **SERVICES["worker"]["environment"]}
    for name, value in values.items():
        if name.startswith("PARSIMONY_") and value is not None:
            monkeypatch.setenv(name, value)
    settings = Settings()
    assert (settings.host, settings.port, settings.data_dir) == ("0.0.0.0", 8000, Path("/data"))
    assert settings.redis_url == "redis://redis:6379/0"
