"""Savings of a pipeline compared with baselines.

Baselines are single classifiers on fixed feature sets, and simple chains.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.arrays import Int8s, Int64s
from models.savings import Savings
from solvers.pipeline.answer_cache import ACCEPTED, CORRECT
from solvers.pipeline.bit_packing import unpack_bits
from solvers.pipeline.configurations import make_single_stage
from solvers.pipeline.objectives import Evaluator, compute_stage_costs
from solvers.pipeline.plan import PipelinePlan
from solvers.savings import BaselineReplays, Replay, measure_savings, name_feature_set

MAX_CHEAPEST_BASELINES = 12
"""Maximum number of baselines of the cheapest features, evenly spread."""
MAX_TWO_STAGES = 6
"""Maximum number of baselines with two stages."""
MAX_FORWARD = 12
"""Maximum number of features for forward selection, which trains half their square."""


def measure_pipeline_savings(
    plan: PipelinePlan, report: Evaluator, choose: Evaluator, items: Int64s, rng: np.random.Generator
) -> Savings:
    """Measure the savings of the default configuration compared with baselines.

    Baselines have the same reject option. Accuracy is the share of correct answers among all items, or with losses, the
    mean quality. With losses, each chain of stages has the plan's threshold of least cost and loss on validation rows.

    Args:
        report: evaluator on the test rows.
        choose: evaluator on the validation rows; it selects features and thresholds.
        items: item codes of the test rows.
    """
    names, default = plan.features, plan.default_solution
    order = plan.setup.order_by_cost(plan.extended_costs)
    one_by_one = np.empty(len(order), dtype=np.int8)
    one_by_one[order] = np.arange(len(order))
    chains = {"one by one, the cheapest first": one_by_one, **_two_stages(names, order)}
    alone = {name: replay_configuration(report, genes) for name, genes in list_fixed_sets(names, order, choose).items()}
    alone |= {
        name: replay_configuration(report, genes, _choose_threshold(plan, choose, genes))
        for name, genes in chains.items()
    }
    losses = plan.losses
    scale = 0.0 if losses is None else losses.scale
    alternatives = BaselineReplays.from_replays(alone, items, "all features", plan.unit, scale)
    own = replay_configuration(
        report, plan.chromosomes[default], None if losses is None else float(plan.quality_thresholds[default])
    )
    return measure_savings("the default configuration, over all items", own, alternatives, rng)


def _choose_threshold(plan: PipelinePlan, choose: Evaluator, genes: Int8s) -> float | None:
    """Return the plan's threshold with which a configuration, (n,), has the least cost and loss on validation rows."""
    if plan.losses is None:
        return None
    thresholds = np.unique(plan.quality_thresholds).tolist()
    scores = [replace(choose, threshold=threshold)(genes[None]) for threshold in thresholds]
    totals = [float((one.cost + plan.losses.scale * (1 - one.accuracy))[0]) for one in scores]
    return float(thresholds[int(np.argmin(totals))])


def _two_stages(names: Sequence[str], order: Int64s) -> dict[str, Int8s]:
    """Return two-stage chains by name: the cheapest features, the first of an order, then all others."""
    n = len(order)
    counts = np.unique(np.linspace(1, n - 1, min(n - 1, MAX_TWO_STAGES)).round().astype(int)).tolist()
    chains = {}
    for count in counts:
        genes = np.ones(n, dtype=np.int8)
        genes[order[:count]] = 0
        chains[f"{name_feature_set([names[f] for f in order[:count]], f'the {count} cheapest features')}, then all"] = (
            genes
        )
    return chains


def replay_configuration(evaluator: Evaluator, configuration: Int8s, threshold: float | None = None) -> Replay:
    """Return the quality of each row's answer, 0 if it is rejected without losses, and its cost.

    threshold: None: the evaluator's own.
    """
    if threshold is not None:
        evaluator = replace(evaluator, threshold=threshold)
    genes = configuration[None]
    stages, rows, weights = int(configuration.max()) + 1, evaluator.answers.rows, evaluator.answers.weights
    votes, indices = evaluator.get_votes(genes)
    bits = unpack_bits(votes, rows)[indices[0]]
    paid = compute_stage_costs(genes, stages, evaluator.unit_costs)[0]
    pending, right, costs = np.ones(rows, dtype=bool), np.zeros(rows), np.zeros(rows)
    for stage in range(stages):
        costs += paid[stage] * pending
        right += pending * (weights @ bits[stage, CORRECT : CORRECT + len(weights)])
        pending &= ~bits[stage, ACCEPTED]
    return Replay(right, np.asarray(evaluator.unit_costs.compute_mean(costs, 1)))


def list_fixed_sets(names: Sequence[str], order: Int64s, evaluator: Evaluator) -> dict[str, Int8s]:
    """Return single-stage configurations by name: all features, the cheapest, and forward selection.

    order: (n,), the features, the cheapest first.
    """
    n = len(order)
    counts = np.unique(np.linspace(1, n, min(n, MAX_CHEAPEST_BASELINES)).round().astype(int)).tolist()
    sets = {tuple(sorted(order[:k].tolist())): f"the {k} cheapest features" for k in counts}
    chosen: list[int] = []
    while n <= MAX_FORWARD and len(chosen) < n:
        further = [f for f in range(n) if f not in chosen]
        scores = evaluator(np.stack([make_single_stage([*chosen, f], n) for f in further]))
        chosen.append(further[int(np.argmax(scores.right))])
        sets.setdefault(tuple(sorted(chosen)), f"the first {len(chosen)} of forward selection")
    sets[tuple(range(n))] = "all features"
    return {
        name if len(own) == n else name_feature_set([names[f] for f in own], name): make_single_stage(own, n)
        for own, name in sets.items()
    }
