"""Small problems that the tests of the policy kind share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models import FeaturesSpec, FeatureTable, Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Int64s
from models.policy import PolicyOptions, PolicyQuery
from models.policy_curves import RolloutItem
from solvers import KINDS, BuildContext
from solvers.kind import RunContext
from solvers.policy import PolicyPlan, fit
from solvers.running import Runner
from tests.support.samples import FEATURES_SPEC, TRACE_SPEC, feature_columns, trace_columns

QUICK = PolicyOptions(points=5, folds=2, trees=8)
"""Options with few trees."""
EXPERTS = ("north", "south", "both")


def halves(rows: int, seed: int, dimensions: int = 3) -> Trace:
    """Draw a trace of two experts, each right about its own half of the items and guessing in the other, and a dear one
    that is right about both; only the embedding tells the half, in the first place after noise."""
    rng = np.random.default_rng(seed)
    label, half = rng.integers(4, size=rows), rng.integers(2, size=rows)
    guess = rng.integers(4, size=(rows, 2))
    columns: dict[str, Any] = {"label": label, "both": np.where(rng.random(rows) < 0.97, label, guess[:, 0])}
    for place, name in enumerate(EXPERTS[:2]):
        columns[name] = np.where((half == place) & (rng.random(rows) < 0.97), label, guess[:, place])
    embeddings = 0.3 * rng.normal(size=(rows, dimensions))
    embeddings[:, 0] += 2.0 * half
    classifiers = [
        {"name": name, "cost": cost, "prediction": name} for name, cost in zip(EXPERTS, (1.0, 1.0, 4.0), strict=True)
    ]
    spec = {"kind": "trace", "label": "label", "unit": "ms", "classifiers": classifiers}
    made = dataset_from_columns(TraceSpec.model_validate(spec), columns, embeddings.astype(np.float32))
    assert isinstance(made, Trace)
    return made


def trace(rows: int = 400, seed: int = 0) -> Trace:
    """Make the sample trace: three classifiers, the third with measured costs and no confidence."""
    columns = {name: np.array(values) for name, values in trace_columns(rows, seed).items()}
    dataset = dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), columns)
    assert isinstance(dataset, Trace)
    return dataset


def ladder(rows: int, prices: Sequence[float], seed: int = 0) -> Trace:
    """Draw a trace of three classes whose classifiers are the better the dearer they are, right from twelve to
    nineteen times in twenty, and say how sure they are."""
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=rows)
    columns: dict[str, Any] = {"label": label}
    for place, chance in enumerate(np.linspace(0.6, 0.95, len(prices))):
        sure = np.clip(rng.normal(chance, 0.15, rows), 0, 1)
        right = rng.random(rows) < sure
        columns |= {f"p{place}": np.where(right, label, (label + 1) % 3), f"c{place}": sure}
    classifiers = [
        {"name": f"m{place}", "cost": price, "prediction": f"p{place}", "confidence": f"c{place}"}
        for place, price in enumerate(prices)
    ]
    spec = {"kind": "trace", "label": "label", "unit": "ms", "classifiers": classifiers}
    dataset = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    assert isinstance(dataset, Trace)
    return dataset


def features(rows: int = 300, seed: int = 0) -> FeatureTable:
    """Make the sample table: three features in four columns, two of them with costs that depend on a size."""
    columns = {name: np.array(values) for name, values in feature_columns(rows, seed).items()}
    dataset = dataset_from_columns(FeaturesSpec.model_validate(FEATURES_SPEC), columns)
    assert isinstance(dataset, FeatureTable)
    return dataset


def many_features(sensors: int, rows: int = 300, seed: int = 0, **extra: Any) -> FeatureTable:
    """Make a table of features of one column and cost 1 each, the first ones the more telling."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, rows)
    columns: dict[str, Any] = {f"f{m}": label / (m + 1) + 0.5 * rng.normal(size=rows) for m in range(sensors)}
    spec = {
        "kind": "features",
        "label": "label",
        "unit": "ms",
        "features": [{"name": name, "columns": [name], "cost": 1.0} | extra for name in columns],
    }
    dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, "label": label})
    assert isinstance(dataset, FeatureTable)
    return dataset


def table_of(values: Floats, labels: Int64s, costs: Sequence[float] | None = None) -> FeatureTable:
    """Make a table of features of one column each, (n, M), at a cost of 1 or as given."""
    prices = [1.0] * values.shape[1] if costs is None else costs
    spec = {
        "kind": "features",
        "label": "label",
        "unit": "ms",
        "features": [{"name": f"f{m}", "columns": [f"f{m}"], "cost": cost} for m, cost in enumerate(prices)],
    }
    columns: dict[str, Any] = {f"f{m}": column for m, column in enumerate(values.T)}
    dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, "label": labels})
    assert isinstance(dataset, FeatureTable)
    return dataset


def cube_nm(rows: int, seed: int = 0, *, contexts: int = 5, block: int = 10, noise: float = 0.1) -> FeatureTable:
    """Draw CUBE-NM: a context, one-hot with noise, says which block of features tells the class, one of eight, by its
    first three, a bit each with noise; all others are noise around 0.5. The context alone is worth nothing; all is told
    by contexts + 2 features at most, and by less on average."""
    rng = np.random.default_rng(seed)
    labels, context = rng.integers(8, size=rows), rng.integers(contexts, size=rows)
    context_columns = np.eye(contexts)[context] + rng.normal(0, noise, (rows, contexts))
    blocks = rng.normal(0.5, 0.3, (rows, contexts, block))
    blocks[np.arange(rows), context, :3] = (labels[:, None] >> np.arange(3) & 1) + rng.normal(0, noise, (rows, 3))
    return table_of(np.concatenate([context_columns, blocks.reshape(rows, -1)], axis=1), labels)


