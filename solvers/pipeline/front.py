"""Search of the Pareto front on validation rows.

The search is exact if that takes only seconds, else evolutionary.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from models.arrays import Floats, Int8s
from models.pipeline import PipelineOptions
from solvers.base import Progress, scale_progress
from solvers.pipeline.answer_cache import MAX_BYTES
from solvers.pipeline.configurations import count_configurations, count_stages
from solvers.pipeline.emsco import EvolutionSettings, evolve_front
from solvers.pipeline.exact_front import find_packed_front
from solvers.pipeline.fewer_features import (
    find_forward_orders,
    list_chains,
    list_singles_and_pairs,
    list_truncations,
    make_exact_search,
    merge_fronts,
    search_first_features,
)
from solvers.pipeline.objectives import ConfigurationScores, Evaluator

MAX_TRAINED, MAX_TRAINED_SLOWLY = 14, 8
"""Maximum number of features for an exact search by ``auto``: logistic regression, other learners."""
BYTES_PER_ROW = 6
"""Memory of a feature set's answers: a confidence, a class, bits."""
MAX_WALKED = 300_000_000
"""Maximum number of configurations for an exact search by ``auto``: some seconds."""


CHUNK = 1024
"""Feature sets that are trained between two progress reports."""
TRAINED, WALKED, ORDERED, DONE, TOTAL = 600, 800, 900, 990, 1000
"""Progress after training, the search, forward selection, and the search with fewer features; its total."""


@dataclass(frozen=True, slots=True, eq=False)
class FrontResult:
    """Front, (s, n), and its scores on validation rows.

    Also states whether the front is exact, and why the search ended. thresholds: (s,), the accept threshold of each
    configuration with losses; None: one for all.
    """

    chromosomes: Int8s
    scores: ConfigurationScores
    exact: bool
    examined: int
    ended: str
    thresholds: Floats | None = None


def estimate_answer_bytes(features: int, rows: int) -> int:
    """Estimate the bytes of memory of an ``AnswerCache`` of all feature sets.

    The number of rows is that of the whole table.
    """
    return (1 << features) * (rows // 4 + 1) * BYTES_PER_ROW


def should_search_exactly(options: PipelineOptions, features: int, rows: int, *, slowly: bool) -> bool:
    """Return whether to search exactly: on request, or if time and memory allow it.

    Args:
        slowly: whether the learner trains slowly.

    >>> [should_search_exactly(PipelineOptions(), features, 690, slowly=False) for features in (14, 15)]
    [True, False]
    >>> should_search_exactly(PipelineOptions(), 14, 100_000, slowly=False)
    False
    >>> should_search_exactly(PipelineOptions(positive_class="ill"), 5, 690, slowly=False)
    False
    """
    if options.search != "auto":
        return options.search == "exact"
    limit = MAX_TRAINED_SLOWLY if slowly else MAX_TRAINED
    few = features <= limit and count_configurations(features, options.max_stages) <= MAX_WALKED
    return few and estimate_answer_bytes(features, rows) <= MAX_BYTES and options.positive_class is None


def search_exactly(evaluator: Evaluator, max_stages: int, progress: Progress) -> FrontResult:
    """Train the classifiers of all feature sets and search all configurations."""
    prices, answers = evaluator.unit_costs, evaluator.answers
    n = len(prices.by_feature)
    sets, training = 1 << n, scale_progress(progress, 0, TRAINED, TOTAL)
    for start in range(0, sets, CHUNK):
        training(start, sets, "training the classifiers of feature sets")
        answers.get_votes(np.arange(start, min(start + CHUNK, sets), dtype=np.uint64), evaluator.threshold)
    accepted, right = answers.get_lattice(np.arange(n), evaluator.threshold, always_answers=evaluator.always_answers)
    walking = scale_progress(progress, TRAINED, WALKED, TOTAL)
    front = find_packed_front(
        accepted, right, answers.rows, prices.extended_costs, max_stages, groups=prices.groups, progress=walking
    )
    ended = f"all {front.examined + front.pruned} configurations were evaluated or pruned"
    return FrontResult(front.chromosomes, evaluator(front.chromosomes), True, front.examined, ended)


def search_fewer_features(
    evaluator: Evaluator, options: PipelineOptions, search: FrontResult, progress: Progress
) -> FrontResult:
    """Add configurations without some features to a front (see ``fewer_features``)."""
    join = partial(merge_fronts, evaluator, only_where_they_dominate=not evaluator.always_answers)
    fewer = _list_fewer(evaluator, options, search, progress)
    chromosomes, _ = join(search.chromosomes, fewer)
    cut = list_truncations(chromosomes)  # of the added ones, too
    chromosomes, scores = join(chromosomes, cut)
    joined, tried = np.count_nonzero((chromosomes < 0).any(axis=1)), len(fewer) + len(cut)
    ended = f"{search.ended}; {tried} with fewer features were evaluated, {joined} are on the front"
    return replace(search, chromosomes=chromosomes, scores=scores, ended=ended)


def _list_fewer(evaluator: Evaluator, options: PipelineOptions, search: FrontResult, progress: Progress) -> Int8s:
    """List configurations without some features, (c, n), and chains of all features."""
    n, stages = search.chromosomes.shape[1], options.max_stages
    orders = find_forward_orders(evaluator, scale_progress(progress, WALKED, ORDERED, TOTAL))
    fewer = [
        list_singles_and_pairs(n, stages),
        list_truncations(search.chromosomes),
        list_chains(evaluator, orders, stages),
    ]
    if search.exact:
        every = make_exact_search(evaluator, stages)
        fewer.append(search_first_features(orders, every, scale_progress(progress, ORDERED, DONE, TOTAL)))
    return np.concatenate(fewer)


def search_by_evolution(
    evaluator: Evaluator, options: PipelineOptions, rng: np.random.Generator, progress: Progress
) -> FrontResult:
    """Search by EMSCO.

    Of configurations with equal objectives, the one with the fewest stages is kept.
    """
    features, settings = len(evaluator.unit_costs.by_feature), EvolutionSettings(**options.evolution.model_dump())
    evolving = scale_progress(progress, 0, WALKED, TOTAL)
    evolved = evolve_front(evaluator, features, options.max_stages, settings, rng, progress=evolving)
    front = evolved.front
    order = np.lexsort((*front.chromosomes.T[::-1], count_stages(front.chromosomes)))
    table = np.column_stack((front.scores.covered, front.scores.right, front.scores.cost))
    if front.scores.alarms is not None:
        table = np.column_stack((table, front.scores.alarms))
    kept = order[np.unique(table[order], axis=0, return_index=True)[1]]
    ended = (
        f"{evolved.generations} generations, {evolved.evaluated} configurations evaluated; ended by {evolved.halted}"
    )
    return FrontResult(front.chromosomes[kept], front.scores.take(kept), False, evolved.evaluated, ended)
