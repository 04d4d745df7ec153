"""What *Indexing Cost Sensitive Prediction* states: its properties, its lattice, the scenarios of its theorem.

The figures are not in the text; where an example's numbers are, they are used, else numbers that fit its words.
"""

from itertools import pairwise

import numpy as np
import pytest

from models.index import IndexOptions, IndexQuery
from solvers.index import build_index, choose_candidates, expand_lattice
from solvers.index.baselines import measure_full_size, measure_index_size
from solvers.index.costs import SetCosts
from solvers.index.lattice import ExpandedSets
from tests.oracles.index import random_instance
from tests.solvers.index.known_accuracies import expand_all, plan_without_models

CONSTANT = np.zeros((1, 0), dtype=np.int64)
LINE = np.array([[0], [1]])


def masks(text: str) -> list[int]:
    """Read sets of the features 1 to 4 as they are written in the paper, "12 134"; "0" is the empty set."""
    return [sum(1 << int(digit) - 1 for digit in word if digit != "0") for word in text.split()]


def accuracy_of(values: dict[str, float]) -> list[float]:
    table = [0.0] * 16
    for word, value in values.items():
        table[masks(word)[0]] = value
    return table


LATTICE = accuracy_of(
    {
        "0": 0.5,
        **dict.fromkeys(("1", "2", "3"), 0.7),
        "4": 0.8,
        **dict.fromkeys(("12", "13", "23"), 0.75),
        **dict.fromkeys(("14", "24", "34"), 0.8),
        "123": 0.88,
        "124": 0.8,
        **dict.fromkeys(("134", "234"), 0.85),
        "1234": 0.9,
    }
)
"""The lattice of four features: 4 is as accurate alone as 124, so that 14 and 24 lie between equals."""


def expanded_masks(
    table: list[float], features: int = 4, alpha: float = 0.0, tolerance: float = 0.0, covering: bool = False
) -> set[int]:
    return set(
        expand_lattice(
            lambda sets: [table[s] for s in sets], features, alpha=alpha, tolerance=tolerance, covering=covering
        ).masks.tolist()
    )


def test_property_3_3_two_expansions_are_saved_at_alpha_0() -> None:
    """The layers 0, 4, 1, 3 are expanded, and of the middle layer all but the two sets between 4 and 124."""
    assert set(range(16)) - expanded_masks(LATTICE) == set(masks("14 24"))


def test_property_3_3_a_larger_alpha_saves_more() -> None:
    """With 1.1 · 0.8 ≥ 0.85 everything between 4 and 134 or 234 goes too."""
    assert set(range(16)) - expanded_masks(LATTICE, alpha=0.1) == set(masks("14 24 34"))


def test_property_3_11_tolerance_makes_the_sandwich_stricter() -> None:
    assert expanded_masks(LATTICE, tolerance=0.01) == set(range(16))
    assert set(range(16)) - expanded_masks(LATTICE, alpha=0.1, tolerance=0.03) == set(masks("14 24 34"))
    assert set(range(16)) - expanded_masks(LATTICE, alpha=0.1, tolerance=0.04) == set(masks("14 24"))


def test_property_3_11_finds_what_a_violation_within_tolerance_hides() -> None:
    """14 is better than 4 and 124, against Axiom 2.1 and by no more than 0.05."""
    table = list(LATTICE)
    table[masks("14")[0]] = 0.85
    assert masks("14")[0] not in expanded_masks(table)
    assert masks("14")[0] in expanded_masks(table, tolerance=0.05)


def test_property_3_4_covering_fails_where_features_are_useful_only_together() -> None:
    """1 and 2 are useless alone and perfect together: Axiom 2.1 holds, and the covering property loses 12."""
    table = [1.0 if mask & 3 == 3 else 0.5 for mask in range(16)]
    assert all(table[s] <= table[r] for s in range(16) for r in range(16) if s & r == s)
    assert 3 in expanded_masks(table)
    assert 3 not in expanded_masks(table, covering=True)
    costs = SetCosts(CONSTANT, np.ones((4, 1)))
    for covering, best in ((False, 1.0), (True, 0.5)):
        options = IndexOptions(covering=covering)
        plan = plan_without_models(lambda sets: [table[s] for s in sets], costs, options).plan
        assert plan.decide(IndexQuery(budget=2.0)).accuracy == best


