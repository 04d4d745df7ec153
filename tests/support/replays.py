"""A world of items to build from and to replay on: what a service said of its decisions, and what came true."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from app.clock import now
from app.serving.answers import facts_of
from app.serving.catalog import Live
from models import ArtifactRecord, ArtifactRef, Dataset, FeaturesSpec, TraceSpec
from models.arrays import Bools, Floats
from models.cascade import CascadeQuery
from models.dataset import dataset_from_columns
from models.index import IndexQuery
from models.pipeline import PipelineQuery
from models.policy import PolicyTarget, RolloutItem
from models.portfolio import AssignmentOptions, Budget
from models.worth import Interval
from solvers import SOLVERS, Run

CLASSES = np.array(["a", "b", "c"])
NAMES = ("fast", "middle", "strong")
COSTS = (1.0, 3.0, 10.0)
"""What classifiers and features cost; measured, a classifier's answer takes up to half more, the harder the item."""
SKILLS = ((0.95, 0.45), (0.95, 0.7), (0.97, 0.9))
"""How often each classifier is right about the easiest items, and about the hardest."""
NOISES = (1.2, 0.9, 0.7)
"""How blurred each feature shows the class."""


@dataclass(frozen=True, eq=False)
class World:
    """Rows drawn from one distribution: as a trace with embeddings, or as a table of features."""

    trace: dict[str, Any]
    features: dict[str, Any]
    embeddings: Any
    correct: Bools
    confidences: Floats
    costs: Floats

    @classmethod
    def of(cls, seed: int, rows: int) -> "World":
        """Draw rows, from numbers that a build of the same seed does not draw, too."""
        rng = np.random.default_rng((seed, rows))
        labels, hardness = rng.integers(3, size=rows), rng.random(rows)
        chances = np.column_stack([easy + (hard - easy) * hardness for easy, hard in SKILLS])
        correct = rng.random((rows, 3)) < chances
        confidences = np.clip(chances + 0.15 * rng.normal(size=(rows, 3)), 0.01, 0.99)
        costs = np.array(COSTS) * (1 + 0.5 * hardness[:, None] * rng.random((rows, 3)))
        says = np.where(correct, labels[:, None], (labels[:, None] + 1) % 3)
        trace: dict[str, Any] = {"label": CLASSES[labels]}
        for k, name in enumerate(NAMES):
            trace |= {f"{name}_says": CLASSES[says[:, k]], f"{name}_sure": confidences[:, k], f"{name}_ms": costs[:, k]}
        shown = {f"x{k}": labels + noise * rng.normal(size=rows) for k, noise in enumerate(NOISES)}
        embeddings = np.column_stack((hardness + 0.1 * rng.normal(size=rows), rng.normal(size=rows)))
        features = {"label": CLASSES[labels], **shown}
        return cls(trace, features, embeddings.astype(np.float32), correct, confidences, costs)

    def dataset(self, solver: str, *, measured: bool = False) -> Dataset:
        """Give it as a solver takes it; measured: whether each answer of a classifier has a cost of its own."""
        if solver in ("index", "pipeline"):
            features = [{"name": f"x{k}", "cost": cost, "columns": [f"x{k}"]} for k, cost in enumerate(COSTS)]
            spec = {"kind": "features", "label": "label", "unit": "ms", "features": features}
            return dataset_from_columns(FeaturesSpec.model_validate(spec), self.features)
        classifiers = [
            {
                "name": name,
                "cost": {"column": f"{name}_ms"} if measured else cost,
                "prediction": f"{name}_says",
                "confidence": f"{name}_sure",
            }
            for name, cost in zip(NAMES, COSTS, strict=True)
        ]
        trace_spec = TraceSpec.model_validate(
            {"kind": "trace", "label": "label", "unit": "ms", "classifiers": classifiers}
        )
        return dataset_from_columns(trace_spec, self.trace, self.embeddings)

    def items(self, columns: dict[str, Any]) -> list[dict[str, Any]]:
        """Give rows as callers send them."""
        names = [name for name in columns if name != "label"]
        return [dict(zip(names, row, strict=True)) for row in zip(*(columns[n].tolist() for n in names), strict=True)]


def built(solver: str, dataset: Dataset, seed: int = 0, **params: Any) -> Live[Any]:
    """Fit a plan in this process, as if it had been published."""
    options = SOLVERS[solver].options.model_validate(params)
    fitted = SOLVERS[solver].fit(dataset, options, np.random.default_rng(seed), Run())
    ref = ArtifactRef(solver=solver, name="plan", version=1)
    record = ArtifactRecord(
        **dict(ref),
        dataset="d",
        params={},
        seed=seed,
        unit=dataset.spec.unit,
        summary=fitted.summary,
        worth=fitted.worth,
        created_at=now(),
        sha256="0",
        bytes=0,
    )
    return Live(record, ref, fitted.plan)


