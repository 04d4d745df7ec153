"""Termination of child processes: SIGTERM, then SIGKILL after a grace period."""

from subprocess import Popen, TimeoutExpired


def terminate_child(child: Popen[bytes], grace_s: float) -> None:
    """End a child by SIGTERM, after ``grace_s`` seconds by SIGKILL, and wait for it."""
    child.terminate()
    try:
        child.wait(timeout=grace_s)
    except TimeoutExpired:
        child.kill()
        child.wait()
