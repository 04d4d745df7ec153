"""Jobs side by side where joblib was told to, each in one thread."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import TypeVar

from threadpoolctl import threadpool_limits

R = TypeVar("R")


def _nobody(done: int) -> None:
    """Hear nothing."""


def in_parallel(jobs: Iterable[Callable[[], R]], tell: Callable[[int], None] = _nobody) -> Iterator[R]:
    """Do jobs, a few at once, and give what they return, in their order.

    tell: hears before every few how many are done, and may raise what ends them. Threads of libraries are limited once
    for all jobs where these follow each other: to look for the libraries takes milliseconds, as do many jobs.
    """
    import joblib

    side_by_side, left, done = joblib.effective_n_jobs(None), iter(jobs), 0
    with nullcontext() if side_by_side > 1 else threadpool_limits(1):
        while some := list(islice(left, 2 * side_by_side)):
            tell(done)
            if side_by_side > 1:
                yield from joblib.Parallel()(joblib.delayed(_in_one_thread)(job) for job in some)
            else:
                yield from (job() for job in some)
            done += len(some)


def _in_one_thread(job: Callable[[], R]) -> R:
    with threadpool_limits(1):
        return job()
