"""Timing of calls, one item at a time, with threads and garbage collection off."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

WARM_UP = 5


@contextmanager
def reduce_timing_noise() -> Iterator[None]:
    """Turn off library threads, argument checks, and garbage collection in the block."""
    with threadpool_limits(1), sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        gc.disable()
        try:
            yield
        finally:
            gc.enable()


def measure_times(answer: Callable[[Any], Any], items: Iterable[Any]) -> NDArray[np.float64]:
    """Return the time of each call, in ms, after a few calls to warm up: (n,)."""
    times = list[float]()
    for item in items:
        for _ in range(0 if times else WARM_UP):
            answer(item)
        started = time.perf_counter()
        answer(item)
        times.append((time.perf_counter() - started) * 1000)
    return np.array(times)
