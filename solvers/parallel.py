"""Jobs side by side where joblib was told to, each in one thread."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TypeVar

from threadpoolctl import threadpool_limits

R = TypeVar("R")
Tell = Callable[[int], None]


def run_parallel(jobs: Iterable[Callable[[], R]], tell: Tell | None = None) -> Iterator[R]:
    """Do jobs, and give what they return, in their order; a job is made when its turn comes.

    tell: hears how many are done, before a job or a few of them begin and in the end, and may raise what ends them.
    """
    import joblib

    side_by_side = joblib.effective_n_jobs(None)
    if side_by_side == 1:
        yield from _one_after_another(jobs, tell or _nobody)
    elif tell is None:
        yield from joblib.Parallel()(joblib.delayed(_in_one_thread)(job) for job in jobs)
    else:
        left, done = iter(jobs), 0
        while some := list(islice(left, 2 * side_by_side)):
            tell(done)
            yield from joblib.Parallel()(joblib.delayed(_in_one_thread)(job) for job in some)
            done += len(some)
        tell(done)


def _one_after_another(jobs: Iterable[Callable[[], R]], tell: Tell) -> Iterator[R]:
    """Limit threads for the first job, which may load libraries, and then once for all others: to look for libraries
    takes milliseconds, as many a job does."""
    done = 0
    with ExitStack() as stack:
        for job in jobs:
            tell(done)
            if done == 1:
                stack.enter_context(threadpool_limits(1))
            yield job() if done else _in_one_thread(job)
            done += 1
    tell(done)


def _in_one_thread(job: Callable[[], R]) -> R:
    with threadpool_limits(1):
        return job()


def _nobody(done: int) -> None:
    """Hear nothing."""
