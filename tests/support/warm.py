"""Processes of ``parsimony`` that need no seconds of imports: forked from one that has imported all of it.

They are given what a process of their own would be given: arguments, an environment, a file for what they print. What
they start in their turn with multiprocessing's ``spawn`` (the worker, the sandboxes) is forked from them for the same
reason. That all of it also starts from nothing is tried by the tests of several server processes, of the command line,
of the README and of the containers.
"""

import os
import signal
import socket
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import get_context, process
from multiprocessing.context import ForkProcess, SpawnProcess
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from threading import Lock
from typing import Any

from app.building.worker import PRELOADED
from app.processes import priority
from solvers import KINDS

IMPORTED = ["app.http.server", "app.main", "app.cli.serving", "app.building.worker", *PRELOADED, "numba", "skops.io"]
IMPORTED += [f"app.routes.{name}" for name in KINDS]
"""All that a server imports before it answers, too: what one of its threads forks while another imports would wait for
that import for ever."""


class WarmProcess:
    """A command of ``parsimony`` in a process that is asked and ended like one of ``subprocess``."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        self._process = context.Process(target=_run, args=(arguments, dict(environment), log))
        self._process.start()
        self.pid: int = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired("parsimony", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
    """Be the command, as if nothing had been before (the process's whole life)."""
    from app.cli.main import main

    process._parent_process = None  # type: ignore[attr-defined]  # a server that has one ends with it
    SpawnProcess._Popen = staticmethod(ForkProcess._Popen)  # type: ignore[method-assign, assignment]
    _fork_between_commands()
    os.register_at_fork(after_in_child=_close_network_sockets)
    priority.BUILDS_NICE = 0  # beside test processes that never rest a build would wait for minutes
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.argv = ["parsimony", *arguments]
    main()


def _fork_between_commands() -> None:
    """Fork in no thread while another starts a command.

    What is forked meanwhile keeps the pipe open by whose end that thread learns that its command runs: it would wait
    for ever. Whoever spawns, as the service does, keeps nothing open.
    """
    lock, start = Lock(), Popen._execute_child  # type: ignore[attr-defined]

    def start_alone(*arguments: Any, **options: Any) -> None:
        with lock:
            start(*arguments, **options)

    Popen._execute_child = start_alone  # type: ignore[attr-defined]
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _close_network_sockets() -> None:
    """Close the network sockets of the parent, as a spawned process never has them.

    While a sandbox that was forked holds a listening one, new connections are accepted after the server has stopped.
    While it holds a connection, a client does not learn that the server has closed it, and waits for a reply. The file
    descriptors stay in use, since objects of the parent that live here as well may close them again.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the one that listed them is closed by now
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode) and _is_of_network(descriptor):
                os.dup2(null, descriptor)
    os.close(null)


def _is_of_network(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        return copy.family in (socket.AF_INET, socket.AF_INET6)
