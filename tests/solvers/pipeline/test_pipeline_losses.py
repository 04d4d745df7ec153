"""Pipelines with unequal errors: bit counts against row by row, and what losses must and must not change."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.arrays import Floats, UInt64s
from models.losses import Losses
from models.pipeline import PipelineOptions, PipelineQuery
from solvers.base import BuildContext
from solvers.evaluation import items_from_dataset
from solvers.pipeline import PipelinePlan, kind
from solvers.pipeline.answer_cache import AnswerCache, split_qualities
from solvers.pipeline.objectives import Evaluator
from solvers.pipeline.setting_replays import replay_settings
from solvers.pipeline.unit_costs import FixedPointCosts
from tests.support.cases import first_quick

TRIAGE = {"sick": {"well": 64.0}, "well": {"sick": 8.0}}


def draw_losses(rng: np.random.Generator, classes: int) -> Losses:
    matrix = rng.integers(1, 60, (classes, classes + int(rng.integers(2)))).astype(float)
    np.fill_diagonal(matrix, 0)
    return Losses(matrix, float(matrix.max()), matrix.shape[1] > classes)


def draw_answers(answers: int, features: int, rows: int, seed: int) -> Callable[[UInt64s], tuple[Floats, Any]]:
    """Draw a confidence and an answer per feature set and row."""
    rng = np.random.default_rng(seed)
    confidences = rng.random((1 << features, rows)).astype(np.float32)
    codes = rng.integers(0, answers, (1 << features, rows))
    return lambda masks: (confidences[masks.astype(int)], codes[masks.astype(int)])


@pytest.mark.parametrize("seed", first_quick(range(200), 40))
def test_bit_counts_equal_row_by_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, features, classes = int(rng.integers(1, 90)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    losses, threshold = draw_losses(rng, classes), float(rng.random())
    costs, labels = rng.integers(0, 9, features).astype(float), rng.integers(0, classes, rows).astype(np.int32)
    train = draw_answers(losses.matrix.shape[1], features, rows, seed)
    evaluator = Evaluator(
        AnswerCache(train, labels, classes=classes, losses=losses),
        FixedPointCosts.from_costs(costs, rows),
        threshold,
        always_answers=True,
    )
    genes = [g for g in product(range(-1, features), repeat=features) if {*range(max(g) + 1)} <= {*g} and max(g) >= 0]
    scores = evaluator(np.array(genes, dtype=np.int8))
    for at, chromosome in enumerate(genes):
        paid, lost, rejected = 0.0, 0.0, 0
        for row in range(rows):
            for stage in range(max(chromosome) + 1):
                paid += sum(costs[f] for f in range(features) if chromosome[f] == stage)
                mask = sum(1 << f for f in range(features) if 0 <= chromosome[f] <= stage)
                confidence, code = (part[0][row] for part in train(np.array([mask], dtype=np.uint64)))
                if confidence >= np.float32(threshold) or stage == max(chromosome):
                    lost += losses.matrix[labels[row], code]
                    rejected += code == classes
                    break
        assert scores.cost[at] == pytest.approx(paid / rows)
        # many levels are rounded to 16 binary digits
        assert losses.scale * (1 - scores.accuracy[at]) == pytest.approx(lost / rows, abs=losses.scale * 2e-5)
        assert scores.covered[at] == rows - rejected


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_weighted_bits_are_the_qualities(classes: int) -> None:
    qualities = 1 - draw_losses(np.random.default_rng(classes), classes).shares
    weights, bits = split_qualities(qualities)
    few = len(np.unique(qualities)) <= 13
    np.testing.assert_allclose(np.tensordot(weights, bits, 1), qualities, atol=0 if few else 2.0**-16)
    assert len(weights) <= 16


def table(rows: int, seed: int, scale: float = 1.0, **more: Any) -> FeatureTable:
    """Draw patients of whom 15 % are sick: a free and weak feature, a good one for 2, and a better one for 8."""
    rng = np.random.default_rng(seed)
    sick = rng.random(rows) < 0.15
    columns: dict[str, Any] = {"label": np.where(sick, "sick", "well").astype(object)}
    columns |= {
        name: sick + rng.normal(0, noise, rows) for name, noise in (("free", 1), ("good", 0.5), ("better", 0.3))
    }
    costs = {"free": 0.0, "good": 2 * scale, "better": 8 * scale}
    features = [{"name": name, "columns": [name], "cost": cost} for name, cost in costs.items()]
    losses = {truth: {answer: scale * loss for answer, loss in row.items()} for truth, row in TRIAGE.items()}
    spec = {"kind": "features", "label": "label", "unit": "EUR", "features": features, "losses": losses, **more}
    made = dataset_from_columns(FeaturesSpec.model_validate(spec), columns)
    assert isinstance(made, FeatureTable)
    return made


def build(dataset: FeatureTable) -> Any:
    return kind.fit(dataset, PipelineOptions(), np.random.default_rng(0), BuildContext())


def totals(plan: PipelinePlan, unseen: FeatureTable, solution: int) -> Floats:
    assert plan.losses is not None
    codes, costs = plan.classify(solution, unseen.values)
    return np.asarray(costs + plan.losses.matrix[unseen.labels, codes])


@pytest.mark.parametrize("reject_cost", [None, 3.0])
def test_the_promised_total_comes_true_and_no_fixed_set_is_cheaper(reject_cost: float | None) -> None:
    fitted, unseen = build(table(2_000, 1, reject_cost=reject_cost)), table(20_000, 2, reject_cost=reject_cost)
    plan, savings = fitted.plan, fitted.savings
    own = totals(plan, unseen, plan.default_solution)
    error = own.std() * (1 / savings.rows + 1 / len(own)) ** 0.5
    assert own.mean() == pytest.approx(savings.cost + savings.loss, abs=3 * error)
    single = [at for at in range(len(plan.chromosomes)) if plan.chromosomes[at].max() == 0]
    for at in single:
        gain = totals(plan, unseen, at) - own
        assert gain.mean() >= -2 * gain.std() / len(gain) ** 0.5


def test_losses_and_costs_in_other_units_change_nothing() -> None:
    once, four = (build(table(600, 3, scale)).plan for scale in (1.0, 4.0))
    np.testing.assert_array_equal(once.chromosomes, four.chromosomes)
    np.testing.assert_array_equal(once.quality_thresholds, four.quality_thresholds)
    np.testing.assert_allclose(4 * once.tested[:, 2], four.tested[:, 2])
    assert once.default_solution == four.default_solution


def test_a_cheaper_reject_never_lowers_the_share_of_rejects() -> None:
    one: dict[str, Any] = {"features": [{"name": "good", "columns": ["good"], "cost": 2}]}
    shares = []
    for price in (6.0, 4.0, 2.0, 1.0, 0.1):
        plan = build(table(800, 4, reject_cost=price, **one)).plan
        codes, _ = plan.classify(plan.default_solution, table(2_000, 5, **one).values)
        shares.append(float((codes < 0).mean()))
    assert shares == sorted(shares)
    assert 0 < shares[1] < shares[-1] <= 1


def test_evaluated_items_are_those_of_the_plan() -> None:
    """Labels, rejects, and costs of an evaluation are those that the plan measures on the same rows."""
    plan, unseen = build(table(900, 6, reject_cost=3.0)).plan, table(300, 7, reject_cost=3.0)
    for point in replay_settings(plan, unseen):
        query = PipelineQuery.model_validate(point.query)
        found = kind.evaluate(plan, query, items_from_dataset(unseen))
        assert plan.losses is not None
        codes = np.array([-1 if label is None else plan.classes.index(label) for label in found.labels])
        np.testing.assert_allclose(found.costs, point.replay.costs)
        np.testing.assert_allclose(1 - plan.losses.measure(unseen.labels, codes), point.replay.right)
        assert found.accepted is not None
        np.testing.assert_array_equal(found.accepted, codes >= 0)
