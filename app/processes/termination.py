"""Termination of child processes: SIGTERM first, SIGKILL after a grace period."""

from subprocess import Popen, TimeoutExpired


def terminate_child(child: Popen[bytes], grace_s: float) -> None:
    """Ask a child to end (SIGTERM), kill it if it has not within ``grace_s`` seconds, and wait for its end."""
    child.terminate()
    try:
        child.wait(timeout=grace_s)
    except TimeoutExpired:
        child.kill()
        child.wait()
