"""Processes that end with the one that started them."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(sig: signal.Signals, parent: int) -> None:
    """Ask the kernel to send this process a signal when its parent, given by id, ends: even by kill -9."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os.kill(os.getpid(), sig)
