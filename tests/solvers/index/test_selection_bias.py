"""What sets reach that were chosen because they looked best: against loops, and against what is true."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Bools
from solvers.index import selection_bias
from solvers.index.selection_bias import estimate_prefix_optimism, measure_reached_accuracies


def test_optimism_is_what_the_best_of_drawn_rows_is_above_what_it_reaches_on_all() -> None:
    right = (np.random.default_rng(5).random((6, 40)) < 0.6).astype(np.float32)
    rng, off, levels = np.random.default_rng(7), np.zeros(6), np.zeros((6, selection_bias.BOOTSTRAP_RESAMPLINGS))
    for part in range(selection_bias.BOOTSTRAP_RESAMPLINGS // 20):
        for at, counts in enumerate(rng.multinomial(40, np.full(40, 1 / 40), size=20)):
            for last in range(6):
                drawn = [int(bits @ counts) for bits in right[: last + 1]]
                best = int(np.argmax(drawn))
                off[last] += (drawn[best] - int(right[best].sum())) / 40
                levels[last, 20 * part + at] = int(right[best].sum()) / 40
    excess = estimate_prefix_optimism(right, np.arange(40), np.random.default_rng(7))
    assert excess[:, 0] == pytest.approx(off / selection_bias.BOOTSTRAP_RESAMPLINGS)
    assert excess[:, 1] == pytest.approx(levels.std(axis=1), abs=1e-7)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_both_parts_of_the_rows_say_what_a_set_reaches_less_what_the_choice_makes_of_it(seed: int, sets: int) -> None:
    rng = np.random.default_rng(seed)
    right, costs = rng.random((sets, 30)) < rng.random((sets, 1)), rng.integers(0, 5, sets).astype(np.float64)
    halves, share = measure_reached_accuracies(
        [_packed(bits) for bits in right], np.arange(30), costs, np.random.default_rng(1)
    )
    own = np.random.default_rng(1)
    some = own.permutation(30)[:12]
    others = np.setdiff1d(np.arange(30), some)
    accuracies, order = right.mean(axis=1), np.argsort(costs, kind="stable")
    off = estimate_prefix_optimism(right[order].astype(np.float32), np.arange(30), own)
    assert share == 12 / 30
    for one in range(sets):
        better = costs[accuracies > accuracies[one]]
        within = [s for s in range(sets) if costs[s] <= costs[one] or np.all(costs[s] < better)]
        bias, spread = off[max(int(np.flatnonzero(order == s)[0]) for s in within)]
        expected = np.clip([right[one, some].mean() - bias, right[one, others].mean() - bias], 0, 1)
        assert halves[one] == pytest.approx([*expected, spread])


def test_the_best_of_many_sets_that_are_alike_is_not_said_to_be_better_than_they_are() -> None:
    rng = np.random.default_rng(1)
    said, raw = [], []
    for _ in range(40):
        right = rng.random((64, 300)) < 0.7
        best = int(right.mean(axis=1).argmax())
        raw.append(right[best].mean())
        halves, share = measure_reached_accuracies([_packed(bits) for bits in right], np.arange(300), np.zeros(64), rng)
        said.append(halves[best, :2] @ (share, 1 - share))
    assert np.mean(raw) > 0.75
    assert np.mean(said) < 0.726


def _packed(right: Bools) -> bytes:
    return np.packbits(right).tobytes()
