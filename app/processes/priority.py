"""Process priorities (nice values): decisions first, then uploads, batches, and builds."""

import os
import threading

UPLOADS_NICE = 5
"""Callers wait for uploads; on a busy machine, the nice value of builds would leave them a hundredth of a core."""
BATCHES_NICE = 10
BUILDS_NICE = 19


def lower_priority() -> None:
    """Lower the priority of this thread below decisions, but above builds."""
    raise_nice_value(threading.get_native_id(), BATCHES_NICE)


def lower_priority_to_idle() -> None:
    """Lower the priority of this process to that of builds."""
    raise_nice_value(0, BUILDS_NICE)


def raise_nice_value(whose: int, nice: int) -> None:
    """Raise the nice value of a thread or process, if it is lower.

    A nice value is never lowered, because the kernel refuses that.
    """
    os.setpriority(os.PRIO_PROCESS, whose, max(nice, os.getpriority(os.PRIO_PROCESS, whose)))
