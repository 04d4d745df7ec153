"""The files of a store that fails over agree with each other and with the compose file that they are added to."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.documents import DEPLOY, ROOT, services

ADDED: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.sentinel.yml").read_text())
BEFORE = services()
NEW = {name: service for name, service in ADDED["services"].items() if name not in BEFORE}
STORES = ("redis", "redis-2", "redis-3")


@pytest.mark.parametrize("name", NEW)
def test_each_container_is_hardened_and_only_the_stores_network_reaches_it(name: str) -> None:
    service = NEW[name]
    assert (service["read_only"], service["cap_drop"], service["restart"]) == (True, ["ALL"], "unless-stopped")
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["networks"]) == ({"store", "stores"} if name == "store-proxy" else {"stores"})
    assert ADDED["networks"]["stores"]["internal"] is True
    assert "ports" not in service
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])


@pytest.mark.parametrize("name", [*NEW, "redis"])
def test_each_mount_has_its_source_and_no_two_share_a_volume(name: str) -> None:
    for mount in ADDED["services"][name].get("volumes", ()):
        source, _, *mode = mount.split(":")
        assert (ROOT / source).exists() and mode == ["ro"] if source.startswith(".") else source in ADDED["volumes"]
    volumes = [m.split(":")[0] for s in NEW.values() for m in s.get("volumes", ()) if not m.startswith(".")]
    assert sorted(volumes) == sorted(ADDED["volumes"])


def test_stores_begin_as_followers_of_the_one_that_the_sentinels_watch_and_the_proxy_knows_them_all() -> None:
    commands = {name: shlex.join(ADDED["services"][name]["command"]) for name in STORES}
    addresses = {name: ADDED["services"][name]["networks"]["stores"]["ipv4_address"] for name in STORES}
    first = addresses["redis"]
    assert commands["redis"] == "sh /follow.sh /data"
    for name in STORES[1:]:
        assert commands[name] == f"sh /follow.sh /data 'replicaof {first} 6379'"
    assert f"sentinel monitor house {first} 6379 2\n" in (DEPLOY / "sentinel.conf").read_text()
    proxied = (DEPLOY / "haproxy-store.cfg").read_text()
    assert dict(re.findall(r"^ +server (\S+) (\S+):6379", proxied, re.M)) == addresses
    for name in ("server", "more-servers", "worker"):
        assert ADDED["services"][name] == {"environment": {"PARSIMONY_REDIS_URL": "redis://store-proxy:6379/0"}}


def test_a_store_writes_what_it_begins_with_once_and_never_over_what_it_was_told(tmp_path: Path) -> None:
    (tmp_path / "valkey-server").write_text('#!/bin/sh\ncat "$1"\n')
    (tmp_path / "valkey-server").chmod(0o755)
    command = ["sh", str(DEPLOY / "follow.sh"), str(tmp_path), "replicaof 10.213.7.11 6379"]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    began = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert began[0] == "include /etc/valkey/valkey.conf"
    assert {f"dir {tmp_path}", "min-replicas-to-write 1", "replicaof 10.213.7.11 6379"} <= set(began)
    (tmp_path / "valkey.conf").write_text("what Sentinel has told it\n")
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert again == "what Sentinel has told it\n"
