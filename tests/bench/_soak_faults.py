"""The faults of a soak. Each is done, stays for a while, and is undone; the house must be whole after it."""

import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from tests.bench._soak_house import House
from tests.support.servers import free_port
from tests.support.stores import StoreProcess

Fault = Callable[[House, random.Random], Any]
SLOW_S = 0.2


@contextmanager
def store_killed(house: House, draw: random.Random) -> Iterator[None]:
    """Kill the store; start it again on its data."""
    house.store.kill()
    yield
    house.store.start()


@contextmanager
def store_hangs(house: House, draw: random.Random) -> Iterator[None]:
    """Stop the store's process; let it go on."""
    house.store.signal(signal.SIGSTOP)
    yield
    house.store.signal(signal.SIGCONT)


@contextmanager
def store_slow(house: House, draw: random.Random) -> Iterator[None]:
    """Hold back each command by 200 ms."""
    house.proxy.delay_s = SLOW_S
    yield
    house.proxy.delay_s = 0.0


@contextmanager
def store_full(house: House, draw: random.Random) -> Iterator[None]:
    """Let the store hold less than it does."""
    house.store.client.config_set("maxmemory", "1mb")
    yield
    house.store.client.config_set("maxmemory", "0")


@contextmanager
def store_read_only(house: House, draw: random.Random) -> Iterator[None]:
    """Make the store follow one that is not there."""
    house.store.client.replicaof("127.0.0.1", free_port())
    yield
    house.store.client.replicaof("NO", "ONE")


@contextmanager
def store_emptied(house: House, draw: random.Random) -> Iterator[None]:
    """Let the store come back empty, yet full, so that nobody writes; then put its data back, as from a backup."""
    store = house.store
    kept = store.folder.with_name("kept")
    store.kill()
    store.folder.rename(kept)
    _start_full(store)
    yield
    store.kill()
    shutil.rmtree(store.folder)
    kept.rename(store.folder)
    store.start()


def _start_full(store: StoreProcess) -> None:
    store.start("--maxmemory", "1kb")


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
    """Kill the whole server and start it again."""
    house.broken.set()
    house.restart_server(kill=True)
    house.broken.clear()
    yield


@contextmanager
def server_restarted(house: House, draw: random.Random) -> Iterator[None]:
    """Stop the server in order and start it again."""
    house.broken.set()
    house.restart_server(kill=False)
    house.broken.clear()
    yield


@contextmanager
def worker_killed(house: House, draw: random.Random) -> Iterator[None]:
    """Kill a worker with its build, and start another one."""
    house.kill_worker(draw.randrange(2))
    yield


@contextmanager
def build_killed(house: House, draw: random.Random) -> Iterator[None]:
    """Kill the process of a build."""
    house.kill_worker(draw.randrange(2), builds_only=True)
    yield


FAULTS: dict[str, Fault] = {
    fault.__name__.replace("_", " "): fault
    for fault in (
        store_killed,
        store_hangs,
        store_slow,
        store_full,
        store_read_only,
        store_emptied,
        bytes_corrupted,
        connections_cut,
        server_process_killed,
        server_killed,
        server_restarted,
        worker_killed,
        build_killed,
    )
}
