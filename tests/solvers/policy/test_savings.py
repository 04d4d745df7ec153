"""Savings of a policy: the default operating point costs and answers on unseen rows as on holdout rows."""

import numpy as np
import pytest

from app.demo.generated_tables import make_documents
from models import FeatureTable
from models.policy import PolicyOptions, PolicyTarget
from solvers import BuildContext
from solvers.policy import fit
from solvers.policy.curve import PointMeasurements
from solvers.policy.graph import Graph
from solvers.policy.sensors import compute_item_sensor_costs
from solvers.policy.setting_replays import replay_validation_rows
from tests.solvers.policy.problems import build, trace
from tests.solvers.policy.test_classless import built

OPTIONS = PolicyOptions(folds=2, trees=16, depth=3)


@pytest.mark.parametrize("seed", [3, 7])
def test_unseen_rows_cost_what_the_savings_promise(seed: int) -> None:
    """Trade-offs whose own points are not on the hull select others, of half the cost."""
    fitted = fit(_documents(1000, seed), OPTIONS, np.random.default_rng(0), BuildContext())
    plan, savings, unseen = fitted.plan, fitted.savings, _documents(2000, 1000 + seed)
    assert savings is not None
    ran = plan.run(plan.cells_of(unseen), [str(row) for row in range(2000)], PolicyTarget.model_validate(savings.query))
    costs = ran.walks.total_costs(Graph(plan.members, plan.offsets, plan.targets), compute_item_sensor_costs(unseen))
    assert float(costs.mean()) == pytest.approx(savings.cost, rel=0.15)
    assert float((ran.labels == unseen.labels).mean()) == pytest.approx(savings.accuracy, abs=0.02)


@pytest.mark.parametrize("is_classless", [False, True])
def test_each_setting_is_replayed_at_the_point_that_its_query_selects(is_classless: bool) -> None:
    plan = built().plan if is_classless else build(trace())
    measured = PointMeasurements(plan.point_errors[:, None], plan.point_costs[:, None])
    settings = replay_validation_rows(plan, measured)
    selected = [plan.select_mixture(PolicyTarget.model_validate(one.query)).first for one in settings.values()]
    assert len(selected) > 1
    assert selected == sorted(set(selected))
    assert [float(one.replay.costs[0]) for one in settings.values()] == plan.point_costs[selected].tolist()
    assert [float(1 - one.replay.right[0]) for one in settings.values()] == pytest.approx(plan.point_errors[selected])


def _documents(rows: int, seed: int) -> FeatureTable:
    table = make_documents(rows, np.random.default_rng(seed)).to_dataset()
    assert isinstance(table, FeatureTable)
    return table