def priced_context(rows: int, seed: int = 0) -> FeatureTable:
    """Draw a table whose one cheap feature says which of four dear ones tells the class, right 19 times in 20; eight
    more tell nothing. The best within 2.5 is the cheap one, 0.5, and the right dear one, 2."""
    rng = np.random.default_rng(seed)
    labels, context = rng.integers(2, size=rows), rng.integers(4, size=rows)
    values = rng.integers(2, size=(rows, 13)).astype(np.float64)
    values[:, 0] = context
    values[np.arange(rows), 1 + context] = np.where(rng.random(rows) < 0.95, labels, 1 - labels)
    return table_of(values, labels, [0.5, *[2.0] * 4, *[1.0] * 8])


def dear_sensor(rows: int, seed: int = 0) -> FeatureTable:
    """Draw a table whose dear feature, for 3, is right 19 times in 20; two for 1.45 each tell the class together, right
    9 times in 10, by being unlike, and nothing alone; six for next to nothing tell nothing."""
    rng = np.random.default_rng(seed)
    values, labels = rng.integers(2, size=(rows, 9)).astype(np.float64), rng.integers(2, size=rows)
    values[:, 0] = np.where(rng.random(rows) < 0.95, labels, 1 - labels)
    values[:, 2] = np.where(rng.random(rows) < 0.9, labels, 1 - labels) != values[:, 1]
    return table_of(values, labels, [3.0, 1.45, 1.45, *[0.05] * 6])


def steep(rows: int, seed: int = 0) -> FeatureTable:
    """Draw a table of eight features, each half as dear again as the last one and three fifths more telling."""
    rng = np.random.default_rng(seed)
    labels, tells = rng.integers(2, size=rows), np.minimum(0.35 * 1.6 ** np.arange(8), 4)
    return table_of(rng.normal(size=(rows, 8)) + np.outer(labels, tells), labels, (1.5 ** np.arange(8)).tolist())


def telling_but_dear(rows: int, seed: int = 0) -> FeatureTable:
    """Draw a table of nine features: one for 20 is right 19 times in 20, three for 5 to 8 about 4 times in 5, each by
    itself, others hardly."""
    rng = np.random.default_rng(seed)
    labels, rights = rng.integers(2, size=rows), np.array([0.95, 0.82, 0.8, 0.78, 0.6, 0.58, 0.5, 0.5, 0.5])
    values = np.where(rng.random((rows, 9)) < rights, labels[:, None], 1 - labels[:, None]) + rng.normal(
        0, 0.05, (rows, 9)
    )
    return table_of(values, labels, [20.0, 5.1, 8.0, 6.9, 1.4, 2.3, 1.1, 3.0, 2.5])


def one_telling(rows: int, seed: int = 0) -> FeatureTable:
    """Draw a table of eight features of equal cost, the first of which tells nearly all, and two others most of it."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=rows)
    return table_of(rng.normal(size=(rows, 8)) + np.outer(labels, [4.0, 1.5, 1.5, *[0.0] * 5]), labels)


def exclusive_or(rows: int, seed: int = 0) -> FeatureTable:
    """Draw a table in which two of fourteen features tell the class together, right 19 times in 20, by being unlike:
    neither is worth anything alone, and nothing else is ever."""
    rng = np.random.default_rng(seed)
    values = rng.integers(2, size=(rows, 14)).astype(np.float64)
    unlike = (values[:, 4] != values[:, 9]).astype(np.int64)
    return table_of(values, np.where(rng.random(rows) < 0.95, unlike, 1 - unlike))


def build(dataset: FeatureTable | Trace, options: PolicyOptions = QUICK, seed: int = 0) -> PolicyPlan:
    """Fit a policy in this process."""
    return fit(dataset, options, np.random.default_rng(seed), BuildContext()).plan


def items_of(dataset: FeatureTable | Trace) -> list[RolloutItem]:
    """Write complete items as a caller would."""
    items = []
    for row in range(dataset.rows):
        sensors: dict[str, Any] = {}
        at = 0
        if isinstance(dataset, Trace):
            for j, classifier in enumerate(dataset.spec.classifiers):
                label = dataset.classes[dataset.predictions[row, j]]
                sure = dataset.confidences[row, j]
                sensors[classifier.name] = label if np.isnan(sure) else (label, float(sure))
        else:
            for feature in dataset.spec.features:
                width = len(feature.columns)
                sensors[feature.name] = tuple(dataset.values[row, at : at + width].tolist())
                at += width
        items.append(RolloutItem(item=f"item-{row}", sensors=sensors))
    return items


def start_policy(plan: Any, query: PolicyQuery, *, left: float, excluded: frozenset[str] = frozenset()) -> Runner:
    """Decide for an item, and begin its run."""
    context = RunContext(remaining_seconds=left, unavailable=excluded)
    return KINDS["policy"].start_run(plan, query, context).runner
