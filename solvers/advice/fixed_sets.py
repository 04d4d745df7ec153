"""Fixed sets of features as simple alternatives: what a person would try who had no method."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from models import Dataset, FeatureTable
from models.arrays import Floats, Int32s, Int64s
from solvers.learners.table_preparation import Preparation
from solvers.policy.sensors import Sensors
from solvers.savings import Replay, set_name

MAX_SINGLE = 8
"""Features that are tried alone."""
MAX_PREFIXES = 6
"""Sets of the cheapest, and of the most useful, features that are tried, from one feature to all."""


def replay_fixed_sets(
    learned: FeatureTable, fresh: FeatureTable, costs: Floats, seed: int, report: Callable[[int, int], None]
) -> dict[str, Replay]:
    """Train a regression and boosted trees on each of some fixed sets, on the rows of one table, and ask them about
    those of another. costs: (n, M) what each feature costs for each row of the other; report: told how many of how many
    sets are done.

    Sets: no feature, single ones, the cheapest so many, the most useful so many (by a forest on all), all.
    """
    preparation = Preparation.fit(learned.values, _categorical(learned))
    table, asked = preparation.apply(learned.values), preparation.apply(fresh.values)
    sensors = Sensors.from_dataset(learned)
    owners, names = np.repeat(sensors.value_owners, preparation.widths), sensors.names
    useful = _by_use(table, learned.labels, owners, seed)
    sets = _sets(useful, np.argsort(costs.mean(axis=0), kind="stable"))
    answered = replay_most_common(learned, fresh)
    for done, (members, otherwise) in enumerate(sets.items()):
        report(done, len(sets))
        columns, price = np.isin(owners, members), costs[:, list(members)].sum(axis=1)
        called = otherwise if len(members) == len(names) else set_name([names[f] for f in members], otherwise)
        for how, labels in _answers(table[:, columns], learned.labels, asked[:, columns], seed):
            answered[f"{called}{how}"] = Replay(np.equal(labels, fresh.labels).astype(np.float64), price)
    return answered


def replay_most_common(learned: Dataset, fresh: Dataset) -> dict[str, Replay]:
    """Name the answer that costs nothing: the most common class of the rows learned from, for every fresh one."""
    common = np.equal(fresh.labels, np.bincount(learned.labels).argmax())
    return {set_name([], ""): Replay(common.astype(np.float64), np.zeros(fresh.rows))}


def _categorical(dataset: FeatureTable) -> Any:
    return np.array([len(names) > 0 for names in dataset.categories], dtype=np.bool_)


def _by_use(table: Floats, labels: Any, owners: Int32s, seed: int) -> Int64s:
    """Order features by what a forest makes of them, the most useful first."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=3, random_state=seed).fit(table, labels)
    return np.argsort(-np.bincount(owners, weights=forest.feature_importances_), kind="stable")


def _sets(useful: Int64s, cheapest: Int64s) -> dict[tuple[int, ...], str]:
    """Choose sets of features: what each is called if it has many."""
    n = len(useful)
    sets: dict[tuple[int, ...], str] = {(feature,): "" for feature in useful[:MAX_SINGLE].tolist()}
    for count in np.unique(np.geomspace(1, n, min(n, MAX_PREFIXES)).round().astype(int)).tolist():
        sets.setdefault(tuple(sorted(cheapest[:count].tolist())), f"the {count} cheapest features")
        sets.setdefault(tuple(sorted(useful[:count].tolist())), f"the {count} most useful features")
    return sets | {tuple(range(n)): "all features"}


def _answers(table: Floats, labels: Any, asked: Floats, seed: int) -> Iterator[tuple[str, Sequence[Any]]]:
    """Train, and ask: what the learner is called in a name, and its answers."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    with threadpool_limits(1, user_api="blas"):
        yield "", LogisticRegression(max_iter=1000).fit(table, labels).predict(asked)
    boosted = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    yield " (boosted trees)", boosted.fit(table, labels).predict(asked)
