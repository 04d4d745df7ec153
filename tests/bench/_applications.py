"""Runs the applications that the service is held against, each a process of its own."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.servers import environment, free_port, wait_for


@contextmanager
def running_application(target: str, folder: Path, **variables: str) -> Iterator[tuple[psutil.Process, int]]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", target, "--factory", "--port", str(port)]
    command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
    process = subprocess.Popen(command, env=environment(folder) | variables)
    try:
        wait_for(lambda: _listens(port), 30)
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait(timeout=10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
