"""The front on the validation rows: every configuration is looked at where that is quick, or configurations evolve."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from models.arrays import Int8s
from models.pipeline import PipelineOptions
from solvers.base import Progress, part_of
from solvers.pipeline.answer_bank import MAX_BYTES
from solvers.pipeline.configurations import count_configurations, count_stages
from solvers.pipeline.emsco import EvolutionSettings, evolve_front
from solvers.pipeline.exact_front import find_packed_front
from solvers.pipeline.fewer_features import (
    drop_last_stages,
    find_forward_orders,
    join_fronts,
    list_chains,
    list_singles_and_pairs,
    make_exact_search,
    search_first_features,
)
from solvers.pipeline.objectives import Evaluator, Scores

MAX_TRAINED, MAX_TRAINED_SLOWLY = 14, 8
"""Features up to which ``auto`` trains every feature set: with logistic regressions, and with other learners."""
BYTES_PER_ROW = 6
"""Of a feature set's answers: a confidence, a class, bits."""
MAX_WALKED = 300_000_000
"""Configurations that ``auto`` looks at: some seconds' worth."""


CHUNK = 1024
"""Feature sets that are trained between two reports of progress."""
TRAINED, WALKED, ORDERED, DONE, TOTAL = 600, 800, 900, 990, 1000
"""Steps of progress: after training, after the search, after putting features in order, after leaving features out, in
all."""


@dataclass(frozen=True, slots=True, eq=False)
class FrontSearch:
    """The front, (s, n), what it scores on the validation rows, whether every configuration was looked at, how many
    were, and in words how the search ended."""

    chromosomes: Int8s
    scores: Scores
    exact: bool
    examined: int
    ended: str


def estimate_answer_bytes(features: int, rows: int) -> int:
    """Estimate what a bank holds of all feature sets, given the rows of the whole table."""
    return (1 << features) * (rows // 4 + 1) * BYTES_PER_ROW


def is_exact(options: PipelineOptions, features: int, rows: int, *, slowly: bool) -> bool:
    """Tell whether every configuration is looked at: where that takes seconds, and its answers fit into memory.

    >>> is_exact(PipelineOptions(), 14, 690, slowly=False), is_exact(PipelineOptions(), 15, 690, slowly=False)
    (True, False)
    >>> is_exact(PipelineOptions(), 14, 100_000, slowly=False)
    False
    """
    if options.search != "auto":
        return options.search == "exact"
    most = MAX_TRAINED_SLOWLY if slowly else MAX_TRAINED
    few = features <= most and count_configurations(features, options.max_stages) <= MAX_WALKED
    return few and estimate_answer_bytes(features, rows) <= MAX_BYTES and options.positive_class is None


def search_exactly(evaluator: Evaluator, max_stages: int, progress: Progress) -> FrontSearch:
    """Train the classifiers of all feature sets, and walk all configurations."""
    costs = evaluator.unit_costs.by_feature / evaluator.unit_costs.units
    n, answers = len(costs), evaluator.answers
    sets, training = 1 << n, part_of(progress, 0, TRAINED, TOTAL)
    for start in range(0, sets, CHUNK):
        training(start, sets, "training the classifiers of feature sets")
        answers.get_votes(np.arange(start, min(start + CHUNK, sets), dtype=np.uint64), evaluator.threshold)
    accepted, right = answers.get_lattice(
        np.arange(n), evaluator.threshold, answers_at_the_end=evaluator.answers_at_the_end
    )
    walking = part_of(progress, TRAINED, WALKED, TOTAL)
    front = find_packed_front(accepted, right, answers.rows, costs, max_stages, progress=walking)
    ended = f"all {front.examined + front.pruned} configurations were looked at or ruled out"
    return FrontSearch(front.chromosomes, evaluator(front.chromosomes), True, front.examined, ended)


def search_fewer_features(
    evaluator: Evaluator, options: PipelineOptions, search: FrontSearch, progress: Progress
) -> FrontSearch:
    """Join to a front what leaves features out: all that is not dominated where every item is answered, else what
    dominates one of the front."""
    join = partial(join_fronts, evaluator, only_where_they_dominate=options.after_last_stage == "reject")
    fewer = _of_fewer(evaluator, options, search, progress)
    chromosomes, _ = join(search.chromosomes, fewer)
    cut = drop_last_stages(chromosomes)  # of what has joined, too
    chromosomes, scores = join(chromosomes, cut)
    joined, looked_at = np.count_nonzero((chromosomes < 0).any(axis=1)), len(fewer) + len(cut)
    ended = f"{search.ended}; {looked_at} that leave features out were looked at, {joined} are on the front"
    return replace(search, chromosomes=chromosomes, scores=scores, ended=ended)


def _of_fewer(evaluator: Evaluator, options: PipelineOptions, search: FrontSearch, progress: Progress) -> Int8s:
    """List what leaves features out, (c, n), and chains of all of them."""
    n, stages = search.chromosomes.shape[1], options.max_stages
    orders = find_forward_orders(evaluator, part_of(progress, WALKED, ORDERED, TOTAL))
    fewer = [
        list_singles_and_pairs(n, stages),
        drop_last_stages(search.chromosomes),
        list_chains(evaluator, orders, stages),
    ]
    if search.exact:
        every = make_exact_search(evaluator, stages)
        fewer.append(search_first_features(orders, every, part_of(progress, ORDERED, DONE, TOTAL)))
    return np.concatenate(fewer)


def search_by_evolution(
    evaluator: Evaluator, options: PipelineOptions, rng: np.random.Generator, progress: Progress
) -> FrontSearch:
    """Let configurations evolve; of those with equal objectives one is kept, that of fewest stages."""
    features, settings = len(evaluator.unit_costs.by_feature), EvolutionSettings(**options.evolution.model_dump())
    evolving = part_of(progress, 0, WALKED, TOTAL)
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
    return FrontSearch(front.chromosomes[kept], front.scores.take(kept), False, evolved.evaluated, ended)
