"""Routers side by side: ``parsimony bench routing``.

Real outcomes of models on MMLU, GSM8K and a mix of nine models, with embeddings of the prompts; seven classifiers of
letters and of digits (after ``make bench-data``), which are their own embeddings; FrugalML's services, where the
cheapest one's answer, which is
paid for, is the embedding. A random half learns, the other half is routed as a whole within 20 budgets between the
cheapest and the dearest model; a policy decides for each item by itself, and knows of services no embedding. Ours
beside RouteLLM's kinds of routers, regressions, the paper's estimator, the hull of single models, and the truth.
Figures are means over seeds, with twice their standard error.

accuracy: mean over the budgets, in per cent. area: what is gained of the way from the cheapest to the best model, over
budgets (APGR). 50 %, 80 %: the share of the dearest model's cost, less the cheapest's, at which so much of the way is
gained (CPT). ours ahead: the portfolio's accuracy less this one's, in points, on the same splits; at worst: that at the
budget where it is least, which was picked as such: the interval is of that budget alone.

``--drop``: OCCAM's Table 2 on letters and digits, the accuracy that is lost to the dearest classifier at lower cost.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from models.arrays import Floats, Int64s
from models.policy import PolicyOptions, PolicyTarget
from models.portfolio import PortfolioOptions
from solvers import BuildContext
from solvers.item_splits import split_rows
from solvers.policy import fit as fit_policy
from solvers.portfolio import fit
from solvers.portfolio.baselines import draw_uniform_values, make_assignment_router, predict_by_forests
from solvers.row_repeats import hash_rows
from tests.bench._outcomes import SEVENS, Outcomes, is_there
from tests.bench._routers import ROUTERS, constant
from tests.bench.cascade import table
from tests.bench.policy import FRUGALML

PROMPTS = ("routellm_mmlu", "routellm_gsm8k", "llmrouter_mix")
SERVICES = tuple(f"frugalml_{name}" for name in FRUGALML)
BUDGETS = 20
QUICK = {"curve_points": 2}
"""Nobody looks at the curves that builds draw."""
REDUCTIONS = (0.1, 0.2, 0.4)
OCCAM = {"estimator": "occam", "samples": {"count": 40, "size": 500}, "regularization": 5.0}
"""The settings of OCCAM's Section 5.1 for CIFAR."""
OURS, HULL = "Parsimony", "hull of single models"


def reached(values: Floats, right: Floats, costs: Floats, budgets: list[float]) -> Floats:
    """Route within the budgets of an item, by values (n, m), and say how right that was: (b,)."""
    rows, choose = np.arange(len(values)), make_assignment_router(values, costs, 1e-4)
    return np.array([right[rows, choose(budget * len(values))].mean() for budget in budgets])


def budgets_of(costs: Floats) -> list[float]:
    budgets: list[float] = np.linspace(costs.min(), costs.max(), BUDGETS + 2)[1:-1].tolist()
    return budgets


