"""Jobs side by side: in order, each in one thread, told of and ended between a few of them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from solvers.parallel import run_parallel
from tests.support.cases import first_quick

side_by_side = pytest.mark.parametrize("side_by_side", first_quick([1, 2]))


def threads() -> set[int]:
    """Tell how many threads libraries take."""
    np.ones((2, 2)) @ np.ones((2, 2))
    return set(map(itemgetter("num_threads"), threadpool_info()))


@side_by_side
def test_results_come_in_order_and_each_job_has_one_thread(side_by_side: int) -> None:
    before, heard = threads(), list[int]()
    with joblib.parallel_config(backend="multiprocessing", n_jobs=side_by_side):
        for tell in (heard.append, None):
            assert list(run_parallel((partial(pow, place, 2) for place in range(7)), tell)) == [
                place**2 for place in range(7)
            ]
        assert list(run_parallel([threads] * 3)) == [{1}] * 3
        assert list(run_parallel([])) == []
    assert heard == (list(range(8)) if side_by_side == 1 else [0, 4, 7])
    assert threads() == before


@pytest.mark.slow
def test_libraries_that_the_first_job_loads_have_one_thread_from_the_second_job_on() -> None:
    script = """
from threadpoolctl import threadpool_info
from solvers.parallel import run_parallel
def job():
    import sklearn.ensemble
    return {each["num_threads"] for each in threadpool_info()}
first, *others = run_parallel([job] * 3)
assert others == [{1}] * 2, others
"""
    several = os.environ | {"OMP_NUM_THREADS": "2"}  # make test gives each of its processes a single one
    subprocess.run([sys.executable, "-c", script], check=True, env=several)


@side_by_side
def test_who_hears_ends_what_has_not_begun_and_keeps_what_was_done(side_by_side: int) -> None:
    """What a cancelled build has trained is in its cache."""
    made, kept = list[int](), list[int]()

    def jobs() -> Iterator[Callable[[], int]]:
        for place in range(99):
            made.append(place)
            yield partial(abs, place)

    def tell(done: int) -> None:
        if done >= 4:
            raise InterruptedError

    with joblib.parallel_config(backend="multiprocessing", n_jobs=side_by_side), pytest.raises(InterruptedError):
        kept.extend(run_parallel(jobs(), tell))
    assert kept == [0, 1, 2, 3]
    assert len(made) <= 8
