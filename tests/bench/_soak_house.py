"""The service that a soak harms: a store behind a proxy, a server of several processes, two workers."""

import random
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

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
        """The address of the service."""
        return self.server.url

    def client(self, timeout: float = 30.0) -> httpx.Client:
        """Make a client that takes a new connection for each request, so that it reaches every process."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.url, timeout=timeout, trust_env=False, limits=limits)

    def servers(self) -> list[psutil.Process]:
        """List the processes that answer."""
        processes = psutil.process_iter(["ppid", "cmdline"])
        started = [one for one in processes if one.info["ppid"] == self.server.process.pid]
        return [one for one in started if "spawn_main" in " ".join(one.info["cmdline"] or [])]

    def memory_mb(self) -> float:
        """Give the memory of the processes that answer, on average."""
        sizes = []
        for one in self.servers():
            with suppress(psutil.Error):
                sizes.append(one.memory_info().rss / 2**20)
        return sum(sizes) / len(sizes) if sizes else 0.0

    def restart_server(self, *, kill: bool) -> None:
        """End the server, in order or by -9, and start another one on its port."""
        if kill:
            self.server.kill(whole_tree=True)
        else:
            self.server.stop()
        self.server = self._start()
        self.server.wait_until_ready(UP_S)

    def kill_server_process(self, draw: random.Random) -> None:
        """Kill one of the processes that answer; the server starts another one."""
        draw.choice(self.servers()).kill()
        self._begun += 1

    def kill_worker(self, which: int, *, builds_only: bool = False) -> None:
        """Kill a worker with whoever watches it, or only the build that it runs."""
        watcher = psutil.Process(self._workers[which].pid)
        with suppress(psutil.Error):
            for worker in watcher.children():
                for build in worker.children():
                    build.kill()
                if not builds_only:
                    worker.kill()
            if not builds_only:
                watcher.kill()
        self.mend_workers()

    def mend_workers(self) -> None:
        """Start a worker for each that has ended."""
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
        """End everything."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(timeout=60)
        self.server.stop()
        self.proxy.close()
        self.store.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _started(self) -> int:
        return self.server.log.read_text().count("Application startup complete")

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
