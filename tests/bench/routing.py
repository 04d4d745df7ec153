"""Routers of language models, side by side: ``python -m tests.bench.routing``.

Real outcomes of models on MMLU, GSM8K and a mix of nine models, with embeddings of the prompts; a random half learns,
the other half is routed as a whole within 19 budgets between the cheapest and the dearest model; a policy decides for
each prompt by itself. Ours beside RouteLLM's kinds of routers, regressions, the hull of single models, and the truth.
Figures are means over seeds, with twice their standard error. On FrugalML's traces, whose services give labels and
confidences but no embeddings: the policy, cascades and the portfolio beside FrugalML's own figures, on its five splits.

accuracy: mean over the budgets, in per cent. area: what is gained of the way from the cheapest to the best model, over
budgets (APGR). 50 %, 80 %: the share of the dearest model's cost, less the cheapest's, at which so much of the way is
gained (CPT).
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from models import Trace, TraceSpec
from models.arrays import Floats, Int64s, Singles
from models.policy import PolicyOptions, PolicyTarget
from models.portfolio import PortfolioOptions
from solvers import Run
from solvers.policy import fit as fit_policy
from solvers.portfolio import fit
from solvers.portfolio.baselines import by_values
from tests.bench import _policy_traces as frugalml
from tests.bench._routers import ROUTERS
from tests.bench.cascade import table

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
PROMPTS = ("routellm_mmlu", "routellm_gsm8k", "llmrouter_mix")
SERVICES = tuple(f"frugalml_{name}" for name in frugalml.FRUGALML)
PRICES = (0.24, 24.7)
"""US dollars for a million tokens of the two models of RouteLLM's sets, as their paper has them."""
BUDGETS = 19
OURS = "Parsimony"


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What m models made of n prompts: vectors (n, d), right (n, m), costs (m,)."""

    vectors: Singles
    right: Floats
    costs: Floats

    @classmethod
    def of(cls, name: str) -> "Outcomes":
        """Read a set."""
        arrays = np.load(SHARED / f"{name}.npz", allow_pickle=False)
        costs = PRICES
        if "quality" in arrays:
            costs = json.loads((SHARED / f"{name}.json").read_text())["usd_per_million_tokens"]
        right = arrays["quality"] if "quality" in arrays else arrays["correct"]
        return cls(arrays["embedding"].astype(np.float32), right.astype(np.float64), np.array(costs))

    def trace(self, rows: np.ndarray) -> Trace:
        """Give some rows as a dataset."""
        names = [f"model-{j}" for j in range(len(self.costs))]
        classifiers = [{"name": n, "quality": n, "cost": c} for n, c in zip(names, self.costs.tolist(), strict=True)]
        spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
        return Trace.from_columns(spec, dict(zip(names, self.right[rows].T, strict=True)), self.vectors[rows])


def reached(values: Floats, right: Floats, costs: Floats) -> Floats:
    """Route within the budgets, by values (n, m), and say how right that was: (b,)."""
    rows, choose = np.arange(len(values)), by_values(values, costs, 1e-4)
    return np.array([right[rows, choose(budget * len(values))].mean() for budget in budgets_of(costs)])


def budgets_of(costs: Floats) -> list[float]:
    """List budgets of a prompt."""
    budgets: list[float] = np.linspace(costs.min(), costs.max(), BUDGETS + 2)[1:-1].tolist()
    return budgets


def curves(outcomes: Outcomes, seed: int, rows: int | None) -> dict[str, Floats]:
    """Learn from a half, and route the other: for each method what it reaches, (b,)."""
    order = np.random.default_rng(seed).permutation(len(outcomes.right))
    half = len(order) // 2
    learned, fresh = order[: min(half, rows or half)], order[half:]
    right, costs, asked = outcomes.right[fresh], outcomes.costs, outcomes.vectors[fresh]
    plan = fit(outcomes.trace(learned), PortfolioOptions(), np.random.default_rng(seed), Run()).plan
    found = {f"{OURS} ({plan.estimator})": reached(plan.estimate(asked), right, costs)}
    for name, router in ROUTERS.items():
        found[name] = reached(router(outcomes.vectors[learned], outcomes.right[learned], asked, seed), right, costs)
    found["a policy"] = by_policy(outcomes, learned, fresh, seed)
    return found | {"oracle": reached(right, right, costs)}


def by_policy(outcomes: Outcomes, learned: Int64s, fresh: Int64s, seed: int) -> Floats:
    """Let a policy decide for each prompt by itself, and say how right that was: (b,)."""
    plan = fit_policy(outcomes.trace(learned), PolicyOptions(embeddings=True), np.random.default_rng(seed), Run()).plan
    cells, names = plan.cells_of(outcomes.trace(fresh)), [str(row) for row in fresh.tolist()]
    right, rows = outcomes.right[fresh], np.arange(len(fresh))
    answered = [plan.run(cells, names, PolicyTarget(budget=budget)).labels for budget in budgets_of(outcomes.costs)]
    return np.array([right[rows, labels].mean() for labels in answered])


def measure(name: str, seeds: int, rows: int | None, folder: Path | None) -> Iterator[Table]:
    """Put what was reached into a table, and into a picture if there is a folder for it."""
    outcomes = Outcomes.of(name)
    every: dict[str, list[Floats]] = {}
    for seed in range(seeds):
        for method, curve in curves(outcomes, seed, rows).items():
            every.setdefault(OURS if method.startswith(OURS) else method, []).append(curve)
    weak, best = float(outcomes.right.mean(axis=0)[outcomes.costs.argmin()]), float(outcomes.right.mean(axis=0).max())
    report = table(
        f"{name}: {len(outcomes.right)} prompts, {seeds} seeds", "method", "accuracy", "area", "50 %", "80 %"
    )
    for method, runs in every.items():
        accuracies = 100 * np.array([run.mean() for run in runs])
        spread = 2 * float(accuracies.std(ddof=1)) / np.sqrt(seeds) if seeds > 1 else 0.0
        mean = np.mean(runs, axis=0)
        gained = (mean - weak) / (best - weak)
        spends = [_spend(gained, share) for share in (0.5, 0.8)]
        report.add_row(method, f"{accuracies.mean():.1f} ± {spread:.1f}", f"{gained.mean():.2f}", *spends)
    yield report
    if folder is not None:
        _draw(name, outcomes.costs, every, folder)


def _spend(gained: Floats, wanted: float) -> str:
    """Say at what share of the budgets so much is gained."""
    able = np.flatnonzero(gained >= wanted)
    return f"{100 * (able[0] + 1) / (BUDGETS + 1):.0f} %" if len(able) else "-"


def _draw(name: str, costs: Floats, every: dict[str, list[Floats]], folder: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 5))
    for method, runs in every.items():
        ours = method == OURS
        axes.plot(budgets_of(costs), 100 * np.mean(runs, axis=0), label=method, linewidth=3 if ours else 1)
    axes.set(title=name, xlabel="budget of a prompt (USD for a million tokens)", ylabel="answers right (%)")
    axes.legend(fontsize=8)
    figure.savefig(folder / f"{name}.png", dpi=150)
    plt.close(figure)


def reports(name: str, seeds: int, rows: int | None, folder: Path | None) -> Iterator[Table | str]:
    """Measure a set."""
    if name in SERVICES:
        return frugalml.report([frugalml.compare(name.removeprefix("frugalml_"), frugalml.SEEDS)])
    return measure(name, seeds, rows, folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=(*PROMPTS, *SERVICES), action="append", help="one of the sets; else all")
    parser.add_argument("--seeds", type=int, default=10, help="how many random halves of prompts")
    parser.add_argument("--rows", type=int, help="how many rows to learn from at most")
    parser.add_argument("--plot", type=Path, help="a folder for pictures")
    given = parser.parse_args()
    console = Console()
    for name in given.set or (*PROMPTS, *SERVICES):
        if not (SHARED / f"{name}.npz").exists():
            console.print(f"{name}.npz is not in shared/data beside the repository: left out")
            continue
        for report in reports(name, given.seeds, given.rows, given.plot):
            console.print(report)


if __name__ == "__main__":
    main()
