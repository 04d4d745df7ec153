"""CPU time of a process and its children, to detect hanging processes."""

from contextlib import suppress
from pathlib import Path


def read_cpu_ticks(process: int) -> int:
    """Return the CPU time of a process and its descendants, in kernel ticks.

    Returns 0 if the process does not exist.

    >>> import os
    >>> read_cpu_ticks(os.getpid()) > 0, read_cpu_ticks(2**31 - 1)
    (True, 0)
    """
    total, waiting = 0, [process]
    while waiting:
        folder = Path("/proc") / str(waiting.pop())
        with suppress(OSError):  # it ended meanwhile
            user, system = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
            total += int(user) + int(system)
            for thread in (folder / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
    return total
