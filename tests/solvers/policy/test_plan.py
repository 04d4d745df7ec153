"""How a policy answers: steps and rollouts agree, budgets hold, bad input is told apart."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, InvalidRequest, Trace
from models.policy import AcquireDecision, Answer, ClassifyDecision, PolicyOptions, PolicyQuery, PolicyTarget
from models.policy_curves import RolloutItem
from solvers import BuildContext
from solvers.budget_mixture import Mixture
from solvers.policy import PolicyPlan, fit
from solvers.policy.node_classifiers import make_tree_inputs
from tests.solvers.policy.problems import QUICK, build, features, items_of, many_features, trace

BOOSTED = PolicyOptions(points=8, folds=3, trees=12, depth=3)
TOGETHER = PolicyOptions(points=6, folds=3, trees=8, parallel=(("f0", "f1", "f2"), ("f3", "f4"), ("f5", "f7")))
GROWN = PolicyOptions(graph="grown", points=6, folds=2, trees=12, depth=2)
Built = tuple[PolicyPlan, FeatureTable | Trace]
CASES: dict[str, tuple[Any, PolicyOptions]] = {
    "trace": (trace, QUICK),
    "trace, boosted": (trace, BOOSTED),
    "features": (features, QUICK),
    "features, boosted": (features, BOOSTED),
    "grown": (lambda: many_features(7), GROWN),
    "features together": (lambda: many_features(8), TOGETHER),
}


@pytest.fixture(scope="module")
def case() -> Callable[[str], Built]:
    """Build the policies of cases, each once."""

    @cache
    def built(name: str) -> Built:
        make, options = CASES[name]
        dataset = make()
        return build(dataset, options), dataset

    return built


@pytest.fixture(params=CASES)
def built(request: pytest.FixtureRequest, case: Callable[[str], Built]) -> Built:
    """Go through policies of all kinds."""
    return case(request.param)


@pytest.fixture
def plan(case: Callable[[str], Built]) -> PolicyPlan:
    """Give a policy over the sample trace."""
    return case("trace")[0]


@pytest.fixture
def of_features(case: Callable[[str], Built]) -> PolicyPlan:
    """Give a policy over the sample table."""
    return case("features")[0]


@pytest.fixture
def of_fetches(case: Callable[[str], Built]) -> PolicyPlan:
    """Give a policy over features that are fetched together."""
    return case("features together")[0]


def compare_one_with_rows(plan: PolicyPlan, cells: Any, rng: np.random.Generator) -> int:
    """Compare the action of single items with that of rows, at random nodes, members, and points; return how many."""
    compared, nodes = 0, [node for node in range(len(plan.members)) if len(plan._graph.list_actions(node))]
    for row in cells:
        node, point = int(rng.choice(nodes)), int(rng.integers(len(plan.tradeoffs)))
        member, inputs = int(rng.integers(plan.class_base.shape[1])), make_tree_inputs(plan._sensors, row[None])
        actions = len(plan._graph.list_actions(node))
        forbidden = None if rng.random() < 0.5 else rng.random(actions) < 0.3
        action, advantages, stopping = plan._choose_action(node, member, point, row[None], inputs, forbidden)
        of_rows, expected, losses = plan._choose_actions(node, member, point, row[None], inputs, forbidden)
        np.testing.assert_allclose(advantages, expected[0], rtol=0, atol=1e-6)
        assert stopping == pytest.approx(losses[0], abs=1e-12)
        tied = np.sort(np.append(np.where(False if forbidden is None else forbidden, np.inf, expected[0]), 0.0))[:2]
        if tied[1] - tied[0] > 1e-6:
            assert action == of_rows[0]
            compared += 1
    return compared


def test_one_item_is_decided_as_rows_are(built: Built) -> None:
    plan, dataset = built
    cells = plan.cells_of(dataset)[:200]
    assert compare_one_with_rows(plan, cells, np.random.default_rng(1)) > 100


def walk_by_steps(plan: PolicyPlan, item: RolloutItem, target: PolicyTarget) -> tuple[str, float, list[str]]:
    """Ask for one step after the other, as a caller would, sensor by sensor."""
    acquired: dict[str, Any] = {}
    paid = 0.0
    for _ in range(len(plan.sensors) + 1):
        query = PolicyQuery(**dict(target), item=item.item, acquired=acquired)
        step = plan.decide(query)
        if isinstance(step, ClassifyDecision):
            return step.label, paid, list(acquired)
        assert isinstance(step, AcquireDecision)
        assert step.sensor not in acquired
        acquired[step.sensor] = item.sensors[step.sensor]
        paid += step.cost
    raise AssertionError("it never stops")


def targets(plan: PolicyPlan) -> list[PolicyTarget]:
    """Give budgets between all points of the curve and beyond, trade-offs, and neither."""
    bounds = plan.point_bounds
    between = ((bounds[:-1] + bounds[1:]) / 2).tolist()
    return [
        PolicyTarget(),
        PolicyTarget(budget=0.0),
        PolicyTarget(budget=1e9),
        PolicyTarget(tradeoff=0.0),
        PolicyTarget(tradeoff=1e6),
        *(PolicyTarget(budget=budget) for budget in between),
        *(PolicyTarget(max_item_cost=share * float(plan.costs.sum())) for share in (0.0, 0.3, 0.6, 1.0)),
        PolicyTarget(budget=float(bounds[-1]), max_item_cost=0.5 * float(plan.costs.sum())),
        PolicyTarget(tradeoff=0.0, max_item_cost=0.4 * float(plan.costs.sum())),
        *(PolicyTarget(tradeoff=max(tradeoff, 0.0)) for tradeoff in plan.tradeoffs.tolist()),
    ]


def test_steps_lead_where_rollouts_do(built: Built) -> None:
    """Labels, costs and paths, under every kind of target."""
    plan, dataset = built
    items = items_of(dataset)[:4]
    for target in targets(plan):
        for item, ran in zip(items, plan.roll_out(items, target).items, strict=True):
            label, cost, path = walk_by_steps(plan, item, target)
            assert (label, path) == (ran.label, list(ran.path))
            assert cost == pytest.approx(ran.cost)


def test_rollouts_of_cells_are_those_of_items(built: Built) -> None:
    plan, dataset = built
    items = items_of(dataset)
    target = PolicyTarget(budget=float(plan.point_bounds[-1]) * 0.6)
    rollouts = plan.roll_out(items, target)
    ran = plan.run(plan.cells_of(dataset), [str(item.item) for item in items], target)
    assert [item.label for item in rollouts.items] == [plan.classes[label] for label in ran.labels]
    assert rollouts.mean_cost == pytest.approx(ran.costs.mean())


def test_what_is_learned_helps(built: Built) -> None:
    """The curve falls from the error of guessing to far below, and new rollouts are about as good as it says."""
    plan, dataset = built
    assert plan.point_errors[-1] < 0.75 * plan.point_errors[0]
    ran = plan.run(plan.cells_of(dataset), [str(row) for row in range(dataset.rows)], PolicyTarget())
    truth = np.array(dataset.classes)[dataset.labels]
    assert (np.array(plan.classes)[ran.labels] != truth).mean() < plan.point_errors[-1] + 0.06


def test_more_budget_never_leads_to_a_dearer_or_worse_point_than_asked(plan: PolicyPlan) -> None:
    budgets = np.linspace(0, plan.point_bounds[-1] * 1.2, 50)
    mixtures = [Mixture.from_budget(plan.point_bounds, float(budget)) for budget in budgets]
    mean = [(1 - m.share) * plan.point_bounds[m.first] + m.share * plan.point_bounds[m.second] for m in mixtures]
    errors = [(1 - m.share) * plan.point_errors[m.first] + m.share * plan.point_errors[m.second] for m in mixtures]
    assert np.allclose(mean, np.minimum(budgets, plan.point_bounds[-1]))
    assert np.all(np.diff(errors) <= 1e-12)


def test_half_a_confidence_makes_the_measured_cost_the_budget(plan: PolicyPlan) -> None:
    """Without a margin the bound is the mean; usually there is one."""
    careless = build(trace(150), QUICK.model_copy(update={"confidence": 0.5, "points": 4}))
    assert np.allclose(careless.point_bounds, careless.point_costs)
    assert np.all(plan.point_bounds[1:] > plan.point_costs[1:])


def test_a_budget_is_spent_on_average_over_items(plan: PolicyPlan) -> None:
    """On new items of the same kind, within a few standard errors, and mostly below it: there is a margin."""
    new = trace(4000, seed=9)
    cells, names = plan.cells_of(new), [str(row) for row in range(new.rows)]
    for budget in (1.0, 2.0, 4.0):
        ran = plan.run(cells, names, PolicyTarget(budget=budget))
        assert 0.75 * budget < ran.costs.mean() <= budget


def test_an_item_takes_the_same_path_every_time_and_items_share_a_budget_out(plan: PolicyPlan) -> None:
    target = PolicyTarget(budget=float(plan.point_bounds[1:3].mean()))
    seen = {plan.decide(PolicyQuery(budget=target.budget, item=f"item {i}")).tradeoff for i in range(60)}
    assert len(seen) == 2
    for i in range(10):
        query = PolicyQuery(budget=target.budget, item=f"item {i}")
        assert plan.decide(query) == plan.decide(query)


def test_without_an_item_the_cheaper_point_decides(plan: PolicyPlan) -> None:
    step = plan.decide(PolicyQuery(budget=float(plan.point_bounds[1:3].mean())))
    assert step.tradeoff == pytest.approx(plan.tradeoffs[1])


def test_no_budget_at_all_classifies_as_the_most_common_class(plan: PolicyPlan) -> None:
    step = plan.decide(PolicyQuery(budget=0.0))
    assert isinstance(step, ClassifyDecision)
    assert step.tradeoff is None
    assert step.probabilities[step.label] == max(step.probabilities.values())
    assert sum(step.probabilities.values()) == pytest.approx(1.0)


def test_with_all_sensors_known_it_classifies(plan: PolicyPlan) -> None:
    known: dict[str, Any] = {"fast": ("cat", 0.95), "middle": ("cat", 0.9), "strong": "cat"}
    step = plan.decide(PolicyQuery(tradeoff=0.0, acquired=known))
    assert isinstance(step, ClassifyDecision)
    assert step.label == "cat"
    assert step.expected_loss == pytest.approx(1 - step.probabilities["cat"])


def test_a_label_may_be_told_in_three_ways(plan: PolicyPlan) -> None:
    ways: list[Any] = [{"label": "cat", "confidence": 0.95}, ["cat", 0.95]]
    queries = [PolicyQuery.model_validate({"tradeoff": 0.0, "acquired": {"fast": way}}) for way in ways]
    assert isinstance(queries[0].acquired["fast"], Answer)
    assert plan.decide(queries[0]) == plan.decide(queries[1])
    for way in ("cat", ["cat"], {"label": "cat"}):
        query = PolicyQuery.model_validate({"tradeoff": 0.0, "acquired": {"strong": way}})
        assert isinstance(plan.decide(query), AcquireDecision | ClassifyDecision)


@pytest.mark.parametrize(
    ("acquired", "said"),
    [
        ({"slow": 1.0}, r"acquired.slow: .* available: fast, middle, strong"),
        ({"fast": ("cat",)}, r"acquired.fast: must have label and confidence, got 1 values"),
        ({"fast": ("cat", 0.5, 0.5)}, r"got 3 values"),
        ({"fast": (0.5, "cat")}, r"must begin with a label"),
        ({"fast": ("cat", "dog")}, r"must be a number, got 'dog'"),
        ({"strong": 3.0}, r"must begin with a label"),
        ({"strong": "gnu"}, r"unknown class 'gnu'; available: 'cat', 'dog', 'owl'"),
        ({"fast": ("cat", 93.0)}, r"has confidence 93; the dataset's are from"),
        ({"strong": ("cat", 0.5)}, r"must have 1 values, got 2"),
    ],
)
def test_what_a_sensor_cannot_have_told_is_refused(plan: PolicyPlan, acquired: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        plan.decide(PolicyQuery(acquired=acquired))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, "much", None, True])
def test_a_feature_must_be_a_finite_number(of_features: PolicyPlan, value: Any) -> None:
    query = PolicyQuery.model_construct(tradeoff=None, budget=None, item=None, acquired={"glucose": value})
    with pytest.raises(InvalidRequest, match=r"acquired\.glucose: must be"):
        of_features.decide(query)
    query = PolicyQuery.model_construct(tradeoff=None, budget=None, item=None, acquired={"texture": (1.0,)})
    with pytest.raises(InvalidRequest, match="must have 2 values, got 1"):
        of_features.decide(query)
    query = PolicyQuery(acquired={"glucose": Answer(label="high")})
    with pytest.raises(InvalidRequest, match="for a feature"):
        of_features.decide(query)


def test_all_faults_are_told_at_once(plan: PolicyPlan) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan.decide(PolicyQuery(acquired={"slow": 1.0, "fast": "cat"}))
    assert [fault.loc for fault in caught.value.faults] == [("acquired", "slow"), ("acquired", "fast")]


def test_a_rollout_needs_all_sensors(plan: PolicyPlan) -> None:
    with pytest.raises(InvalidRequest, match=r"items.0.sensors: must include 'middle'"):
        plan.roll_out([RolloutItem(sensors={"fast": ("cat", 0.5), "strong": "cat"})], PolicyTarget())
    with pytest.raises(InvalidRequest, match=r"items.0.sensors.slow: is not a sensor"):
        plan.roll_out([RolloutItem(sensors={"slow": 1.0})], PolicyTarget())


def test_a_trade_off_and_a_budget_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot be combined .* 1 and 2"):
        PolicyQuery(tradeoff=1.0, budget=2.0)


def test_another_dataset_must_have_the_same_sensors(plan: PolicyPlan) -> None:
    with pytest.raises(InvalidRequest, match="must have the sensors fast, middle, strong"):
        plan.cells_of(features())


def test_a_half_known_fetch_is_finished_first(of_fetches: PolicyPlan) -> None:
    """Of a group of sensors the one that is known already is not asked for again."""
    step = of_fetches.decide(PolicyQuery(item="a"))
    assert isinstance(step, AcquireDecision)
    if step.then:
        known: dict[str, Any] = {step.then[0]: 0.3}
        again = of_fetches.decide(PolicyQuery(item="a", acquired=known))
        assert isinstance(again, AcquireDecision)
        assert step.then[0] not in (again.sensor, *again.then)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_fetches_that_were_begun_are_finished_so_that_steps_cost_what_rollouts_cost(seed: int) -> None:
    """Seven features in four fetches, of which three are of two."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(120, 7))
    labels = (values[:, 0] + values[:, 1] > 0).astype(int) + 2 * (values[:, 2] + values[:, 3] > 0)
    listed = [{"name": f"f{i}", "columns": [f"f{i}"], "cost": 1.0} for i in range(7)]
    spec = FeaturesSpec.model_validate({"kind": "features", "label": "y", "unit": "ms", "features": listed})
    table = FeatureTable.from_columns(spec, {f"f{i}": values[:, i] for i in range(7)} | {"y": labels})
    options = PolicyOptions(points=6, folds=2, trees=8, parallel=(("f0", "f1"), ("f2", "f3"), ("f4", "f5")))
    plan = fit(table, options, np.random.default_rng(seed), BuildContext()).plan
    ids = [str(i) for i in range(len(labels))]
    for tradeoff in [point.tradeoff for point in plan.curve() if point.tradeoff is not None]:
        ran = plan.run(plan.cells_of(table), ids, PolicyTarget(tradeoff=tradeoff))
        for at, item in enumerate(ids):
            known: dict[str, Any] = {}
            while isinstance(
                step := plan.decide(PolicyQuery(tradeoff=tradeoff, item=item, acquired=known)), AcquireDecision
            ):
                known[step.sensor] = float(values[at, int(step.sensor[1:])])
            assert len(known) == ran.costs[at]
            assert isinstance(step, ClassifyDecision)
            assert step.label == plan.classes[ran.labels[at]]
            assert not step.ignored
