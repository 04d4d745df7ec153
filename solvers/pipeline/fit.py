"""From a table of features to a plan: train, find the front on the validation rows, report it on the test rows.

The rows are cut at random, half, a quarter, a quarter, keeping the shares of the classes. Classifiers learn from the
first part. What they say of the second decides which configurations are on the front; what they say of the third is
what the front is said to achieve.
"""

from dataclasses import dataclass
from math import isinf

import numpy as np
from numpy.typing import NDArray

from models import DatasetFacts, FeaturesSpec, FeatureTable, Fault, InvalidRequest
from models.pipeline import PipelineOptions
from solvers.base import Fitted, Run
from solvers.pipeline.bank import Bank
from solvers.pipeline.chromosomes import MOST_FEATURES, Chromosomes, configurations, stage_counts, stage_masks
from solvers.pipeline.emsco import Settings, evolve
from solvers.pipeline.enumerate import frontier_of_words
from solvers.pipeline.objectives import Evaluator, Scores
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.preparation import Preparation
from solvers.pipeline.prices import Prices
from solvers.pipeline.summary import summarize
from solvers.pipeline.training import DEFAULT, Answers, Learner, confident, predict

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_EXACT, MOST_EXACT_SLOWLY = 14, 8
"""Features up to which ``auto`` looks at every configuration: with logistic regressions, and with other learners."""
MOST_WALKED = 300_000_000
"""Configurations that ``auto`` looks at, some tens of seconds' worth."""
MOST_ENUMERATED = 20
"""Features that ``exact`` takes."""
LEAST_OF_CLASS = 4
"""Rows that each class needs: two to train on, one in each other part."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Rows: to train on, to choose by, to report on."""

    train: Ints
    validation: Ints
    test: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The configurations that were found, (s, n), what they score on the validation rows, and how: whether every one
    was looked at, how many were, and why the search ended."""

    chromosomes: Chromosomes
    scores: Scores
    exact: bool
    examined: int
    ended: str


def fit(
    dataset: FeatureTable, options: PipelineOptions, rng: np.random.Generator, run: Run
) -> Fitted[PipelinePlan]:
    """Build a pipeline from a table of features.

    Raises InvalidRequest for more than 63 features (20 for ``exact``), costs that depend on the item's size, a class
    with fewer than 4 rows, a threshold for a class that there is not, a positive class that there is not or that
    ``exact`` cannot take, and a learner that is not allowed or gives no probabilities.

    The summary: unit, rows of each part, how the front was found, its size and extremes, and two single-stage
    baselines: all features at once, with the reject option and without.
    """
    check(DatasetFacts.of(dataset), options)
    run.progress(0, 1, "preparing columns")
    parts = _cut(dataset, rng)
    categorical = np.array([bool(own) for own in dataset.categories])
    preparation = Preparation.fitted(dataset.values[parts.train], categorical)
    table = preparation.apply(dataset.values)
    learner = _learner(dataset, options, table[parts.train], parts, preparation, rng, run)
    costs = _costs(dataset.spec)
    evaluator = _evaluator(dataset, options, parts.validation, costs, lambda masks: learner.answers(
        table[parts.validation], masks))
    found = _search(evaluator, costs, options, rng, run)
    run.progress(1, 1, "reporting on the test rows")
    kept = np.unique(stage_masks(found.chromosomes, int(found.chromosomes.max()) + 1))
    models = dict(zip(kept.tolist(), learner.models(kept), strict=True))

    def again(masks: NDArray[np.uint64]) -> Answers:
        told = [_told(learner, models[mask], table[parts.test], mask) for mask in masks.tolist()]
        return np.stack([sure for sure, _ in told]), np.stack([codes for _, codes in told])

    tested = _evaluator(dataset, options, parts.test, costs, again)(found.chromosomes)
    plan = _plan(dataset, options, preparation, learner, found, tested, models)
    whole = np.zeros((1, len(costs)), dtype=np.int8)
    alone = _evaluator(dataset, options, parts.test, costs, lambda masks: learner.answers(table[parts.test], masks))
    return Fitted(plan, summarize(plan, found, alone, whole, parts))


def check(facts: DatasetFacts, options: PipelineOptions) -> None:
    """Refuse what can be seen without the rows."""
    assert isinstance(facts.spec, FeaturesSpec)
    count = len(facts.spec.features)
    if count > MOST_FEATURES:
        fault = f"there are {count}, a pipeline takes at most {MOST_FEATURES}: merge features, or drop some"
        raise InvalidRequest.at(Fault(("dataset", "features"), fault))
    if options.search == "exact" and count > MOST_ENUMERATED:
        fault = f"is exact, which takes at most {MOST_ENUMERATED} features, there are {count}; emsco takes {MOST_FEATURES}"
        raise InvalidRequest.at(Fault(("search",), fault))
    if options.search == "exact" and _needs_emsco(options):
        fault = "is exact, which knows neither positive_class nor evolution.removal and evolution.fewest_stages"
        raise InvalidRequest.at(Fault(("search",), fault))
    if options.evolution.fewest_stages > min(options.max_stages, count):
        fault = f"is {options.evolution.fewest_stages}, at most {min(options.max_stages, count)} stages are possible"
        raise InvalidRequest.at(Fault(("evolution", "fewest_stages"), fault))
    strangers = [options.positive_class] if options.positive_class not in (None, *facts.classes) else []
    if isinstance(options.confidence_threshold, dict):
        strangers += [name for name in options.confidence_threshold if name not in facts.classes]
        lacking = [name for name in facts.classes if name not in options.confidence_threshold]
        if lacking and not strangers:
            fault = f"lacks class {lacking[0]!r}: give one number for all classes, or one for each"
            raise InvalidRequest.at(Fault(("confidence_threshold",), fault))
    if strangers:
        where = "positive_class" if strangers[0] == options.positive_class else "confidence_threshold"
        fault = f"names class {strangers[0]!r}, the dataset has {', '.join(facts.classes)}"
        raise InvalidRequest.at(Fault((where,), fault))
    _costs(facts.spec)


def _costs(spec: FeaturesSpec) -> Floats:
    """Read what features cost: (n,)."""
    found = []
    for place, feature in enumerate(spec.features):
        function = feature.cost.function() if hasattr(feature.cost, "function") else None
        found.append(feature.cost if function is None else np.inf)
        if isinf(found[-1]):
            fault = "depends on the item's size: a pipeline needs a number"
            raise InvalidRequest.at(Fault(("dataset", "features", place, "cost"), fault))
    return np.array(found, dtype=np.float64)


def _needs_emsco(options: PipelineOptions) -> bool:
    return options.positive_class is not None or options.evolution.removal > 0 or options.evolution.fewest_stages > 1
