"""Sandbox: runs work that may crash or hang in a replaceable process."""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from app.processes.parent_death import die_with_parent
from app.processes.priority import raise_nice_value
from app.processes.process_name import set_process_name
from models.errors import CorruptArtifact, ParsimonyError, SolverTimeout

R = TypeVar("R")
NAME = "sandbox"
"""What the process is called."""
_START_S = 180.0
_DYING_S = 10.0
"""A process whose end of the link is closed needs no more to end by itself, on the busiest machine."""


class Sandbox:
    """Runs work in a child process that is started on demand and replaced if lost.

    One piece of work runs at a time; other threads wait. The child ends with this process, and cannot have children.

    Args:
        limit_s: time limit of one piece of work in seconds, excluding the start of the process.
        imports: modules that the process imports at its start.
        nice: nice value of the work; it is above that of decisions.
    """

    def __init__(self, limit_s: float, imports: Sequence[str] = (), nice: int = 0) -> None:
        self._limit, self._imports, self._nice = limit_s, tuple(imports), nice
        self._child: tuple[BaseProcess, Connection] | None = None
        self._closed = False
        self._guard = threading.Lock()
        # The kernel ends a child with the thread that started it: this thread is ours as long as the child is.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sandbox")

    def __call__(self, work: Callable[..., R], *args: Any) -> R:
        """Call a function of a module; arguments and result must be picklable.

        Raises the function's exception if it is a ParsimonyError, else RuntimeError with the traceback. Raises
        CorruptArtifact if the process died, and SolverTimeout if it exceeded the time limit.
        """
        done: R = self._thread.submit(self._do, work, args).result()
        return done

    def close(self) -> None:
        """End the process, even during work; no more work can be run."""
        with self._guard:
            self._closed = True
            if self._child:
                self._child[0].kill()
        self._thread.submit(self._end)
        self._thread.shutdown(wait=True)

    def _do(self, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            link = self._started()
            link.send((work, args))
            if not link.poll(self._limit):
                self._end()
                raise SolverTimeout(f"no answer within {self._limit} s (PARSIMONY_SOLVE_TIMEOUT_S)")
            fine, answer = link.recv()
        except (EOFError, OSError) as error:
            raise CorruptArtifact(f"the sandbox process crashed while reading the input ({self._end()})") from error
        if fine:
            return answer
        raise answer

    def _started(self) -> Connection:
        """Return the connection to a running process; start it if necessary."""
        if self._child and not self._child[0].is_alive():
            self._end()  # it was idle: no model was the cause
        if self._child:
            return self._child[1]
        context = get_context("spawn")
        link, other = context.Pipe()
        process = context.Process(
            target=_work, args=(other, os.getpid(), self._imports, self._nice), name=NAME, daemon=True
        )
        with self._guard:
            if self._closed:
                raise RuntimeError("the sandbox is closed")
            process.start()
            self._child = process, link
        other.close()  # so that its death is the end of what can be read
        if not link.poll(_START_S):
            self._end()
            raise SolverTimeout(f"the sandbox process failed to start within {_START_S:g} s")
        try:
            link.recv()
        except EOFError as error:
            raise RuntimeError(f"the sandbox process failed to start ({self._end(_DYING_S)})") from error
        return link

    def _end(self, wait_s: float = 0.5) -> str:
        """End the process, if any, after a wait; return its exit status."""
        with self._guard:
            child, self._child = self._child, None
        if child is None:
            return "there was none"
        process, link = child
        link.close()
        process.join(wait_s)  # what has died by itself tells how
        process.kill()
        process.join()
        code = process.exitcode or 0
        process.close()
        return f"signal {-code}" if code < 0 else f"status {code}"


def _work(link: Connection, parent: int, imports: Sequence[str], nice: int) -> None:
    """Serve requests from the connection until its other end closes."""
    set_process_name(NAME)
    die_with_parent(signal.SIGKILL, parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the server, which ends us
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # out of memory: us first
    for name in imports:
        import_module(name)
    raise_nice_value(0, nice)  # not before the imports: on a busy machine they would take longer than ``_START_S``
    link.send("started")
    with suppress(EOFError):
        while True:
            work, args = link.recv()
            link.send(_answer(work, args))


def _answer(work: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, work(*args)
    except ParsimonyError as error:
        return False, error
    except Exception:  # its class may not be known, or not picklable, at the other end
        return False, RuntimeError(traceback.format_exc())
