"""Which setting, and which method: against brute force, and as limits promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.advice import AdviceLimits
from solvers.advice.advise import AdviceSplit
from solvers.advice.candidates import Candidate
from solvers.advice.choice import AdviceGoal, choose_candidate, compare_replays, is_within
from solvers.savings import MAX_ACCURACY_LOSS, Replay

ROWS = np.arange(12)
SETTINGS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), min_size=12, max_size=12), st.lists(st.integers(0, 9), min_size=12, max_size=12)
    ),
    min_size=1,
    max_size=6,
)
LIMIT = st.one_of(st.none(), st.floats(0, 10))


def _candidates(settings: list[tuple[list[int], list[int]]]) -> list[Candidate]:
    return [
        Candidate("any", {}, {"place": place}, Replay(np.array(right, dtype=float), np.array(costs, dtype=float)))
        for place, (right, costs) in enumerate(settings)
    ]


@given(SETTINGS, LIMIT, LIMIT, st.one_of(st.none(), st.floats(0, 1)))
def test_the_setting_chosen_is_the_one_that_trying_all_finds(
    settings: list[tuple[list[int], list[int]]], budget: float | None, deadline: float | None, least: float | None
) -> None:
    limits = AdviceLimits(budget=budget, deadline=deadline, min_accuracy=least)
    candidates = _candidates(settings)
    aim = AdviceGoal.from_limits(limits, [one.replay for one in candidates], len(ROWS))
    fine = [
        (sum(right) / 12, sum(costs) / 12)
        for right, costs in settings
        if (budget is None or sum(costs) / 12 <= budget * (1 + 1e-9)) and (deadline is None or max(costs) <= deadline)
    ]
    chosen = choose_candidate(candidates, aim, ROWS)
    if not fine:
        assert chosen is None
        return
    assert chosen is not None
    accuracy, cost = chosen.replay.right.mean(), chosen.replay.costs.mean()
    assert is_within(limits, chosen.replay)
    if least is not None:
        smoothed = (12 * least + 1) / 14
        wanted = least + (smoothed * (1 - smoothed) / 12) ** 0.5
    elif budget is None:
        wanted = max(level for level, _ in fine) - MAX_ACCURACY_LOSS
    else:
        wanted = 2.0  # the most accurate
    reaching = [price for level, price in fine if level >= wanted - 1e-9]
    if reaching:
        assert cost == pytest.approx(min(reaching))
    else:
        assert accuracy == pytest.approx(max(level for level, _ in fine))


@given(SETTINGS, st.floats(0, 10), st.floats(0, 10))
def test_a_larger_budget_is_never_less_accurate_on_the_rows_that_choose(
    settings: list[tuple[list[int], list[int]]], one: float, other: float
) -> None:
    candidates = _candidates(settings)
    chosen = [
        choose_candidate(
            candidates, AdviceGoal.from_limits(limits, [each.replay for each in candidates], len(ROWS)), ROWS
        )
        for limits in (AdviceLimits(budget=min(one, other)), AdviceLimits(budget=max(one, other)))
    ]
    if chosen[0] is not None:
        assert chosen[1] is not None
        assert chosen[1].replay.right.mean() >= chosen[0].replay.right.mean()


def test_a_cascade_for_a_later_deadline_is_not_chosen_though_no_row_took_so_long() -> None:
    replay = Replay(np.ones(4), np.ones(4))
    assert is_within(AdviceLimits(deadline=5), replay, {"deadline": 5.0})
    assert not is_within(AdviceLimits(deadline=5), replay, {"deadline": 5.1})


def test_another_method_stands_behind_where_it_is_shown_to_be_dearer_or_less_accurate() -> None:
    rng = np.random.default_rng(0)
    best = Replay((rng.random(400) < 0.9).astype(float), np.full(400, 2.0))
    assert compare_replays(best, Replay(best.right, np.full(400, 2.1)), np.arange(400), rng) == "worse"
    assert (
        compare_replays(best, Replay(best.right * (rng.random(400) < 0.9), np.full(400, 1.0)), np.arange(400), rng)
        == "worse"
    )
    assert (
        compare_replays(
            best, Replay((rng.random(400) < 0.9).astype(float), rng.exponential(2.0, 400)), np.arange(400), rng
        )
        == "similar"
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), st.integers(0, 5))
def test_every_row_has_one_use_and_every_class_is_learned(labels: list[int], seed: int) -> None:
    parts = AdviceSplit.from_labels(
        np.array(labels, dtype=np.int32), np.arange(len(labels)), np.random.default_rng(seed)
    )
    assert sorted((*parts.training, *parts.validation, *parts.holdout)) == list(range(len(labels)))
    assert {labels[row] for row in parts.training} == set(labels)
    if len(labels) >= 100:
        assert abs(len(parts.training) - len(labels) / 2) <= 5 * 5


def test_the_goal_for_a_log_is_its_accuracy_if_the_log_is_within_the_limits() -> None:
    always, rarely = [1] * 12, [1] * 6 + [0] * 6
    strong, cheap, logged = (
        one.replay for one in _candidates([(always, [9] * 12), (rarely, [1] * 12), (rarely, [5] * 12)])
    )
    candidates = _candidates([(always, [9] * 12), (rarely, [1] * 12)])
    for deadline, wanted in ((None, 0.5), (9.0, 0.5), (4.0, 0.5 - MAX_ACCURACY_LOSS)):
        aim = AdviceGoal.from_limits(AdviceLimits(deadline=deadline), [strong, cheap], len(ROWS), logged=logged)
        assert aim.wanted == pytest.approx(wanted)
        chosen = choose_candidate(candidates, aim, ROWS)
        assert chosen is not None
        assert chosen.query == {"place": 1}
    without = choose_candidate(candidates, AdviceGoal.from_limits(AdviceLimits(), [strong, cheap], len(ROWS)), ROWS)
    assert without is not None
    assert without.query == {"place": 0}