def test_property_3_4_covering_is_right_without_interactions() -> None:
    """Accuracy is that of the best feature: what covering skips was not needed, and it skips more than 3.3 alone."""
    best = [max([0.5, *(a for f, a in enumerate((0.9, 0.9, 0.6, 0.55, 0.5)) if s >> f & 1)]) for s in range(32)]
    costs = SetCosts(CONSTANT, np.array([[5.0], [4.0], [3.0], [2.0], [1.0]]))
    plans = [
        plan_without_models(lambda sets: [best[s] for s in sets], costs, IndexOptions(covering=covering))
        for covering in (False, True)
    ]
    assert plans[0].plan.list_skyline() == plans[1].plan.list_skyline()
    assert len(plans[1].expanded.masks) < len(plans[0].expanded.masks)


def test_property_3_4_mirrored() -> None:
    """Seen from 12345: leaving out 3, 4 or 5 costs nothing, so nothing between 12 and 12345 is expanded further."""
    savings = (0.3, 0.1)
    table = [0.5 + sum(w for f, w in enumerate(savings) if s >> f & 1) for s in range(32)]
    plain = expand_lattice(lambda sets: [table[s] for s in sets], 5)
    mirrored = expand_lattice(lambda sets: [table[s] for s in sets], 5, covering=True)
    assert set(mirrored.masks.tolist()) < set(plain.masks.tolist())
    assert max(mirrored.accuracies) == max(table)


def candidates(
    accuracies: list[float], curves: list[list[float]], alpha: float, powers: np.ndarray = LINE
) -> list[int]:
    expanded = ExpandedSets(4, np.arange(len(curves)), np.array(accuracies), np.array(accuracies))
    return sorted(choose_candidates(expanded, np.array(curves), powers, list("abcd"), alpha=alpha).tolist())


def test_property_3_6_a_superset_that_is_no_better_goes() -> None:
    assert candidates([0.5, 0.8, 0.6, 0.8], [[0, 0], [1, 0], [0, 0.5], [1, 0.5]], 0.0) == [0, 1, 2]
    assert candidates([0.5, 0.8, 0.6, 0.85], [[0, 0], [1, 0], [0, 0.5], [1, 0.5]], 0.1) == [0, 1, 2]
    assert candidates([0.5, 0.8, 0.6, 0.85], [[0, 0], [1, 0], [0, 0.5], [1, 0.5]], 0.0) == [0, 1, 2, 3]


def test_property_3_7_so_does_any_set_that_is_never_cheaper() -> None:
    """2n against 1 + n: equal at n = 1, dearer after it."""
    assert candidates([0.5, 0.8, 0.8], [[0, 0], [1, 1], [0, 2]], 0.0) == [0, 1]
    assert candidates([0.5, 0.8, 0.8], [[0, 0], [1, 1], [0, 1.5]], 0.0) == [0, 1, 2]


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_dominance_does_not_compound_over_chains_of_near_ties(alpha: float) -> None:
    """Each set is within alpha of the next dearer one: compared one by one, the cheapest would stand for all."""
    accuracies = [0.3 * (1 + alpha) ** k for k in range(6)]
    accuracies = [a for a in accuracies if a <= 1]
    curves = [[float(k)] for k in range(len(accuracies))]
    kept = candidates(accuracies, curves, alpha, CONSTANT)
    for s, accuracy in enumerate(accuracies):
        assert any(t <= s and (1 + alpha) * accuracies[t] >= accuracy - 1e-12 for t in kept)
    naive = [s for s in range(len(curves)) if not s or (1 + alpha) * accuracies[s - 1] < accuracies[s] - 1e-12]
    assert naive == [0]  # and 0 is worse than the last by (1 + alpha)^5
    assert (1 + alpha) * accuracies[0] < accuracies[-1]


