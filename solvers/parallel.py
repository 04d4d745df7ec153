"""Parallel jobs with joblib (processes or Dask), each limited to one thread."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TypeVar

from threadpoolctl import threadpool_limits

R = TypeVar("R")
ReportDone = Callable[[int], None]


def run_parallel(jobs: Iterable[Callable[[], R]], report: ReportDone | None = None) -> Iterator[R]:
    """Run jobs and yield their results in order; jobs are created lazily.

    ``report`` receives the number of finished jobs, before each chunk and at the end. It may raise to stop.
    """
    import joblib

    job_slots = joblib.effective_n_jobs(None)
    if job_slots == 1:
        yield from _run_sequentially(jobs, report or (lambda done: None))
    elif report is None:
        yield from joblib.Parallel()(joblib.delayed(_run_in_one_thread)(job) for job in jobs)
    else:
        remaining, done = iter(jobs), 0
        while chunk := list(islice(remaining, 2 * job_slots)):
            report(done)
            yield from joblib.Parallel()(joblib.delayed(_run_in_one_thread)(job) for job in chunk)
            done += len(chunk)
        report(done)


def _run_sequentially(jobs: Iterable[Callable[[], R]], report: ReportDone) -> Iterator[R]:
    """Run jobs one by one, with limited threads.

    The limit is set for the first job, which may load libraries, and then once for all others.
    """
    done = 0
    with ExitStack() as stack:
        for job in jobs:
            report(done)
            if done == 1:
                stack.enter_context(threadpool_limits(1))
            yield job() if done else _run_in_one_thread(job)
            done += 1
    report(done)


def _run_in_one_thread(job: Callable[[], R]) -> R:
    with threadpool_limits(1):
        return job()
