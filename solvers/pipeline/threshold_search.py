"""Search with losses: configurations and their accept thresholds.

With losses, an item leaves a stage if the expected loss of the stage's answer is small enough. No single threshold
suits all prices of errors and features. So the front is searched for several thresholds, and the configurations of all
fronts that are not dominated are kept, each with its threshold.
"""

from dataclasses import replace

import numpy as np

from models.arrays import Floats
from models.pipeline import PipelineOptions
from solvers.base import Progress, scale_progress
from solvers.pipeline.front import DONE, TOTAL, FrontResult, search_by_evolution, search_fewer_features
from solvers.pipeline.objectives import ConfigurationScores, Evaluator

QUANTILES = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
"""Quantiles of confidences that are tried as thresholds."""
STEP = 1e-6
"""Thresholds are below the quantile by up to two steps: many rows may have the same confidence, which is rounded."""


def list_thresholds(evaluator: Evaluator) -> Floats:
    """Return the thresholds to try, increasing: quantiles of confidences with one feature and with all features."""
    n = len(evaluator.unit_costs.by_feature)
    masks = np.unique([*(1 << feature for feature in range(n)), (1 << n) - 1]).astype(np.uint64)
    confidences = evaluator.answers.get_confidences(masks).astype(np.float64)
    below = np.floor(np.quantile(confidences, QUANTILES) / STEP - 1) * STEP
    return np.unique(below.clip(0, 1).round(6))


def search_with_losses(
    evaluator: Evaluator, options: PipelineOptions, rng: np.random.Generator, progress: Progress
) -> FrontResult:
    """Find the front over quality and cost of configurations and thresholds.

    Complexity: as many searches as there are thresholds; they share the trained classifiers.
    """
    import moocore

    thresholds, n = list_thresholds(evaluator), len(evaluator.unit_costs.by_feature)
    found = []
    for place, threshold in enumerate(thresholds.tolist()):
        share = scale_progress(progress, DONE * place // len(thresholds), DONE * (place + 1) // len(thresholds), TOTAL)
        own = replace(evaluator, threshold=threshold)
        front = search_by_evolution(own, options, rng, share)
        found.append(search_fewer_features(own, options, front, share) if options.search == "auto" and n > 1 else front)
    scores = found[0].scores
    for front in found[1:]:
        scores = scores.append_scores(front.scores)
    kept = np.flatnonzero(moocore.is_nondominated(scores.stack_objectives(), maximise=True, keep_weakly=False))
    chromosomes = np.concatenate([front.chromosomes for front in found])
    of_front = np.repeat(thresholds, [len(front.chromosomes) for front in found])
    examined = sum(front.examined for front in found)
    ended = f"{len(thresholds)} thresholds; for the last one: {found[-1].ended}"
    return FrontResult(chromosomes[kept], scores.take(kept), False, examined, ended, of_front[kept])


def score_front(evaluator: Evaluator, front: FrontResult) -> ConfigurationScores:
    """Score each configuration of a front at its threshold, on the evaluator's rows."""
    if front.thresholds is None:
        return evaluator(front.chromosomes)
    order = np.argsort(front.thresholds, kind="stable")
    parts = [
        replace(evaluator, threshold=threshold)(front.chromosomes[front.thresholds == threshold])
        for threshold in np.unique(front.thresholds).tolist()
    ]
    scores = parts[0]
    for part in parts[1:]:
        scores = scores.append_scores(part)
    return scores.take(np.argsort(order))