def test_what_a_sandwich_skipped_is_not_lost_when_its_lower_end_is_replaced() -> None:
    """{1} lets {1, 2} be skipped at alpha 0.1, for it may be as accurate as 123; {3} is cheaper than {1} and within 0.1
    of it, but not of 123: a reading that forgets what {1} stands for would drop it."""
    table = {0: 0.1, 1: 0.8, 2: 0.1, 4: 0.75, 3: 0.88, 5: 0.88, 6: 0.88, 7: 0.88}
    built = plan_without_models(
        lambda sets: [table[s] for s in sets],
        SetCosts(CONSTANT, np.array([[2.0], [3.0], [1.0]])),
        IndexOptions(alpha=0.1),
    )
    assert 3 not in built.expanded.masks
    decision = built.plan.decide(IndexQuery(budget=5.0))
    assert 1.1 * decision.accuracy >= table[3]
    assert {("f0",), ("f2",)} <= {item.features for item in built.plan.list_skyline()}


@pytest.mark.parametrize("seed", range(20))
def test_property_3_9_searches_that_build_on_each_other_are_nested(seed: int) -> None:
    """And the last of them is as good as one that knew nothing: every set is within alpha of an expanded, cheaper
    one."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng)
    expanded: ExpandedSets | None = None
    before: set[int] = set()
    for alpha in (2.0, 1.0, 0.5, 0.2, 0.0):
        expanded = expand_lattice(instance.learn, instance.features, alpha=alpha, known=expanded)
        assert before <= set(expanded.masks.tolist())
        before = set(expanded.masks.tolist())
        for mask, accuracy in enumerate(instance.accuracies):
            below = [a for s, a in zip(expanded.masks, expanded.accuracies, strict=True) if s & mask == s]
            assert (1 + alpha) * max(below) >= accuracy - 1e-12


def test_property_3_9_does_not_hold_for_searches_that_know_nothing_of_each_other() -> None:
    """Here alpha = 0.2 learns more than 0.5 does at first, and that sandwiches two sets that 0.5 expands."""
    table = [5, 6, 5, 6, 5, 6, 6, 6, 5, 6, 5, 6, 5, 8, 8, 8]
    assert all(table[s] <= table[r] for s in range(16) for r in range(16) if s & r == s)
    coarse, fine = (expanded_masks([a / 8 for a in table], alpha=alpha) for alpha in (0.5, 0.2))
    assert coarse - fine == {6, 10}


def crossing(lower: float, upper: float, *others: tuple[float, list[float]]) -> tuple[list[float], list[list[int]]]:
    """Cross curve 1 (4, falling behind) below curve 2 (2 + n) at n = 2; accuracies: of 2 and of 1; with other
    curves."""
    given = [(upper, [4.0, 0.0]), (lower, [2.0, 1.0]), *others]
    order = sorted(range(len(given)), key=lambda i: (-given[i][0], i))
    index = build_index(np.array([given[i][1] for i in order]), np.array([given[i][0] for i in order]))
    cuts = index.offsets.tolist()
    skylines = [[order[m] for m in index.members[a:b]] for a, b in pairwise(cuts)]
    return index.sizes.tolist(), skylines


def test_theorem_3_13_scenario_1_curve_2_leaves() -> None:
    assert crossing(0.7, 0.9) == ([1.0, 2.0], [[1, 0], [0]])


def test_theorem_3_13_scenario_2_curve_1_joins_if_nothing_below_is_as_good() -> None:
    assert crossing(0.9, 0.7) == ([1.0, 2.0], [[1], [0, 1]])
    assert crossing(0.9, 0.7, (0.6, [0.5, 0.0])) == ([1.0, 2.0], [[2, 1], [2, 0, 1]])
    assert crossing(0.9, 0.7, (0.8, [0.5, 0.0])) == ([1.0], [[2, 1]])


def test_theorem_3_13_scenario_3_neither_is_on_the_skyline() -> None:
    assert crossing(0.7, 0.8, (0.9, [0.5, 0.0])) == ([1.0], [[2]])


def test_theorem_3_13_scenario_4_the_one_on_the_skyline_gets_cheaper() -> None:
    assert crossing(0.6, 0.8, (0.7, [0.5, 0.0])) == ([1.0], [[2, 0]])


def test_lemma_3_12_skylines_between_breakpoints_are_fixed_and_change_at_them() -> None:
    """The four accuracies of the example: 0.8, 0.65, 0.76 and 0.7."""
    accuracies = np.array([0.8, 0.76, 0.7, 0.65])
    curves = np.array([[1.0, 3.0], [4.0, 1.0], [6.0, 0.5], [3.0, 2.5]])
    index = build_index(curves, accuracies)
    assert index.sizes.tolist() == [1.0, pytest.approx(1.5), pytest.approx(4.0)]
    assert measure_index_size(index).entries < measure_full_size(index).entries
    assert measure_index_size(index).points <= measure_full_size(index).points


def test_theorem_3_5_the_expanded_sets_hold_every_skyline() -> None:
    for seed in range(20):
        instance = random_instance(np.random.default_rng(seed))
        every = expand_all(instance.learn, instance.features)
        some = expand_lattice(instance.learn, instance.features)
        reached = {round(float(a), 12) for a in some.accuracies}
        assert {round(float(a), 12) for a in every.accuracies} >= reached
        for mask, accuracy in zip(every.masks.tolist(), every.accuracies, strict=True):
            assert any(
                s & mask == s and a >= accuracy for s, a in zip(some.masks.tolist(), some.accuracies, strict=True)
            )


def test_reusing_the_skyline_of_one_size_is_wrong_for_another() -> None:
    costs = SetCosts(LINE, np.array([[4.0, 0.0], [0.0, 1.0]]))
    plan = plan_without_models(lambda sets: [(0.5, 0.8, 0.7, 0.9)[s] for s in sets], costs).plan
    small, large = ([item.features for item in plan.list_skyline(size)] for size in (2.0, 8.0))
    assert ("f1",) in small
    assert ("f1",) not in large


def test_problem_3_one_answer_for_each_range_of_sizes() -> None:
    costs = SetCosts(LINE, np.array([[4.0, 0.0], [0.0, 1.0]]))
    options = IndexOptions(fixed_budget=6.0)
    plan = plan_without_models(lambda sets: [(0.5, 0.8, 0.7, 0.9)[s] for s in sets], costs, options).plan
    assert np.diff(plan.offsets).tolist() == [1] * len(plan.sizes)
    for size, features in ((1.0, ("f0", "f1")), (2.0, ("f0", "f1")), (2.0000001, ("f0",)), (1e9, ("f0",))):
        assert plan.decide(IndexQuery(size=size, budget=6.0)).features == features
    assert len(plan.candidates) == 3  # the empty set stays, for when part of the budget is spent


def test_greedy_acc_and_greedy_cost_are_the_ends_of_lambda() -> None:
    """λ = 0 is the largest rise in accuracy, λ → ∞ the least cost: the paper's text has both names both ways round."""
    costs = SetCosts(CONSTANT, np.array([[4.0], [1.0], [2.0]]))
    savings = (0.3, 0.05, 0.1)
    table = [0.5 + sum(w for f, w in enumerate(savings) if s >> f & 1) for s in range(8)]
    plan = plan_without_models(lambda sets: [table[s] for s in sets], costs, IndexOptions(lambdas=(0.06,))).plan
    assert plan.lambdas.tolist() == [0.0, 0.06, np.inf]
    assert plan.orders.tolist() == [[0, 2, 1], [0, 1, 2], [1, 2, 0]]
    answers = {m: plan.decide(IndexQuery(budget=3.0, method=m)).features for m in ("greedy-acc", "greedy-cost")}
    assert answers == {"greedy-acc": (), "greedy-cost": ("f1", "f2")}
