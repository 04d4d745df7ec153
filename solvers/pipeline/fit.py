"""From a table of features to a plan: train, find the front on the validation rows, report it on the test rows.

The rows are cut at random, half, a quarter, a quarter, each part with its share of every class. Classifiers learn from
the first part. What they say of the second decides which configurations are on the front; what they say of the third is
what the front is said to achieve.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import DatasetFacts, Fault, FeaturesSpec, FeatureTable, InvalidRequest
from models.pipeline import PipelineOptions
from solvers.base import Fitted, Run
from solvers.pipeline.assemble import Models, achieved, assemble
from solvers.pipeline.chromosomes import MOST_FEATURES, stage_masks
from solvers.pipeline.enumerate import MOST_FEATURES as MOST_ENUMERATED
from solvers.pipeline.judge import Judge, costs_of
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.preparation import Preparation
from solvers.pipeline.search import DONE, TOTAL, Found, evolve_some, is_exact, look_at_all, needs_evolution
from solvers.pipeline.summary import summarize
from solvers.pipeline.training import Learner

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_OF_CLASS = 4
"""Rows that each class needs: two to train on, one in each other part."""
PARTS = ("training", "validation", "test")


def fit(dataset: FeatureTable, options: PipelineOptions, rng: np.random.Generator, run: Run) -> Fitted[PipelinePlan]:
    """Build a pipeline from a table of features.

    Raises InvalidRequest for more than 63 features (20 for ``exact``), costs that depend on the item's size, a class
    with fewer than 4 rows, a threshold for a class that there is not, a positive class that there is not or that
    ``exact`` cannot take, and a learner that is not allowed or gives no probabilities.

    The summary: unit, rows of each part, how the front was found, some of it, and three baselines: all features in one
    stage, with the reject option and without, and one stage for each feature, the cheapest first.
    """
    check(DatasetFacts.of(dataset), options)
    run.progress(0, TOTAL, "preparing columns")
    train, validation, test = parts = cut_rows(dataset, rng)
    categorical = np.array([bool(own) for own in dataset.categories], dtype=bool)
    preparation = Preparation.fitted(dataset.values[train], categorical)
    table = preparation.apply(dataset.values)
    prepared = table[train], dataset.labels[train], len(dataset.classes)
    columns = _columns(dataset.spec, preparation)
    learner = Learner.of(prepared, columns, options, run.learner_modules, int(rng.integers(2**32)))
    judge = Judge.of(dataset, options)
    found = _search(judge, learner, table[validation], validation, options, rng, run)
    run.progress(DONE, TOTAL, "reporting on the test rows")
    kept = np.unique(stage_masks(found.chromosomes, int(found.chromosomes.max()) + 1))
    models = Models(learner.kind, kept, learner.models(kept))
    report = judge.evaluator(test, lambda masks: models.answers(learner, table[test], masks))
    plan = assemble(dataset, options, preparation, judge, models, found, report(found.chromosomes))
    rows = {name: len(part) for name, part in zip(PARTS, parts, strict=True)}
    summary = summarize(plan, found, rows, _baselines(judge, learner, table[test], test))
    run.progress(TOTAL, TOTAL, "done")
    return Fitted(plan, summary)


def check(facts: DatasetFacts, options: PipelineOptions) -> None:
    """Refuse what can be seen without the rows."""
    assert isinstance(facts.spec, FeaturesSpec)
    count, evolution = len(facts.spec.features), options.evolution
    if count > MOST_FEATURES:
        _refuse(("dataset", "features"), f"there are {count}, a pipeline takes at most {MOST_FEATURES}")
    if options.search == "exact" and count > MOST_ENUMERATED:
        _refuse(("search",), f"is exact, for at most {MOST_ENUMERATED} features, there are {count}; emsco takes more")
    if options.search == "exact" and needs_evolution(options):
        _refuse(("search",), "is exact, which takes no positive_class, evolution.removal or evolution.fewest_stages")
    if evolution.fewest_stages > min(options.max_stages, count):
        most = min(options.max_stages, count)
        _refuse(("evolution", "fewest_stages"), f"is {evolution.fewest_stages}, at most {most} stages are possible")
    _check_classes(facts.classes, options)
    costs_of(facts.spec)


def _check_classes(classes: tuple[str, ...], options: PipelineOptions) -> None:
    known, given = f"the dataset has {', '.join(classes)}", options.confidence_threshold
    if options.positive_class is not None and options.positive_class not in classes:
        _refuse(("positive_class",), f"is {options.positive_class!r}, {known}")
    if isinstance(given, dict) and given.keys() != set(classes):
        odd = sorted(given.keys() ^ set(classes))[0]
        _refuse(("confidence_threshold",), f"names or lacks class {odd!r}: one number for all or one for each, {known}")


def _refuse(where: tuple[str, ...], message: str) -> None:
    raise InvalidRequest.at(Fault(where, message))


def cut_rows(dataset: FeatureTable, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Cut the rows of each class into half, a quarter and a quarter."""
    counts = np.bincount(dataset.labels, minlength=len(dataset.classes))
    least = int(np.argmin(counts))
    if counts[least] < LEAST_OF_CLASS:
        name = dataset.classes[least]
        _refuse(("dataset",), f"class {name!r} has {counts[least]} rows, a pipeline needs {LEAST_OF_CLASS} of each")
    found: tuple[list[Ints], list[Ints], list[Ints]] = ([], [], [])
    for code, count in enumerate(counts.tolist()):
        own = rng.permutation(np.flatnonzero(dataset.labels == code))
        for part, rows in zip(found, np.split(own, [count // 2, count * 3 // 4]), strict=True):
            part.append(rows)
    train, validation, test = (np.sort(np.concatenate(part)) for part in found)
    return train, validation, test


def _columns(spec: FeaturesSpec, preparation: Preparation) -> tuple[tuple[int, ...], ...]:
    """List the prepared columns of each feature."""
    ends = np.cumsum([0, *preparation.widths.tolist()]).tolist()
    starts = np.cumsum([0, *(len(feature.columns) for feature in spec.features)]).tolist()
    return tuple(tuple(range(ends[start], ends[end])) for start, end in pairwise(starts))


def _search(
    judge: Judge,
    learner: Learner,
    table: Floats,
    rows: Ints,
    options: PipelineOptions,
    rng: np.random.Generator,
    run: Run,
) -> Found:
    """Find the front on the validation rows."""
    evaluator = judge.evaluator(rows, lambda masks: learner.answers(table, masks))
    if is_exact(options, len(judge.costs), slowly=learner.classifier is not None):
        return look_at_all(evaluator, options.max_stages, run.progress)
    return evolve_some(evaluator, options, rng, run.progress)


def _baselines(judge: Judge, learner: Learner, table: Floats, rows: Ints) -> list[dict[str, Any]]:
    """Tell what simple configurations achieve on the test rows."""
    n = len(judge.costs)
    everything, by_cost = np.zeros(n, dtype=np.int8), np.empty(n, dtype=np.int8)
    by_cost[np.argsort(judge.costs, kind="stable")] = np.arange(n)
    evaluator = judge.evaluator(rows, lambda masks: learner.answers(table, masks))
    scores = achieved(evaluator(np.stack((everything, by_cost))))
    codes = learner.answers(table, np.array([(1 << n) - 1], dtype=np.uint64))[1][0]
    plain = [1.0, float(np.mean(codes == judge.labels[rows])), float(scores[0, 2])]
    named = {"all features, no reject": plain, "all features": scores[0], "one by one, cheapest first": scores[1]}
    return [
        {"name": name, "accuracy": float(row[1]), "coverage": float(row[0]), "cost": float(row[2])}
        for name, row in named.items()
    ]
