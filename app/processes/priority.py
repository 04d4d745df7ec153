"""Who waits for whom on processors that are shared: look-ups come first, then batches, then builds."""

import ctypes
import os
import platform
import struct
import sys
import threading

BATCHES_NICE = 10
BUILDS_NICE = 19
_SLICE_NS = 100_000
"""The shortest that the kernel takes: who asks for less at a time is let in sooner."""
SWITCH_INTERVAL_S = 0.001
"""How long another thread of the process may run Python before this one gets its turn."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_ATTR = struct.Struct("=IIQiIQQQII")
"""Size, policy, flags, nice value, real-time priority, slice in ns, deadline, period, least and most utilisation."""


def look_ups_first() -> None:
    """Let this thread be woken within a fraction of a millisecond, and those that it starts from now on let go as soon.

    The kernel lets whoever runs go on for a slice of some milliseconds, however low its priority, unless that one or
    the one that wakes asks for shorter slices (Linux 6.12 and later). Where it cannot be asked, or somebody chose a
    policy for us, everything stays as it was.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or sys.platform != "linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    me = threading.get_native_id()
    nice = os.getpriority(os.PRIO_PROCESS, me)
    attr = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, _SLICE_NS, 0, 0, 0, 0)
    ctypes.CDLL(None).syscall(number, me, attr, 0)


def give_way() -> None:
    """Let this thread solve while nobody else needs the processor, except builds."""
    wait_for_others(threading.get_native_id(), BATCHES_NICE)


def give_way_to_all() -> None:
    """Let this process build while nobody else needs the processor."""
    wait_for_others(0, BUILDS_NICE)


def wait_for_others(whose: int, nice: int) -> None:
    """Set a nice value, never a lower one than was given to all of us: the kernel would refuse it."""
    os.setpriority(os.PRIO_PROCESS, whose, max(nice, os.getpriority(os.PRIO_PROCESS, whose)))
