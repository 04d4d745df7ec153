"""A world of items to build from and to replay on: what a service said of its decisions, and what came true."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from app.processes.clock import current_timestamp
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import decision_facts
from models import ArtifactRecord, ArtifactRef, Dataset, FeaturesSpec, TraceSpec, Value
from models.arrays import Bools, Floats
from models.cascade import CascadeQuery
from models.dataset import dataset_from_columns
from models.index import IndexQuery
from models.pipeline import PipelineQuery
from models.policy import PolicyTarget
from models.portfolio import AssignmentOptions
from models.savings import Interval
from solvers import KINDS, BuildContext
from solvers.index.plan import IndexPlan
from solvers.policy.plan import PolicyPlan
from solvers.portfolio.plan import PortfolioPlan

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
    def of(cls, seed: int, rows: int, noises: Sequence[float] = NOISES) -> "World":
        """Draw rows, from numbers that a build of the same seed does not draw, too. noises: how blurred each feature
        shows the class."""
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
        seen = labels[:, None] + np.array(noises) * rng.normal(size=(rows, len(noises)))
        shown = {f"x{k}": seen[:, k] for k in range(len(noises))}
        embeddings = np.column_stack((hardness + 0.1 * rng.normal(size=rows), rng.normal(size=rows)))
        features = {"label": CLASSES[labels], **shown}
        return cls(trace, features, embeddings.astype(np.float32), correct, confidences, costs)

    def dataset(self, kind: str, *, measured: bool = False, table: bool = False) -> Dataset:
        """Give it as a kind takes it; measured: whether each answer of a classifier has a cost of its own; table:
        whether a table of features is to be given to who takes a trace, too."""
        if table or kind in ("index", "pipeline"):
            names = [name for name in self.features if name != "label"]
            features = [
                {"name": name, "cost": COSTS[k % len(COSTS)], "columns": [name]} for k, name in enumerate(names)
            ]
            spec = {"kind": "features", "label": "label", "unit": "ms", "features": features}
            return dataset_from_columns(FeaturesSpec.model_validate(spec), self.features)
        classifiers: list[dict[str, Any]] = [
            {"name": name, "cost": cost, "prediction": f"{name}_says", "confidence": f"{name}_sure"}
            for name, cost in zip(NAMES, COSTS, strict=True)
        ]
        for one in classifiers if measured else ():
            one["cost"] = {"column": f"{one['name']}_ms"}
        told = {"kind": "trace", "label": "label", "unit": "ms", "classifiers": classifiers}
        return dataset_from_columns(TraceSpec.model_validate(told), self.trace, self.embeddings)

    @cached_property
    def feature_items(self) -> list[dict[str, Any]]:
        return self.items(self.features)

    def items(self, columns: dict[str, Any]) -> list[dict[str, Any]]:
        names = [name for name in columns if name != "label"]
        return [dict(zip(names, row, strict=True)) for row in zip(*(columns[n].tolist() for n in names), strict=True)]


def built(kind: str, dataset: Dataset, seed: int = 0, **params: Any) -> LoadedArtifact[Any]:
    options = KINDS[kind].options.model_validate(params)
    fitted = KINDS[kind].fit(dataset, options, np.random.default_rng(seed), BuildContext())
    ref = ArtifactRef(kind=kind, name="plan", version=1)
    facts: dict[str, Any] = {
        "dataset": "d",
        "params": {},
        "seed": seed,
        "created_at": current_timestamp(),
        "sha256": "0",
        "bytes": 0,
    }
    told: dict[str, Any] = {"unit": dataset.spec.unit, "summary": fitted.summary, "savings": fitted.savings}
    record = ArtifactRecord(**dict(ref), **facts, **told)
    return LoadedArtifact.from_record(record, fitted.plan)


class Replayed(NamedTuple):
    """What was said of a decision: the quantity, where it was said to lie, what came true, and what was said."""

    quantity: str
    interval: Interval
    true: float
    said: float


QUERIES: dict[str, tuple[Value, ...]] = {
    "cascade": (CascadeQuery(), CascadeQuery(budget=2.5), CascadeQuery(budget=6.0)),
    "index": tuple(IndexQuery(budget=budget) for budget in (1.0, 4.0, 14.0)),
    "portfolio": tuple(AssignmentOptions(budget=budget) for budget in (1.5, 3.0, 6.0)),
    "pipeline": (PipelineQuery(),),
    "policy": tuple(PolicyTarget(budget=budget) for budget in (1.5, 4.0)),
}
"""What is asked of each kind."""


def replay_cascade(loaded: LoadedArtifact[Any], fresh: World, query: CascadeQuery) -> list[Replayed]:
    decision = loaded.plan.decide(query)
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
    paid = "time" if query.budget is None and query.min_accuracy is None else "cost"
    return _held(loaded, query, decision, accuracy=right, **{paid: times})


@lru_cache(maxsize=64)
def _labels(plan: IndexPlan, features: tuple[str, ...], fresh: World) -> Any:
    return np.array(plan.predict(features, fresh.feature_items).labels)


def replay_index(loaded: LoadedArtifact[Any], fresh: World, query: IndexQuery) -> list[Replayed]:
    decision = loaded.plan.decide(query)
    labels = _labels(loaded.plan, decision.features, fresh)
    return _held(loaded, query, decision, accuracy=labels == fresh.features["label"])


@lru_cache(maxsize=1)
def _estimates(plan: PortfolioPlan, fresh: World) -> Floats:
    return plan.estimate(fresh.embeddings)


def replay_portfolio(loaded: LoadedArtifact[Any], fresh: World, query: AssignmentOptions) -> list[Replayed]:
    """Assign fresh queries as a batch, with the costs expected of their embeddings, as the service does."""
    costs = loaded.plan.predict_costs(fresh.embeddings)
    assigned = loaded.plan.assign(_estimates(loaded.plan, fresh), query, expected_costs=costs)
    rows, places = np.arange(len(fresh.correct)), [NAMES.index(name) for name in assigned.assignments]
    right, costs = fresh.correct[rows, places], fresh.costs[rows, places]
    return _held(loaded, query, assigned, accuracy=right, cost=costs)


def replay_pipeline(loaded: LoadedArtifact[Any], fresh: World, query: PipelineQuery) -> list[Replayed]:
    """Send fresh items through a configuration; accuracy is of accepted answers."""
    decision = loaded.plan.decide(query)
    steps = loaded.plan.next_steps(decision.solution, fresh.feature_items)
    labels = np.array([getattr(step, "label", "") for step in steps])
    accepted = labels != ""
    paid = np.cumsum([stage.cost for stage in decision.stages])[[step.stage for step in steps]]
    right = labels[accepted] == fresh.features["label"][accepted]
    return _held(loaded, query, decision, accuracy=right, coverage=accepted, cost=paid)


@lru_cache(maxsize=1)
def _cells(plan: PolicyPlan, fresh: World, is_table: bool) -> Floats:
    return plan.cells_of(fresh.dataset("policy", table=is_table))


def replay_policy(loaded: LoadedArtifact[Any], fresh: World, target: PolicyTarget) -> list[Replayed]:
    """Roll fresh items out, of which a trace says what each answer cost, and a table what a feature costs."""
    plan: PolicyPlan = loaded.plan
    is_table = plan.sensors[0] not in NAMES
    cells = _cells(plan, fresh, is_table)
    costs = np.broadcast_to(plan.costs, (len(cells), len(plan.costs))) if is_table else fresh.costs
    walked = plan.run(cells, [str(at) for at in range(len(cells))], target)
    right = np.array(plan.classes)[walked.labels] == fresh.trace["label"]
    asked = plan.members[walked.walks.ends]
    return _held(loaded, target, walked, accuracy=right, cost=(asked * costs).sum(axis=1))


REPLAYS: dict[str, Callable[[LoadedArtifact[Any], World, Any], list[Replayed]]] = {
    "cascade": replay_cascade,
    "index": replay_index,
    "portfolio": replay_portfolio,
    "pipeline": replay_pipeline,
    "policy": replay_policy,
}


def _held(loaded: LoadedArtifact[Any], query: Any, decision: Any, **came_true: Any) -> list[Replayed]:
    """Hold what was said of each quantity against what came true of fresh items, (n,)."""
    expected = decision_facts(loaded, query, decision)["expected"]
    return [
        Replayed(name, expected[f"{name}_interval"], float(np.mean(true)), expected[name])
        for name, true in came_true.items()
        if f"{name}_interval" in expected
    ]
