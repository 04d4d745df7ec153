"""The instances of the synthetic study are what it says they are."""

import numpy as np
import pytest

from models.index import IndexQuery
from tests.bench._index_study import (
    ALPHAS,
    CHANCE,
    COEFFICIENTS,
    COMBINERS,
    HELPFUL,
    OTHER,
    TRAINING_SIZE,
    Synthetic,
    ask,
    build,
    by,
    check,
)


@pytest.mark.parametrize("combiner", [*COMBINERS, 0.5])
def test_accuracy_never_falls_when_a_feature_is_added(combiner: float) -> None:
    instance = Synthetic.draw(3, 7, combiner)
    masks = np.arange(1 << 7)
    for f in range(7):
        without = masks[masks >> f & 1 == 0]
        rise = instance.accuracies[without | 1 << f] - instance.accuracies[without]
        assert rise.min() >= 0
        assert combiner == 0 or rise.min() > 0


def test_extremes_are_the_best_single_feature_and_the_product_of_errors() -> None:
    best, every = Synthetic.draw(5, 6, 0.0), Synthetic.draw(5, 6, 1.0)
    assert best.singles.tolist() == every.singles.tolist()
    for mask in range(1, 1 << 6):
        members = [f for f in range(6) if mask >> f & 1]
        assert best.accuracies[mask] == pytest.approx(best.singles[members].max())
        assert every.accuracies[mask] == pytest.approx(1 - CHANCE * np.prod(2 * (1 - every.singles[members])))
    assert best.accuracies[0] == every.accuracies[0] == CHANCE


def test_draws_are_seeded_and_in_their_ranges() -> None:
    one, again, other = (Synthetic.draw(seed, 15, 1.0, 0.5) for seed in (0, 0, 1))
    assert one.costs.coefficients.tolist() == again.costs.coefficients.tolist() != other.costs.coefficients.tolist()
    assert one.accuracies.tolist() == again.accuracies.tolist()
    assert np.all((one.costs.coefficients >= 0) & (one.costs.coefficients <= COEFFICIENTS))
    low, high = ((one.singles >= a) & (one.singles <= b) for a, b in (OTHER, HELPFUL))
    assert np.all(low ^ high)
    assert low.any()
    assert high.any()


def test_probability_makes_features_helpful() -> None:
    drawn = [[Synthetic.draw(seed, 10, 0.0, p).singles for seed in range(30)] for p in (0.0, 0.2, 1.0)]
    shares = [float(np.mean(np.array(singles) >= HELPFUL[0])) for singles in drawn]
    assert shares[0] == 0
    assert shares[1] == pytest.approx(0.2, abs=0.08)
    assert shares[2] == 1


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("combiner", COMBINERS)
def test_plans_of_instances_keep_their_promise(combiner: float, alpha: float) -> None:
    instance = Synthetic.draw(1, 6, combiner)
    plan = build(instance, alpha).plan
    queries = ask(1, plan, 50)
    curves = instance.costs.of_sets(np.arange(1 << 6, dtype=np.int64))
    for query, naive in zip(queries, by("naive", queries), strict=True):
        assert isinstance(query.size, float)
        assert query.budget is not None
        costs = instance.costs.at(curves, (query.size,))
        best = float(instance.accuracies[costs <= query.budget].max())
        check(plan.decide(query), best, alpha, query.budget)
        assert plan.decide(query).accuracy == plan.decide(naive).accuracy
    with pytest.raises(AssertionError, match="against"):
        check(plan.decide(IndexQuery(size=TRAINING_SIZE, budget=0.0)), 1.0, 0.5, 0.0)
