"""Who waits for whom on processors that are shared: look-ups come first, then batches, then builds."""

import os
import threading

BATCHES_NICE = 10
BUILDS_NICE = 19


def lower_priority() -> None:
    """Let this thread solve while nobody else needs the processor, except builds."""
    wait_for_others(threading.get_native_id(), BATCHES_NICE)


def lower_priority_to_idle() -> None:
    """Let this process build while nobody else needs the processor."""
    wait_for_others(0, BUILDS_NICE)


def wait_for_others(whose: int, nice: int) -> None:
    """Set a nice value, never a lower one than was given to all of us: the kernel would refuse it."""
    os.setpriority(os.PRIO_PROCESS, whose, max(nice, os.getpriority(os.PRIO_PROCESS, whose)))
