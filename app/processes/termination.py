"""Termination of child processes: SIGTERM first, SIGKILL after a grace period."""

from subprocess import Popen, TimeoutExpired


def terminate_child(child: Popen[bytes], grace_s: float) -> None:
    """End a child by SIGTERM, or SIGKILL after ``grace_s`` seconds, and wait for it."""
    child.terminate()
    try:
        child.wait(timeout=grace_s)
    except TimeoutExpired:
        child.kill()
        child.wait()