class Replayed(NamedTuple):
    """What was said of a decision: the quantity, where it was said to lie, and what came true."""

    quantity: str
    interval: Interval
    true: float


def replay_cascade(live: Live[Any], fresh: World) -> list[Replayed]:
    """Walk fresh rows through the cascade without a deadline, and through those within costs."""
    replayed = _walked(live, CascadeQuery(), fresh, "time")
    return replayed + [one for most in (2.5, 6.0) for one in _walked(live, CascadeQuery(max_cost=most), fresh, "cost")]


def _walked(live: Live[Any], query: CascadeQuery, fresh: World, paid: str) -> list[Replayed]:
    decision = live.plan.decide(query)
    n = len(fresh.correct)
    right, waiting, times = np.zeros(n, dtype=bool), np.ones(n, dtype=bool), np.zeros(n)
    for step in decision.steps:
        k = NAMES.index(step.classifier)
        sure = (
            np.ones_like(waiting)
            if step.confidence_threshold is None
            else fresh.confidences[:, k] >= step.confidence_threshold
        )
        times += waiting * fresh.costs[:, k]
        right |= waiting & sure & fresh.correct[:, k]
        waiting &= ~sure
    return _held(live, query, decision, accuracy=right, **{paid: times})


def replay_index(live: Live[Any], fresh: World) -> list[Replayed]:
    """Predict fresh items within budgets; what features cost is known exactly."""
    replayed = []
    for budget in (1.0, 4.0, 14.0):
        query = IndexQuery(budget=budget)
        decision = live.plan.decide(query)
        labels = live.plan.predict(decision, fresh.items(fresh.features)).labels
        replayed += _held(live, query, decision, accuracy=np.array(labels) == fresh.features["label"])
    return replayed


def replay_portfolio(live: Live[Any], fresh: World) -> list[Replayed]:
    """Assign fresh queries within budgets."""
    replayed, estimates = [], live.plan.estimate(fresh.embeddings)
    for budget in (1.5, 3.0, 6.0):
        options = AssignmentOptions(budget=Budget(per_query=budget))
        assigned = live.plan.assign(estimates, options)
        rows, places = np.arange(len(estimates)), [NAMES.index(name) for name in assigned.assignments]
        right, costs = fresh.correct[rows, places], fresh.costs[rows, places]
        replayed += _held(live, options, assigned, accuracy=right, cost=costs)
    return replayed


def replay_pipeline(live: Live[Any], fresh: World) -> list[Replayed]:
    """Send fresh items through the usual configuration; accuracy is of accepted answers."""
    decision = live.plan.decide(PipelineQuery())
    steps = live.plan.steps(live.plan.solution(None), fresh.items(fresh.features))
    labels = np.array([getattr(step, "label", "") for step in steps])
    accepted = labels != ""
    paid = np.cumsum([stage.cost for stage in decision.stages])[[step.stage for step in steps]]
    right = labels[accepted] == fresh.features["label"][accepted]
    return _held(live, PipelineQuery(), decision, accuracy=right, coverage=accepted, cost=paid)


def replay_policy(live: Live[Any], fresh: World) -> list[Replayed]:
    """Roll fresh items out within budgets."""
    answers = [
        RolloutItem.model_validate(
            {"item": str(at), "sensors": {name: [row[f"{name}_says"], row[f"{name}_sure"]] for name in NAMES}}
        )
        for at, row in enumerate(fresh.items(fresh.trace))
    ]
    replayed = []
    for budget in (1.5, 4.0):
        target = PolicyTarget(budget=budget)
        walked = live.plan.rollouts(answers, target)
        right = np.array([item.label for item in walked.items]) == fresh.trace["label"]
        asked = np.array([[name in item.path for name in NAMES] for item in walked.items])
        replayed += _held(live, target, walked, accuracy=right, cost=(asked * fresh.costs).sum(axis=1))
    return replayed


REPLAYS: dict[str, Callable[[Live[Any], World], list[Replayed]]] = {
    "cascade": replay_cascade,
    "index": replay_index,
    "portfolio": replay_portfolio,
    "pipeline": replay_pipeline,
    "policy": replay_policy,
}


def _held(live: Live[Any], query: Any, decision: Any, **came_true: Any) -> list[Replayed]:
    """Hold what was said of each quantity against what came true of fresh items, (n,)."""
    expected = facts_of(live, query, decision)["expected"]
    return [Replayed(name, expected[f"{name}_interval"], float(np.mean(true))) for name, true in came_true.items()]
