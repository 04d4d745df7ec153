"""Child processes that end with their parent."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(sig: signal.Signals, parent: int) -> None:
    """Make the kernel send a signal to this process when its parent ends.

    This includes a parent that is killed by SIGKILL.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os.kill(os.getpid(), sig)
