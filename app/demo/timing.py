"""How the demo measures: on a machine kept as quiet as it can be, one item at a time."""

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
def quiet_machine() -> Iterator[None]:
    """Keep what is not the measured code's own out of the times: threads, checks of arguments, garbage collection."""
    with threadpool_limits(1), sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        gc.disable()
        try:
            yield
        finally:
            gc.enable()


def timed(answer: Callable[[Any], Any], items: Iterable[Any]) -> tuple[list[Any], NDArray[np.float64]]:
    """Call once for each item, after a few calls to warm up: the answers, and the times in ms.

    What ``items`` does to make the next one is not timed.
    """
    answers: list[Any] = []
    times = []
    for item in items:
        for _ in range(0 if answers else WARM_UP):
            answer(item)
        started = time.perf_counter()
        answers.append(answer(item))
        times.append((time.perf_counter() - started) * 1000)
    return answers, np.array(times)
