"""Process names in ``ps`` and ``top``."""

import ctypes

_PR_SET_NAME = 15
_LONGEST = 15


def set_process_name(name: str) -> None:
    """Set the name of this process; the kernel keeps 15 bytes.

    >>> from pathlib import Path
    >>> before = Path("/proc/self/comm").read_text().strip()
    >>> set_process_name("build-worker")
    >>> Path("/proc/self/comm").read_text()
    'build-worker\\n'
    >>> set_process_name(before)
    """
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:_LONGEST], 0, 0, 0)
