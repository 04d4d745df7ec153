"""Simple baselines for feature tables: classifiers on fixed feature sets."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from models import Dataset, FeatureTable
from models.arrays import Floats, Int32s, Int64s
from models.losses import Losses
from parsimony.runs.steps import REJECT
from solvers.learners.table_preparation import Preparation
from solvers.policy.sensors import Sensors
from solvers.savings import Replay, name_feature_set
from solvers.setup_groups import SetupGroups

MAX_SINGLE = 8
"""Maximum number of single features."""
MAX_CHEAPEST_BASELINES = 6
"""Maximum number of sets of the cheapest, and of the most important, features."""


def replay_fixed_sets(
    learned: FeatureTable, unseen: FeatureTable, costs: Floats, seed: int, report: Callable[[int, int], None]
) -> dict[str, Replay]:
    """Train logistic regression and boosted trees on fixed feature sets, and replay them on unseen rows.

    Sets: no feature, each single feature, the cheapest features, the most important features (by a random forest), and
    all features.

    Args:
        costs: (n, M + G), cost of each feature, then of each set-up group, for each unseen row.
        report: receives the number of finished sets and the total.
    """
    preparation = Preparation.fit(learned.values, _categorical(learned))
    table, unseen_table = preparation.apply(learned.values), preparation.apply(unseen.values)
    sensors = Sensors.from_dataset(learned)
    owners, names = np.repeat(sensors.value_owners, preparation.widths), sensors.names
    important = _rank_by_importance(table, learned.labels, owners, seed)
    groups, every = SetupGroups.from_spec(learned.spec), np.arange(len(names))
    sets = _choose_sets(important, groups.order_by_cost(costs.mean(axis=0)))
    replays = replay_most_common(learned, unseen)
    for done, (members, long_name) in enumerate(sets.items()):
        report(done, len(sets))
        columns, paid = np.isin(owners, members), groups.append_groups(np.isin(every, members))
        price = costs[:, paid].sum(axis=1)
        name = long_name if len(members) == len(names) else name_feature_set([names[f] for f in members], long_name)
        for suffix, probabilities in _predict(table[:, columns], learned.labels, unseen_table[:, columns], seed):
            replays[f"{name}{suffix}"] = Replay(_losses(learned).grade_answers(probabilities, unseen.labels), price)
    return replays


def replay_most_common(learned: Dataset, unseen: Dataset) -> dict[str, Replay]:
    """Return the free baseline: every unseen row gets the same answer.

    The answer is the most common class of the training rows or, with losses, the one of least loss, or a reject.
    """
    losses = _losses(learned)
    shares = np.bincount(learned.labels, minlength=len(losses.matrix)) / learned.rows
    right = losses.grade_answers(np.tile(shares, (unseen.rows, 1)), unseen.labels)
    answer = int(losses.choose(shares[None])[0][0])
    rejects = losses.rejects and answer == losses.matrix.shape[1] - 1
    name = f"always {REJECT}" if rejects else name_feature_set([], "")
    return {name: Replay(right, np.zeros(unseen.rows))}


def _losses(dataset: Dataset) -> Losses:
    return dataset.losses or Losses.zero_one(len(dataset.classes))


def _categorical(dataset: FeatureTable) -> Any:
    return np.array([len(names) > 0 for names in dataset.categories], dtype=np.bool_)


def _rank_by_importance(table: Floats, labels: Any, owners: Int32s, seed: int) -> Int64s:
    """Order features by their importance in a random forest, the most important first."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=3, random_state=seed).fit(table, labels)
    return np.argsort(-np.bincount(owners, weights=forest.feature_importances_), kind="stable")


def _choose_sets(important: Int64s, cheapest: Int64s) -> dict[tuple[int, ...], str]:
    """Return the fixed feature sets by name; long names are shortened."""
    n = len(important)
    sets: dict[tuple[int, ...], str] = {(feature,): "" for feature in important[:MAX_SINGLE].tolist()}
    for count in np.unique(np.geomspace(1, n, min(n, MAX_CHEAPEST_BASELINES)).round().astype(int)).tolist():
        sets.setdefault(tuple(sorted(cheapest[:count].tolist())), f"the {count} cheapest features")
        sets.setdefault(tuple(sorted(important[:count].tolist())), f"the {count} most useful features")
    return sets | {tuple(range(n)): "all features"}


def _predict(table: Floats, labels: Int32s, unseen: Floats, seed: int) -> Iterator[tuple[str, Floats]]:
    """Yield the name suffix and the class probabilities, (n, C), of each learner."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    with threadpool_limits(1, user_api="blas"):
        yield "", _probabilities(LogisticRegression(max_iter=1000).fit(table, labels), unseen)
    boosted = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    yield " (boosted trees)", _probabilities(boosted.fit(table, labels), unseen)


def _probabilities(model: Any, unseen: Floats) -> Floats:
    """Return the probabilities of all classes; classes that were not learned have probability 0."""
    probabilities = np.zeros((len(unseen), int(model.classes_.max()) + 1))
    probabilities[:, model.classes_] = model.predict_proba(unseen)
    return probabilities
