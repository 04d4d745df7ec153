"""Features acquired against test error on letter, pima and spambase, every feature at a cost of 1.

Half of the rows are learned from, the other half is tested on. A fixed set is the same for all items: of up to ten
features the best of all sets of its size, else grown greedily, by cross-validated errors of the policy's own quick
classifiers; the classifiers that answer with it are those of the policy's states, so that what differs is acquisition.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import joblib
import numpy as np
from rich.table import Table

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.arrays import Bools, Floats
from models.policy import PolicyOptions
from solvers.item_splits import split_rows
from solvers.policy.classifier_training import TrainingRows, cut, train
from solvers.policy.node_classifiers import Classifiers, tree_inputs
from solvers.policy.piecewise_basis import Basis
from solvers.policy.sensors import Sensors
from solvers.row_repeats import hash_rows
from tests.bench._policy_gain import information_gain
from tests.bench._policy_staged import indexed, pipelines
from tests.bench._policy_traces import SHARED, built, test_on
from tests.bench._subset_scores import LeastSquares
from tests.bench.cascade import table

Reached = tuple[float, float]
"""Accuracy from 0 to 1, and the mean number of features acquired."""
Method = Callable[[FeatureTable, FeatureTable, Sequence[float], int], list[Reached]]
"""From the half to learn from, the half to test on, budgets and a seed to what was reached."""

NOTES = (
    "fixed set: the policy's own classifiers. gain, of information: naive Bayes chooses and stops, boosted trees "
    "answer. pipeline (its last stage answers all) and index: logistic regressions; the index on letter: linear "
    "discriminants on greedy sequences. It takes at most 20 features, so it is not there for spambase. -: the "
    "pipeline's search, a short one beyond 14 features, found nothing as cheap.\n"
)
"""What a reader of the tables needs to know."""
MOST_COMPARED = 10
"""Features whose every set is compared."""
MOST_INDEXED = 20


@dataclass(frozen=True, slots=True)
class Data:
    """file: in shared/data; budgets: mean counts of features; rows: how many are used, drawn at random; 0: all."""

    file: str
    budgets: tuple[float, ...]
    rows: int = 0


DATA = {
    "pima": Data("pima_diabetes.csv", (1, 2, 3, 4, 6)),
    "spambase": Data("spambase.csv", (2, 4, 8, 12, 20)),
    "letter": Data("letter.csv", (2, 4, 6, 8, 12), rows=3_000),
}


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What was reached on one data set. methods: by name (splits, budgets, 2), accuracy and features; whole: (splits,)
    accuracy with all features; rows: learned from; features: how many there are."""

    name: str
    methods: dict[str, Floats]
    whole: Floats
    rows: int
    features: int


def read(name: str) -> FeatureTable:
    """Read a data set whose label stands last."""
    data = DATA[name]
    path = SHARED / data.file
    if not path.exists():
        raise SystemExit(f"{data.file} is not in shared/data beside the repository; this part needs it")
    header, *lines = path.read_text().splitlines()
    cells = np.array([line.split(",") for line in lines])
    names = header.split(",")
    spec = {
        "kind": "features", "label": names[-1], "unit": "features",
        "features": [{"name": each, "columns": [each], "cost": 1.0} for each in names[:-1]],
    }  # fmt: skip
    columns = {each: cells[:, at].astype(np.float64) for at, each in enumerate(names[:-1])}
    dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, names[-1]: cells[:, -1]})
    assert isinstance(dataset, FeatureTable)
    return dataset


