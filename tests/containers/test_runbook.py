"""What the runbook has one do with a house of containers: back up and restore, keys, more server processes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.containers.house import House
from tests.containers.runbook import run_block
from tests.deploy.documents import DEPLOY, shell_blocks
from tests.support.servers import wait_for
from tests.support.services import look_ups, upload_and_build

SNAPSHOT = "VALKE", "REDIS"


def test_the_runbooks_blocks_bring_back_what_was_there_and_nothing_later(house: House, tmp_path: Path) -> None:
    back_up, restore = shell_blocks("Back up and restore")
    (tmp_path / "deploy").symlink_to(DEPLOY)
    _, before = look_ups(house, 1)
    upload_and_build(house, "in-the-backup")
    assert run_block(house, tmp_path, back_up)[:5] in SNAPSHOT
    upload_and_build(house, "after-the-backup")
    assert "smoke: tidy" in run_block(house, tmp_path, restore)
    house.wait_until_ready()
    assert look_ups(house)[1] == before
    names = {info["name"] for info in house.client.get("/v1/datasets").json()["items"]}
    assert "in-the-backup" in names
    assert "after-the-backup" not in names
    assert house.client.get("/v1/cascades/after-the-backup/decision").status_code == 404
    upload_and_build(house, "after-the-restore")


def test_a_backup_that_the_store_refuses_is_an_error_and_not_the_snapshot_before(house: House, tmp_path: Path) -> None:
    back_up, _ = shell_blocks("Back up and restore")
    assert run_block(house, tmp_path, back_up)[:5] in SNAPSHOT
    house.run_in("redis", "valkey-cli", "CONFIG", "SET", "rdb-key-save-delay", "300000")
    try:
        house.run_in("redis", "valkey-cli", "BGSAVE")
        with pytest.raises(AssertionError, match="Background save already in progress"):
            run_block(house, tmp_path, back_up)
        assert (tmp_path / "backup.rdb").read_bytes() == b""
    finally:
        house.run_in("redis", "valkey-cli", "CONFIG", "SET", "rdb-key-save-delay", "0")
    wait_for(lambda: "rdb_bgsave_in_progress:0" in house.run_in("redis", "valkey-cli", "INFO", "persistence"), 60)


def test_the_runbooks_blocks_change_a_key_and_lock_nobody_out(house: House, tmp_path: Path) -> None:
    def status(key: str) -> int:
        return house.client.get("/v1/datasets", headers={"Authorization": f"Bearer {key}"}).status_code

    add, remove = shell_blocks("Change the keys")
    old = "secret-before"
    (tmp_path / ".env").write_text(f"PARSIMONY_API_KEYS={old}:build\n")
    house.compose("up", "--detach", "--no-deps", "server", PARSIMONY_API_KEYS=f"{old}:build")
    try:
        house.wait_until_ready()
        assert (status(old), status("another")) == (200, 401)
        new = run_block(house, tmp_path, add, KEY=old).strip()
        assert (status(old), status(new)) == (200, 200)
        run_block(house, tmp_path, remove, KEY=old)
        assert (status(old), status(new)) == (401, 200)
    finally:
        house.compose("up", "--detach", "--no-deps", "server")
    house.wait_until_ready()


def test_keys_and_more_processes_are_taken_from_the_environment_and_the_smoke_test_passes(house: House) -> None:
    settings = {"PARSIMONY_WORKERS": "2", "PARSIMONY_API_KEYS": "secret-of-this-test:build"}
    house.compose("up", "--detach", "--no-deps", "server", **settings)
    try:
        house.wait_until_ready()
        assert house.client.get("/v1/datasets").status_code == 401
        smoke = subprocess.run(
            [DEPLOY / "smoke.sh"], env={**os.environ, "API_KEY": "secret-of-this-test"}, capture_output=True, text=True
        )
        assert (smoke.returncode, smoke.stderr) == (0, "")
        assert "parsimony_artifacts_loaded" in house.client.get("/metrics").text
    finally:
        house.compose("up", "--detach", "--no-deps", "server")
    house.wait_until_ready()
    wait_for(lambda: house.client.get("/v1/datasets").status_code == 200, 10)
