"""Jobs side by side: in order, each in one thread, told of and ended between a few of them."""

from functools import partial
from operator import itemgetter

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from solvers.parallel import in_parallel


def threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return set(map(itemgetter("num_threads"), threadpool_info()))


@pytest.mark.parametrize("side_by_side", [1, 2])
def test_results_come_in_order_and_each_job_has_one_thread(side_by_side: int) -> None:
    before, heard = threads(), list[int]()
    with joblib.parallel_config(backend="threading", n_jobs=side_by_side):
        assert list(in_parallel((partial(pow, place, 2) for place in range(7)), heard.append)) == [
            place**2 for place in range(7)
        ]
        assert list(in_parallel([threads])) == [{1}]
    assert heard == list(range(0, 7, 2 * side_by_side))
    assert threads() == before
    assert list(in_parallel([])) == []


@pytest.mark.parametrize("side_by_side", [1, 2])
def test_who_hears_ends_what_has_not_begun_and_keeps_what_was_done(side_by_side: int) -> None:
    """What a cancelled build has trained is in its cache."""
    begun, kept = list[int](), list[int]()

    def job(place: int) -> int:
        begun.append(place)
        return place

    def tell(done: int) -> None:
        if done >= 4:
            raise InterruptedError

    with joblib.parallel_config(backend="threading", n_jobs=side_by_side), pytest.raises(InterruptedError):
        kept.extend(in_parallel((partial(job, place) for place in range(9)), tell))
    assert sorted(begun) == [0, 1, 2, 3]
    assert kept in ([], [0, 1, 2, 3])