def halves(name: str, seed: int) -> tuple[FeatureTable, FeatureTable]:
    """Cut a data set, or some rows of it, at random, equal rows into the same half: to learn from, and to test on."""
    whole, rng = read(name), np.random.default_rng(seed)
    some = whole.take(np.sort(rng.permutation(whole.rows)[: DATA[name].rows or None]))
    learned, tested = split_rows(hash_rows(some.values.astype(np.float32)).astype(np.int64), [some.rows // 2], rng)
    return some.take(learned), some.take(tested)


def policy(learn: FeatureTable, test: FeatureTable, budgets: Sequence[float], seed: int) -> list[Reached]:
    """Build the policy as it is by default."""
    return test_on(built(learn, seed)[1], test, budgets)


def fixed(learn: FeatureTable, test: FeatureTable, budgets: Sequence[float], seed: int) -> list[Reached]:
    """Answer with the best set of each size."""
    rng = np.random.default_rng(seed)
    sensors = Sensors.of(learn)
    cells = sensors.cells(learn)
    parts = cut(learn.labels, learn.item_codes, PolicyOptions().folds, rng)
    training = TrainingRows(Basis.of(sensors, cells), cells, learn.labels, len(learn.classes), parts)
    sets = best_sets(LeastSquares.of(training).right, len(sensors.names), [int(budget) for budget in budgets])
    seeds = rng.integers(2**32, size=len(sets)).tolist()
    with joblib.parallel_config(backend="loky", n_jobs=-1, max_nbytes=None):
        members, _ = train(training, sets, PolicyOptions(), seeds, lambda done: None)
    classifiers, asked = Classifiers.of(training.basis, sets, members), sensors.cells(test)
    reached = []
    for at in range(len(sets)):
        answers = classifiers.answers(at, asked, tree_inputs(sensors, asked)).argmax(axis=1)
        reached.append((float((answers == test.labels).mean()), float(sets[at].sum())))
    return reached


def best_sets(right: Callable[[frozenset[int]], Bools], features: int, sizes: Sequence[int]) -> Bools:
    """Find for each size the set that answers most rows rightly, or what greedy growth finds for it: (S, n)."""
    grown = frozenset[int]()
    best = np.zeros((len(sizes), features), dtype=bool)
    for at, size in enumerate(sizes):
        if size == features:
            grown = frozenset(range(features))
        elif features <= MOST_COMPARED:
            grown = max(map(frozenset, combinations(range(features), size)), key=lambda each: right(each).mean())
        while len(grown) < size:
            rest = [grown | {f} for f in range(features) if f not in grown]
            grown = max(rest, key=lambda each: right(each).mean())
        best[at, sorted(grown)] = True
    return best


def methods_for(features: int) -> dict[str, Method]:
    """List the methods that so many features allow."""
    methods: dict[str, Method] = {
        "policy": policy,
        "fixed set": fixed,
        "gain": information_gain,
        "pipeline": pipelines,
    }
    if features <= MOST_INDEXED:
        methods["index"] = indexed
    return methods


def compare(name: str, splits: int) -> Compared:
    """Let every method learn one half and answer the other, for several splits."""
    reached: dict[str, list[list[Reached]]] = {}
    whole, budgets = [], DATA[name].budgets
    for seed in range(splits):
        learn, test = halves(name, seed)
        features = learn.values.shape[1]
        for method, run in methods_for(features).items():
            reached.setdefault(method, []).append(run(learn, test, budgets, seed))
        whole.append(fixed(learn, test, [features], seed)[0][0])
    return Compared(name, {k: np.array(v) for k, v in reached.items()}, np.array(whole), learn.rows, features)


def report(one: Compared) -> Iterator[Table | str]:
    """Print the table of a data set."""
    some = ", drawn at random" if DATA[one.name].rows else ""
    made = table(
        f"{one.name}: {one.rows:,} rows{some}, {one.features} features of cost 1; mean of {len(one.whole)} splits. "
        "Test error in %, and features acquired",
        "at most", *(f"{budget:g}" for budget in DATA[one.name].budgets),
    )  # fmt: skip
    for method, values in one.methods.items():
        cells = [f"{100 * (1 - a):.1f}; {count:.1f}" if np.isfinite(a) else "-" for a, count in values.mean(axis=0)]
        made.add_row(method, *cells)
    yield made
    yield f"All {one.features} features: error {100 * (1 - one.whole.mean()):.1f} %.\n"
