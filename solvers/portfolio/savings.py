"""Savings of a portfolio compared with single classifiers."""

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s
from models.savings import Savings
from solvers.portfolio.routing_outcome import LabeledItems
from solvers.portfolio.shadow_prices import ShadowPrices
from solvers.savings import BaselineReplays, Replay, choose_default_setting, measure_savings
from solvers.trace_baselines import find_current_baseline, replay_trace_baselines


def measure_portfolio_savings(
    dataset: Trace,
    prices: ShadowPrices,
    budgets: Floats,
    validation: tuple[Int64s, LabeledItems, Floats],
    held_out: tuple[Int64s, LabeledItems, Floats],
    learned: Int64s,
    embedder: int | None,
    rng: np.random.Generator,
) -> Savings:
    """Choose a budget on validation rows, and measure savings on holdout rows.

    Args:
        budgets: (p,), budgets per query.
        validation, held_out: indices of the rows, their outcomes, and their values, (n, m).
        learned: rows on which the baselines are tuned.
        embedder: the classifier that computes the embeddings, if any.
    """
    points = [_replay_routing(prices, budget, *validation[1:]) for budget in budgets.tolist()]
    items = dataset.item_codes
    replays = replay_trace_baselines(dataset, learned, embedder)
    baselines = BaselineReplays.from_replays(
        replays,
        items,
        find_current_baseline(replays, dataset, learned),
        dataset.spec.unit,
        dataset.loss_scale,
    )
    place = choose_default_setting(points, baselines.take(validation[0]))
    budget = float(budgets[place])
    query = {"budget": budget}
    decision = f"a budget of {budget:.4g} {dataset.spec.unit} per item"
    return measure_savings(
        decision, _replay_routing(prices, budget, *held_out[1:]), baselines.take(held_out[0]), rng, query=query
    )


def _replay_routing(prices: ShadowPrices, budget: float, labeled: LabeledItems, values: Floats) -> Replay:
    choice = prices.choose_each(values, labeled.plan_costs, budget - labeled.mean_embedding_cost)
    rows = np.arange(len(choice))
    return Replay(labeled.right[rows, choice], labeled.costs[rows, choice] + labeled.embedding_costs)
