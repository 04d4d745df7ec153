"""How fast assignments within several limits are: against HiGHS on the whole programme, and for a million queries; and
what they save on traces of language models.

CPU seconds of this process. The comparison takes some ten minutes, nearly all of it in HiGHS.
"""

import math
import resource
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.table import Table

from models import Trace, TraceSpec
from models.arrays import Floats
from models.portfolio import PortfolioOptions, RouteQuery
from models.portfolio_constraints import ConstrainedRequest
from solvers import Run
from solvers.portfolio import PortfolioPlan, fit
from solvers.portfolio.constrained import Assigned, Constraint, assign_within
from tests.bench._outcomes import PRICES, SHARED
from tests.bench._portfolio_programme import Compared, cpu
from tests.bench.cascade import shown, table
from tests.oracles.constrained import Instance, best_by_highs, large

QUERIES, MILLION, GAP = 10_000, 1_000_000, 1e-4
SEEDS = (0, 1, 2)
KINDS: dict[str, int | None] = {"continuous": None, "means of 40": 40}
GOALS = ("accuracy", "cost")
FLOOR = 0.8
"""The mean estimate that the least cost has to keep."""
LIMIT_S = 900.0
"""Seconds that HiGHS gets for an instance."""
REPLY = 200
"""Tokens of a reply, which the traces do not tell."""
KEPT = 0.95
"""The share of the strong model's accuracy that is to be kept."""
CAPACITIES = (0.5, 0.3)
"""Shares of the queries that the strong model may get."""


def of_goal(instance: Instance, goal: str) -> Instance:
    """Ask for the highest accuracy, or for the least cost above a floor of it."""
    if goal == "accuracy":
        return instance
    floor = Constraint(("accuracy", "at_least"), 3, FLOOR * len(instance.worths), most=False)
    return replace(instance, worths=-instance.uses[0], constraints=(*instance.constraints, floor))


def solved(instance: Instance, gap: float = GAP) -> Assigned:
    """Solve an instance as the service does."""
    return assign_within(instance.worths, instance.constraints, uses=instance.uses, groups=instance.groups, gap=gap)


def compare(instance: Instance) -> Compared:
    """Solve one instance both ways."""
    seconds, mine = cpu(lambda: solved(instance))
    highs_seconds, known = cpu(lambda: best_by_highs(instance, gap=GAP, time_limit_s=LIMIT_S))
    assert known is not None
    return Compared(seconds, highs_seconds, (known[0] - mine.value) / abs(mine.value), mine.gap)


def compare_with_highs(seeds: Sequence[int] = SEEDS, queries: int = QUERIES) -> Iterator[Table | str]:
    """Solve the same instances by ``assign_within`` and by HiGHS on the whole sparse programme."""
    made = table(
        f"{queries:,} queries x 7 classifiers, a budget, 3 capacities, a commitment, 2 resources, 5 tenants\nwith "
        f"budgets, a floor; gap {GAP:g}: CPU time, median of {len(seeds)} instances\n"
        "behind: HiGHS's value less ours, relative, the most",
        "values", "goal", "HiGHS", "ours", "times less", "at least", "behind",
    )  # fmt: skip
    every: list[Compared] = []
    for kind, samples in KINDS.items():
        for goal in GOALS:
            instances = [compare(of_goal(large(seed, queries, samples=samples), goal)) for seed in seeds]
            made.add_row(kind, goal, *_compared(instances))
            every += instances
    yield made
    ratios = [one.ratio for one in every]
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    yield (
        f"{len(every)} instances: {mean:,.0f} times less CPU time than HiGHS (geometric mean; wanted 20: "
        f"{_met(mean >= 20)}), {min(ratios):,.0f} at least (wanted 1: {_met(min(ratios) >= 1)}); gaps up to "
        f"{max(one.gap for one in every):.1e} ({_met(max(one.gap for one in every) <= GAP)}).\n"
    )


def _compared(instances: Sequence[Compared]) -> list[str]:
    ratios = [one.ratio for one in instances]
    return [
        shown(statistics.median(one.highs_seconds for one in instances)),
        shown(statistics.median(one.seconds for one in instances)),
        f"{statistics.median(ratios):,.0f}",
        f"{min(ratios):,.0f}",
        f"{max(one.behind for one in instances):.1e}",
    ]


def _met(so: bool) -> str:
    return "met" if so else "MISSED"


