"""Training of a pipeline: fit classifiers, search the front on validation rows, and evaluate it on test rows.

Rows are split at random, stratified by class: half for training, a quarter for validation, a quarter for testing.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from models import DatasetFacts, Fault, FeaturesSpec, FeatureTable, InvalidRequest
from models.losses import read_losses
from models.pipeline import PipelineOptions
from solvers.base import BuildContext, FitResult, count_split_rows
from solvers.pipeline.answer_cache import MAX_BYTES
from solvers.pipeline.assemble import PipelineModels, assemble_plan, tabulate_scores
from solvers.pipeline.configurations import MAX_FEATURES, count_configurations, make_stage_masks
from solvers.pipeline.exact_front import MAX_CONFIGURATIONS
from solvers.pipeline.exact_front import MAX_FEATURES as MAX_ENUMERATED
from solvers.pipeline.front import (
    DONE,
    TOTAL,
    FrontResult,
    estimate_answer_bytes,
    search_by_evolution,
    search_exactly,
    search_fewer_features,
    should_search_exactly,
)
from solvers.pipeline.objectives import Evaluator, read_feature_costs
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.prepared_data import PreparedData
from solvers.pipeline.savings import measure_pipeline_savings, replay_configuration
from solvers.pipeline.summary import summarize
from solvers.pipeline.threshold_search import score_front, search_with_losses
from solvers.statistics import standard_error_of_mean


def fit(
    dataset: FeatureTable, options: PipelineOptions, rng: np.random.Generator, run: BuildContext
) -> FitResult[PipelinePlan]:
    """Build a pipeline from a table of features.

    The summary has three baselines: all features in one stage with the reject option (if any), the same without it, and
    one stage per feature, the cheapest first. With losses, the first two are the same.

    Raises:
        InvalidRequest: for more than 63 features (20 for ``exact``), costs that depend on the item's size, a class with
            fewer than 4 rows, unknown classes, options that losses do not allow, or a learner that is not allowed or
            has no predict_proba.
    """
    check(DatasetFacts.from_dataset(dataset), options)
    run.progress(0, TOTAL, "preparing columns")
    data = PreparedData.from_dataset(dataset, options, rng, run)
    learner, test = data.learner, data.split.test
    front = _search(data, options, rng, run)
    run.progress(DONE, TOTAL, "evaluating on the test rows")
    kept = np.unique(make_stage_masks(front.chromosomes, int(front.chromosomes.max()) + 1))
    models = PipelineModels(learner.kind, kept, learner.train_models(kept))
    report = data.criteria.make_evaluator(test, lambda masks: models.predict_sets(learner, data.table[test], masks))
    items = dataset.item_codes[test]
    thresholds = [None] * len(front.chromosomes) if front.thresholds is None else front.thresholds.tolist()
    settings = list(zip(front.chromosomes, thresholds, strict=True))
    errors = [standard_error_of_mean(replay_configuration(report, *setting).costs, items) for setting in settings]
    plan = assemble_plan(dataset, options, data, models, front, score_front(report, front), np.array(errors))
    parts = {"training": data.split.training, "validation": data.split.validation, "test": test}
    evaluator, validation = data.make_evaluator(test), data.make_evaluator(data.split.validation)
    summary = summarize(plan, front, count_split_rows(parts, dataset.item_codes), _baselines(evaluator, plan))
    savings = measure_pipeline_savings(plan, evaluator, validation, items, rng)
    run.progress(TOTAL, TOTAL, "done")
    return FitResult(plan, summary, savings)


def check(facts: DatasetFacts, options: PipelineOptions) -> None:
    """Raise InvalidRequest for options that the dataset does not allow, without reading its rows."""
    assert isinstance(facts.spec, FeaturesSpec)
    if read_losses(facts.spec, facts.classes, len(facts.classes), []) is not None:
        _check_options_with_losses(options)
    count = len(facts.spec.features)
    if count > MAX_FEATURES:
        _refuse(("dataset", "features"), f"must be at most {MAX_FEATURES}, got {count}")
    if options.search == "exact" and count > MAX_ENUMERATED:
        _refuse(("search",), f"exact supports at most {MAX_ENUMERATED} features, got {count}; use emsco")
    if options.search == "exact" and options.positive_class is not None:
        _refuse(("search",), "exact does not support positive_class; use emsco")
    total = count_configurations(count, min(options.max_stages, count))
    if options.search == "exact" and total > MAX_CONFIGURATIONS:
        _refuse(("max_stages",), f"{options.max_stages} gives more than {MAX_CONFIGURATIONS} configurations; use emsco")
    needed = estimate_answer_bytes(count, facts.rows)
    if options.search == "exact" and needed > MAX_BYTES:
        _refuse(("search",), f"exact needs {needed} bytes for all feature sets; maximum is {MAX_BYTES}; use emsco")
    _check_classes(facts.classes, options)
    read_feature_costs(facts.spec)


def _check_options_with_losses(options: PipelineOptions) -> None:
    if options.confidence_threshold is not None:
        _refuse(("confidence_threshold",), "cannot be set with losses or guarantees: each configuration gets its own")
    if options.after_last_stage == "reject":
        _refuse(
            ("after_last_stage",),
            "must be answer with losses or guarantees; set reject_cost in the spec to reject items",
        )
    if options.search == "exact":
        _refuse(("search",), "exact does not support losses or guarantees; use emsco")
    if options.positive_class is not None:
        _refuse(
            ("positive_class",), "cannot be set with losses or guarantees; set a loss of its false positives instead"
        )


def _check_classes(classes: tuple[str, ...], options: PipelineOptions) -> None:
    available, thresholds = f"available: {', '.join(classes)}", options.confidence_threshold
    if options.positive_class is not None and options.positive_class not in classes:
        _refuse(("positive_class",), f"class {options.positive_class!r} not found; {available}")
    if isinstance(thresholds, dict) and thresholds.keys() != set(classes):
        wrong = sorted(thresholds.keys() ^ set(classes))[0]
        _refuse(("confidence_threshold",), f"must be one number, or one for each class, {wrong!r} differs; {available}")


def _refuse(where: tuple[str, ...], message: str) -> None:
    raise InvalidRequest.from_faults(Fault(where, message))


def _search(data: PreparedData, options: PipelineOptions, rng: np.random.Generator, run: BuildContext) -> FrontResult:
    """Find the front on the validation rows."""
    evaluator = data.make_evaluator(data.split.validation)
    n = len(evaluator.unit_costs.by_feature)
    if data.criteria.losses is not None:
        return search_with_losses(evaluator, options, rng, run.progress)
    if should_search_exactly(options, n, len(data.table), slowly=data.learner.classifier is not None):
        front = search_exactly(evaluator, options.max_stages, run.progress)
    else:
        front = search_by_evolution(evaluator, options, rng, run.progress)
    return (
        search_fewer_features(evaluator, options, front, run.progress) if options.search == "auto" and n > 1 else front
    )


def _baselines(evaluator: Evaluator, plan: PipelinePlan) -> list[dict[str, Any]]:
    """Evaluate simple configurations on the test rows, with losses at the threshold of the default configuration."""
    n = len(plan.costs)
    everything, by_cost = np.zeros(n, dtype=np.int8), np.empty(n, dtype=np.int8)
    by_cost[plan.setup.order_by_cost(plan.extended_costs)] = np.arange(n)
    if plan.losses is not None:
        evaluator = replace(evaluator, threshold=float(plan.quality_thresholds[plan.default_solution]))
    scores = tabulate_scores(evaluator(np.stack((everything, by_cost))))
    named = {"all features": scores[0], "one by one, cheapest first": scores[1]}
    if plan.losses is None:
        plain = tabulate_scores(replace(evaluator, threshold=0.0)(everything[None]))[0]
        named = {"all features, no reject": plain, **named}
    return [
        {"name": name, "accuracy": float(row[1]), "coverage": float(row[0]), "cost": float(row[2])}
        for name, row in named.items()
    ]
