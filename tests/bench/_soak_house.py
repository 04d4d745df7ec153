"""The service that a soak harms: a store behind a proxy, a server of several processes, two workers; and the faults."""

import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import httpx
import psutil

from tests.support.servers import Server, environment, free_port, start_server, wait_for
from tests.support.stores import Proxy, StoreProcess

SERVERS = 2
WORKERS = 2
UP_S = 180.0
"""How long the house may take to be whole again after a fault."""

QUEUE = 8
"""Builds that may wait: more would only show how fast this machine builds."""


class House:
    """All processes of a service. ``broken`` is set while processes that answer are being killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = StoreProcess(folder / "store")
        self.store.start()
        self.proxy = Proxy(self.store.port)
        self.port = free_port()
        self._begun = 0
        self.server = self._start()
        self.broken = threading.Event()
        self._workers = [self._work() for _ in range(WORKERS)]
        self.server.wait_until_ready(UP_S)

    @property
    def url(self) -> str:
        return self.server.url

    def client(self, timeout: float = 30.0) -> httpx.Client:
        """Make a client that takes a new connection for each request, so that it reaches every process."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.url, timeout=timeout, trust_env=False, limits=limits)

    def servers(self) -> list[psutil.Process]:
        processes = psutil.process_iter(["ppid", "cmdline"])
        started = [one for one in processes if one.info["ppid"] == self.server.process.pid]
        return [one for one in started if "spawn_main" in " ".join(one.info["cmdline"] or [])]

    def restart_server(self) -> None:
        self.server.kill(whole_tree=True)
        self.server = self._start()
        self.server.wait_until_ready(UP_S)

    def kill_server_process(self, draw: random.Random) -> None:
        """Kill one of the processes that answer; the server starts another one."""
        draw.choice(self.servers()).kill()
        self._begun += 1

    def kill_worker(self, which: int) -> None:
        """Kill a worker with its build and the process that watches it."""
        watcher = psutil.Process(self._workers[which].pid)
        with suppress(psutil.Error):
            for worker in watcher.children():
                for build in worker.children():
                    build.kill()
                worker.kill()
            watcher.kill()
        self.mend_workers()

    def mend_workers(self) -> None:
        for number, worker in enumerate(self._workers):
            with suppress(subprocess.TimeoutExpired):
                worker.wait(timeout=0.2)
                self._workers[number] = self._work()

    def wait_until_whole(self) -> None:
        """Wait until every process has started and readiness has nothing to say."""
        wait_for(lambda: self._started() >= self._begun, UP_S, "a process that answers is missing")
        with self.client(5) as client:
            wait_for(lambda: all(_fine(client) for _ in range(3 * SERVERS)), UP_S, lambda: _told(client))

    def close(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(timeout=60)
        self.server.stop()
        self.proxy.close()
        self.store.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _started(self) -> int:
        return self.server.log.read_text().count("ready console=")

    def _start(self) -> Server:
        self._begun += SERVERS
        flags = ("--workers", str(SERVERS))
        return start_server(
            self.folder / "server", *flags, port=self.port, redis_url=self.proxy.url, build_queue_limit=QUEUE
        )

    def _work(self) -> subprocess.Popen[bytes]:
        with (self.folder / "workers.log").open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "app", "worker"],
                env=environment(self.folder, redis_url=self.proxy.url),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )


def _told(client: httpx.Client) -> str:
    try:
        reply = client.get("/health/ready")
    except httpx.TransportError as error:
        return repr(error)
    return "; ".join(reply.json()["problems"]) if reply.status_code == 200 else reply.text


def _fine(client: httpx.Client) -> bool:
    return _told(client) == ""


Fault = Callable[[House, random.Random], Any]


@contextmanager
def store_killed(house: House, draw: random.Random) -> Iterator[None]:
    house.store.kill()
    yield
    house.store.start()


@contextmanager
def store_hangs(house: House, draw: random.Random) -> Iterator[None]:
    house.store.signal(signal.SIGSTOP)
    yield
    house.store.signal(signal.SIGCONT)


@contextmanager
def store_full(house: House, draw: random.Random) -> Iterator[None]:
    house.store.client.config_set("maxmemory", "1mb")
    yield
    house.store.client.config_set("maxmemory", "0")


@contextmanager
def store_emptied(house: House, draw: random.Random) -> Iterator[None]:
    """Let the store come back empty, yet full, so that nobody writes; then put its data back, as from a backup."""
    store = house.store
    kept = store.folder.with_name("kept")
    store.kill()
    store.folder.rename(kept)
    store.start("--maxmemory", "1kb")
    yield
    store.kill()
    shutil.rmtree(store.folder)
    kept.rename(store.folder)
    store.start()


@contextmanager
def bytes_corrupted(house: House, draw: random.Random) -> Iterator[None]:
    """Flip a bit in the bytes of an active artifact; put it right again."""
    client = house.store.client
    pointers = cast("dict[bytes, bytes]", client.hgetall("parsimony:active"))
    name = b"parsimony:blob:" + draw.choice(sorted(pointers.values())).split()[1]
    good = cast(bytes, client.get(name))
    at = draw.randrange(len(good))
    client.set(name, good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    yield
    if client.exists(name):
        client.set(name, good)


@contextmanager
def connections_cut(house: House, draw: random.Random) -> Iterator[None]:
    """Break every connection to the store, somewhere in the middle of what is being said."""
    house.proxy.cut_after = house.proxy.sent + draw.randrange(20_000)
    yield
    house.proxy.cut_after = None


@contextmanager
def server_process_killed(house: House, draw: random.Random) -> Iterator[None]:
    """Kill one of the processes that answer; its requests are lost, no others."""
    house.broken.set()
    house.kill_server_process(draw)
    yield
    house.broken.clear()


@contextmanager
def server_killed(house: House, draw: random.Random) -> Iterator[None]:
    house.broken.set()
    house.restart_server()
    house.broken.clear()
    yield


@contextmanager
def worker_killed(house: House, draw: random.Random) -> Iterator[None]:
    house.kill_worker(draw.randrange(2))
    yield


_STORE = (store_killed, store_hangs, store_full, store_emptied, bytes_corrupted, connections_cut)
_PROCESSES = (server_process_killed, server_killed, worker_killed)
FAULTS: dict[str, Fault] = {fault.__name__.replace("_", " "): fault for fault in (*_STORE, *_PROCESSES)}