def curves(outcomes: Outcomes, seed: int) -> dict[str, Floats]:
    """Learn from a half, and route the other, equal items in the same: for each method what it reaches, (b,)."""
    rng, items = np.random.default_rng(seed), hash_rows(outcomes.vectors).astype(np.int64)
    half, fresh = split_rows(items, [len(items) // 2], rng)
    learned = rng.permutation(half)
    right, budgets, asked = outcomes.right[fresh], budgets_of(outcomes.costs), outcomes.vectors[fresh]
    left = [budget - outcomes.fee for budget in budgets]
    name = None if outcomes.embedder is None else outcomes.spec.classifiers[outcomes.embedder].name
    trace, accuracies = outcomes.trace(learned), dict[str, Floats]()
    for method, estimator in ((OURS, "auto"), ("the paper's estimator", "occam")):
        options = PortfolioOptions.model_validate({"feature_classifier": name, "estimator": estimator} | QUICK)
        plan = fit(trace, options, np.random.default_rng(seed), BuildContext()).plan
        accuracies[method] = reached(plan.estimate(asked), right, outcomes.further, left)
    known = outcomes.vectors[learned], outcomes.right[learned], asked, seed
    accuracies[HULL] = reached(constant(*known), right, outcomes.costs, budgets)
    accuracies |= {each: reached(router(*known), right, outcomes.further, left) for each, router in ROUTERS.items()}
    accuracies["a policy"] = by_policy(outcomes, learned, fresh, seed)
    return accuracies | {"oracle": reached(right, right, outcomes.costs, budgets)}


def by_policy(outcomes: Outcomes, learned: Int64s, fresh: Int64s, seed: int) -> Floats:
    """Let a policy decide for each item by itself, and say how right that was: (b,)."""
    options = PolicyOptions(embeddings=outcomes.embedder is None)
    plan = fit_policy(outcomes.trace(learned), options, np.random.default_rng(seed), BuildContext()).plan
    cells, names = plan.cells_of(outcomes.trace(fresh)), [str(row) for row in fresh.tolist()]
    answered = [plan.run(cells, names, PolicyTarget(budget=budget)).labels for budget in budgets_of(outcomes.costs)]
    if outcomes.spec.has_classes:
        truth = outcomes.held["truth"][fresh]
        return np.array([(np.array(plan.classes).astype(np.int64)[labels] == truth).mean() for labels in answered])
    right, rows = outcomes.right[fresh], np.arange(len(fresh))
    return np.array([right[rows, labels].mean() for labels in answered])


def measure_lost_accuracy(outcomes: Outcomes, seed: int) -> dict[str, Floats]:
    """Learn from a half, route the other at reduced costs, and return the lost accuracy in points, by method: (b,)."""
    order = np.random.default_rng(seed).permutation(len(outcomes.right))
    learned, fresh = np.split(order, [len(order) // 2])
    right, asked, costs = outcomes.right[fresh], outcomes.vectors[fresh], outcomes.costs
    budgets = [(1 - share) * float(costs.max()) for share in REDUCTIONS]
    best = float(right[:, costs.argmax()].mean())
    values = {
        "random": draw_uniform_values(np.random.default_rng(seed), *right.shape),
        "FrugalMCT": predict_by_forests(outcomes.vectors[learned], outcomes.right[learned], asked, seed),
    }
    for method, options in (("OCCAM", OCCAM), (OURS, {})):
        chosen = PortfolioOptions.model_validate(options | QUICK)
        plan = fit(outcomes.trace(learned), chosen, np.random.default_rng(seed), BuildContext()).plan
        values[method] = plan.penalize_estimates(plan.estimate(asked))
    dearest = [int(np.where(costs <= budget, costs, -1.0).argmax()) for budget in budgets]
    accuracies = {"single best": right[:, dearest].mean(axis=0)}
    accuracies |= {method: reached(each, right, costs, budgets) for method, each in values.items()}
    return {method: 100 * (best - reached_) for method, reached_ in accuracies.items()}


def measure_drops(name: str, seeds: range) -> Table:
    outcomes = Outcomes.of(name)
    runs = [measure_lost_accuracy(outcomes, seed) for seed in seeds]
    columns = (f"{share:.0%} less" for share in REDUCTIONS)
    report = table(
        f"{name}: accuracy lost in points by cost, {len(seeds)} seeds from {seeds.start}", "method", *columns
    )
    for method in runs[0]:
        report.add_row(method, *(_interval(each / 100) for each in np.array([run[method] for run in runs]).T))
    return report


def measure(name: str, seeds: range) -> Table:
    outcomes = Outcomes.of(name)
    every: dict[str, list[Floats]] = {}
    for seed in seeds:
        for method, curve in curves(outcomes, seed).items():
            every.setdefault(method, []).append(curve)
    weak, best = float(outcomes.right.mean(axis=0)[outcomes.costs.argmin()]), float(outcomes.right.mean(axis=0).max())
    report = table(
        f"{name}: {len(outcomes.right)} items, {len(seeds)} seeds from {seeds.start}",
        "method", "accuracy", "area", "50 %", "80 %", "ours ahead", "at worst",
    )  # fmt: skip
    ours = np.array(every[OURS])
    for method, runs in every.items():
        mean = np.mean(runs, axis=0)
        gained = (mean - weak) / (best - weak)
        spends = [_spend(gained, share) for share in (0.5, 0.8)]
        ahead = ours - np.array(runs)
        least = int(ahead.mean(axis=0).argmin())
        intervals = ["", ""] if method == OURS else [_interval(each) for each in (ahead.mean(axis=1), ahead[:, least])]
        report.add_row(method, _interval(np.mean(runs, axis=1)), f"{gained.mean():.2f}", *spends, *intervals)
    return report


def _interval(shares: Floats) -> str:
    """Give a mean over seeds in points, with twice its standard error."""
    spread = 200 * float(shares.std(ddof=1)) / np.sqrt(len(shares)) if len(shares) > 1 else 0.0
    return f"{100 * shares.mean():.2f} ± {spread:.2f}"


def _spend(gained: Floats, wanted: float) -> str:
    able = np.flatnonzero(gained >= wanted)
    return f"{100 * (able[0] + 1) / (BUDGETS + 1):.0f} %" if len(able) else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    every = (*PROMPTS, *SEVENS, *SERVICES)
    parser = argparse.ArgumentParser(prog="parsimony bench routing", description=__doc__)
    parser.add_argument("--set", choices=every, action="append", help="one of the sets; else all")
    parser.add_argument("--seeds", type=int, default=10, help="how many random halves of items")
    parser.add_argument("--first", type=int, default=0, help="the first seed: choose on others than are reported")
    parser.add_argument("--drop", action="store_true", help="OCCAM's Table 2, of letter and optdigits")
    given = parser.parse_args(arguments)
    console, seeds = Console(), range(given.first, given.first + given.seeds)
    for name in given.set or (SEVENS if given.drop else every):
        if not is_there(name):
            console.print(f"{name} is not in shared/data beside the repository: left out")
            continue
        console.print((measure_drops if given.drop else measure)(name, seeds), highlight=False)


if __name__ == "__main__":
    main()