def measure_sizes() -> Table:
    """Solve programmes of several sizes, up to a million queries."""
    made = table(
        f"CPU time by size, gap {GAP:g}; peak: of the whole process, so far (wanted for a million: 30 s, 2 GB)",
        "queries", "values", "goal", "CPU", "gap proved", "GB, peak",
    )  # fmt: skip
    for n in (1_000, 10_000, 100_000, MILLION):
        for kind, samples in KINDS.items():
            for goal in GOALS:
                instance = of_goal(large(0, n, samples=samples), goal)
                seconds, solution = cpu(lambda one=instance: solved(one))  # type: ignore[misc]
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                made.add_row(f"{n:,}", kind, goal, shown(seconds), f"{solution.gap:.0e}", f"{peak:.2f}")
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """Half of a set's prompts to learn from as a plan, the other half to route: vectors, how right both models were,
    what both cost, in US dollars for a thousand prompts."""

    plan: PortfolioPlan
    vectors: Floats
    right: Floats
    tokens: Floats

    @property
    def costs(self) -> Floats:
        """What each prompt costs each model, (n, 2)."""
        return self.plan.costs_of(self.tokens.tolist())

    @classmethod
    def of(cls, name: str) -> "Prompts":
        """Read a set, and learn from a random half."""
        arrays = np.load(SHARED / f"{name}.npz", allow_pickle=False)
        vectors, right = arrays["embedding"].astype(np.float32), arrays["correct"].astype(np.float64)
        tokens = arrays["prompt_tokens"].astype(np.float64)
        names = ("mixtral", "gpt-4")
        by_token = [{"polynomial": [REPLY * price / 1000, price / 1000]} for price in PRICES]
        classifiers = [{"name": n, "quality": n, "cost": cost} for n, cost in zip(names, by_token, strict=True)]
        spec = {"kind": "trace", "unit": "USD/1000", "size": "tokens", "classifiers": classifiers}
        order = np.random.default_rng(0).permutation(len(right))
        learned, fresh = order[: len(order) // 2], order[len(order) // 2 :]
        columns = {**dict(zip(names, right[learned].T, strict=True)), "tokens": tokens[learned]}
        trace = Trace.from_columns(TraceSpec.model_validate(spec), columns, vectors[learned])
        plan = fit(trace, PortfolioOptions(), np.random.default_rng(0), Run()).plan
        return cls(plan, vectors[fresh].astype(np.float64), right[fresh], tokens[fresh])

    def single(self, wanted: float) -> list[int]:
        """Route each prompt on its own, by the budget at which the build reached so much."""
        chosen = []
        for vector, tokens in zip(self.vectors.tolist(), self.tokens.tolist(), strict=True):
            decision = self.plan.decide(RouteQuery(query=tuple(vector), size=tokens, min_accuracy=wanted))
            chosen.append(self.plan.classifiers.index(decision.classifier))
        return chosen

    def batch(self, estimates: Floats, **asked: object) -> list[int]:
        """Assign all as is asked."""
        known = {"queries": [[0.0]] * len(self.right), "sizes": self.tokens.tolist()}
        assigned = self.plan.assign(estimates, ConstrainedRequest.model_validate({**known, **asked}))
        return [self.plan.classifiers.index(name) for name in assigned.assignments]


def measure_savings(name: str) -> Table:
    """Keep 95 % of the strong model's accuracy, by what the build knows, and tell what came of it."""
    prompts = Prompts.of(name)
    strong = float(prompts.plan.curve_accuracies[prompts.plan.methods.index("single_best"), -1])
    estimates = prompts.plan.estimate(prompts.vectors)
    wanted, dearest = KEPT * strong, float(prompts.costs[:, 1].sum())
    made = table(
        f"{name}: {len(prompts.right):,} prompts that the build has not seen, costs by token with replies of {REPLY};"
        f" asked: {KEPT:.0%} of the strong model's accuracy",
        "routed", "accuracy, of the strong one's", "cost saved", "strong one's share",
    )  # fmt: skip
    rows: dict[str, Callable[[], list[int]]] = {
        "the strong model alone": lambda: [1] * len(prompts.right),
        "single queries": lambda: prompts.single(wanted),
        "a batch": lambda: prompts.batch(estimates, goal="cost", accuracy={"at_least": wanted}),
    }
    for share in CAPACITIES:
        capacity = {"gpt-4": {"at_most": {"share": share}}}
        label = f"a batch, the strong one at most {share:.0%}, as accurate as can be"
        rows[label] = lambda capacity=capacity: prompts.batch(estimates, classifiers=capacity)  # type: ignore[misc]
    at = np.arange(len(prompts.right))
    for label, route in rows.items():
        chosen = np.array(route(), dtype=np.int64)
        accuracy = prompts.right[at, chosen].mean() / prompts.right[:, 1].mean()
        saved = 1 - float(prompts.costs[at, chosen].sum()) / dearest
        made.add_row(label, f"{accuracy:.1%}", f"{saved:.1%}", f"{chosen.mean():.1%}")
    return made


def report() -> Iterator[Table | str]:
    """Measure all."""
    for name in ("routellm_mmlu", "routellm_gsm8k"):
        if (SHARED / f"{name}.npz").exists():
            yield measure_savings(name)
        else:
            yield f"{name}.npz is not in shared/data beside the repository: left out"
    yield measure_sizes()
    yield from compare_with_highs()
