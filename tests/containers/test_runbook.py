"""What the runbook has one do with a house of containers: back up and restore, keys, more server processes."""

import os
import subprocess

from tests.containers.house import House
from tests.deploy.documents import DEPLOY, shell_lines
from tests.support.servers import wait_for
from tests.support.services import look_ups, upload_and_build

SNAPSHOT = b"VALKE", b"REDIS"


def test_a_backup_brings_back_what_was_there_and_nothing_that_came_later(house: House) -> None:
    _, before = look_ups(house, 1)
    upload_and_build(house, "in-the-backup")
    saving = "valkey-cli SAVE >&2 && cat /data/dump.rdb"
    save = [*house.words, "exec", "-T", "redis", "sh", "-c", saving]
    backup = subprocess.run(save, capture_output=True, check=True).stdout
    assert backup[:5] in SNAPSHOT
    upload_and_build(house, "after-the-backup")
    house.compose("stop", "server", "worker", "redis")
    restoring = "run --rm --no-deps -T redis sh /restore.sh /data"
    restore = [*house.words, *restoring.split()]
    done = subprocess.run(restore, input=backup, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    house.compose("up", "--detach", "--no-recreate", "redis", "server", "worker")
    house.wait_until_ready()
    assert look_ups(house)[1] == before
    told = shell_lines()
    assert any(saving in line for line in told)
    assert any(restoring in line for line in told), "the runbook says something else"
    names = {info["name"] for info in house.client.get("/v1/datasets").json()["items"]}
    assert "in-the-backup" in names
    assert "after-the-backup" not in names
    assert house.client.get("/v1/cascades/after-the-backup/decision").status_code == 404
    upload_and_build(house, "after-the-restore")


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
