"""The embedded server, by real processes: nothing is lost and nothing is left behind, whoever is killed."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from app.store.client import Store
from app.store.embedded import EmbeddedRedis
from app.store.embedded_files import socket_path
from models.errors import StoreUnavailable
from tests.support.patience import patient
from tests.support.servers import environment, wait_for

SERVER, KEEPER = "valkey-server", "import keep_running"
USER = """
import sys, time
from pathlib import Path
from app.store.embedded import EmbeddedRedis
from app.store.client import Store
server = EmbeddedRedis(Path(sys.argv[1]))
store = Store(server.url)
store.client.set(sys.argv[2], "written")
print("ready", flush=True)
sys.stdin.readline()
store.close()
server.close()
"""


def processes(folder: Path, word: str = "") -> list[psutil.Process]:
    """Find the processes whose command line or working directory names a folder, and a word if one is given."""
    matching = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            where = f"{line} {process.cwd()}"  # the server retitles itself, and works in the folder
            ours = str(folder) in where and word in line and process.pid != os.getpid()
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                matching.append(process)
        except psutil.Error:
            continue
    return matching


def one(folder: Path, word: str) -> psutil.Process:
    wait_for(lambda: len(processes(folder, word)) == 1, 10)
    return processes(folder, word)[0]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    wait_for(lambda: not processes(tmp_path), 10, lambda: f"left over: {processes(tmp_path)}")


def user(folder: Path, name: str) -> subprocess.Popen[str]:
    """Start a process that uses the store, writes a key, and leaves when it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(folder), name],
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("leave\n", timeout=patient(10))
    assert process.returncode == 0


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=patient(10))


def written(server: EmbeddedRedis, name: str = "name") -> object:
    store = Store(server.url)
    try:
        return store.client.get(name)
    finally:
        store.close()


def write(server: EmbeddedRedis, name: str = "name") -> None:
    store = Store(server.url)
    store.client.set(name, "written")
    store.close()


def answers(server: EmbeddedRedis, name: str = "name") -> bool:
    try:
        return written(server, name) == b"written"
    except redis.ConnectionError:
        return False


def test_nobody_else_can_reach_the_socket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the folder was there and others could read it; a relative path is the same store."""
    (folder / "redis").mkdir(mode=0o755)
    monkeypatch.chdir(folder)
    with EmbeddedRedis(folder) as server, EmbeddedRedis(Path(".")) as same:
        assert (folder / "redis").stat().st_mode & 0o777 == 0o700
        assert socket_path(server.folder).stat().st_mode & 0o777 == 0o700
        assert server.url == same.url == f"unix://{folder}/redis/redis.sock"
        assert one(folder, SERVER).net_connections("inet") == []


def test_a_clean_stop_saves_and_who_comes_while_it_stops_waits_and_finds_the_data(folder: Path) -> None:
    for _ in range(3):
        with EmbeddedRedis(folder) as server:
            write(server)
        with EmbeddedRedis(folder) as server:
            assert written(server) == b"written"
    wait_for(lambda: not processes(folder), 10)
    with EmbeddedRedis(folder) as server:
        assert written(server) == b"written"


def test_two_users_share_one_server_and_the_last_stops_it(folder: Path) -> None:
    first, second = user(folder, "one"), user(folder, "two")
    server = one(folder, SERVER)
    one(folder, KEEPER)
    leave(first)
    with EmbeddedRedis(folder) as third:
        assert written(third, "one") == written(third, "two") == b"written"
    assert server.is_running()
    end(second)
    wait_for(lambda: not processes(folder), 10)


def test_after_everything_was_killed_the_next_start_finds_the_data_and_no_orphan(folder: Path) -> None:
    users = [user(folder, "one"), user(folder, "two")]
    doomed = [one(folder, KEEPER), one(folder, SERVER)]
    for kept in doomed:
        kept.kill()
    for process in users:
        end(process)
    wait_for(lambda: not processes(folder), 10)
    with EmbeddedRedis(folder) as server:
        assert written(server, "one") == written(server, "two") == b"written"
        assert one(folder, SERVER).pid not in [process.pid for process in doomed]


def test_a_killed_keeper_takes_the_server_with_it_and_revive_starts_both_again(folder: Path) -> None:
    """A living keeper is left alone, and signals from the terminal do not stop it."""
    with EmbeddedRedis(folder) as server:
        write(server)
        keeper, doomed = one(folder, KEEPER), one(folder, SERVER)
        server.restart_keeper()
        for number in (signal.SIGINT, signal.SIGHUP):
            keeper.send_signal(number)
            wait_for(lambda: answers(server), 30)
        assert (one(folder, SERVER).pid, keeper.is_running()) == (doomed.pid, True)
        assert os.getsid(keeper.pid) != os.getsid(0)
        keeper.kill()
        wait_for(lambda: not doomed.is_running() or doomed.status() == psutil.STATUS_ZOMBIE, 10)
        assert not answers(server)
        server.restart_keeper()
        assert answers(server)
        one(folder, KEEPER)
        one(folder, SERVER)


def test_a_killed_server_is_started_again_on_its_data(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        write(server)
        doomed = one(folder, SERVER)
        doomed.kill()
        doomed.wait(5)
        wait_for(lambda: answers(server), 10)
        assert one(folder, SERVER).pid != doomed.pid


def test_a_keeper_that_is_terminated_stops_the_server_which_can_be_revived_with_all_it_held(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        write(server)
        one(folder, KEEPER).terminate()
        wait_for(lambda: not answers(server), 30)

        def is_revived() -> bool:
            server.restart_keeper()  # nothing happens while the keeper is still stopping
            return answers(server)

        wait_for(is_revived, 30)


def test_a_path_too_long_for_a_socket_works(folder: Path) -> None:
    data_dir = folder / ("long" * 30)
    with EmbeddedRedis(data_dir) as server:
        write(server)
        assert len(server.url) < 108
        assert socket_path(server.folder).parent.stat().st_mode & 0o777 == 0o700
        assert not (data_dir / "redis" / "redis.sock").exists()
    wait_for(lambda: not processes(folder), 10)
    with EmbeddedRedis(data_dir) as server:
        assert written(server) == b"written"
    assert socket_path(folder / ("a" * 120)) != socket_path(folder / ("a" * 119))
    assert socket_path(folder / "a") == folder / "a" / "redis.sock"


def test_a_store_that_cannot_start_says_where_to_look(folder: Path) -> None:
    (folder / "redis" / "redis.log").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match=r"the embedded store failed to start; see .*redis\.log"):
        EmbeddedRedis(folder)
    shutil.rmtree(folder / "redis")
    (folder / "redis").write_text("")
    with pytest.raises(OSError, match="File exists"):
        EmbeddedRedis(folder)


def test_a_server_whose_folder_was_removed_ends_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def removed() -> bool:
        shutil.rmtree(folder, ignore_errors=True)  # again, if the server made a file meanwhile
        return not folder.exists()

    with EmbeddedRedis(folder):
        wait_for(removed, 5, "the folder stays")
    wait_for(lambda: not naming(tmp_path), 15, "a keeper or a server is left over")


def naming(folder: Path) -> list[psutil.Process]:
    listed = psutil.process_iter(["cmdline", "status"])
    alive = [process for process in listed if process.info["status"] != psutil.STATUS_ZOMBIE]
    return [process for process in alive if any(str(folder) in word for word in process.info["cmdline"] or [])]
