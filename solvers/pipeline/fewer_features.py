"""Configurations that leave features out, where nothing but ``auto`` was asked for.

A feature whose cost no answer repays is better never acquired, which no ordered partition of all features can say. Of
the features that forward selection puts first, so many as there are, every configuration is looked at where that was
done for all of them, else chains; what is not dominated joins the front.
"""

from collections.abc import Callable, Iterator

import numpy as np

from models.arrays import Floats, Int8s, Int64s
from solvers.base import Progress
from solvers.pipeline.chains import forward_order, in_stages
from solvers.pipeline.configurations import REMOVED
from solvers.pipeline.exact_front import frontier_of_words
from solvers.pipeline.objectives import Evaluator, Scores

OfFeatures = Callable[[Int64s], Int8s]
"""Gives configurations, (c, k), of some features, (k,), rising."""


def every_one(evaluator: Evaluator, max_stages: int) -> OfFeatures:
    """Give the exact front of some features."""
    costs, answers = _costs(evaluator), evaluator.answers

    def of(features: Int64s) -> Int8s:
        bits = answers.lattice(features, evaluator.threshold, answers_at_the_end=evaluator.answers_at_the_end)
        return frontier_of_words(*bits, answers.rows, costs[features], max_stages).chromosomes

    return of


def chains_of(order: Int64s, max_stages: int) -> OfFeatures:
    """Give chains of some features in their order among all, (n,)."""

    def of(features: Int64s) -> Int8s:
        ordered = np.searchsorted(features, order[np.isin(order, features)])
        return np.array(list(dict.fromkeys(map(tuple, in_stages(ordered, max_stages)))), dtype=np.int8)

    return of


def join_fewer(
    evaluator: Evaluator, order: Int64s, found: Int8s, of: OfFeatures, progress: Progress
) -> tuple[Int8s, Scores, int]:
    """Join configurations of the first features of an order, (n,), to those found, (c, n): what of both no other
    dominates, on the evaluator's rows, its scores, and how many were joined. Of equal objectives those found stay.

    progress: told each number of features, may raise to cancel.
    """
    import moocore

    fewer = list(_of_each_length(order, of, progress))
    every = np.concatenate((found, *fewer))
    scores = evaluator(every)
    kept = np.flatnonzero(moocore.is_nondominated(scores.maximised(), maximise=True, keep_weakly=False))
    return every[kept], scores.take(kept), len(every) - len(found)


def order_of(evaluator: Evaluator) -> Int64s:
    """Put features in order by forward selection: (n,)."""
    return forward_order(evaluator, _costs(evaluator))


def _of_each_length(order: Int64s, of: OfFeatures, progress: Progress) -> Iterator[Int8s]:
    for length in range(1, len(order)):
        progress(length, len(order), f"leaving out all but {length} features")
        features = np.sort(order[:length])
        part = of(features)
        genes = np.full((len(part), len(order)), REMOVED, dtype=np.int8)
        genes[:, features] = part
        yield genes


def _costs(evaluator: Evaluator) -> Floats:
    return np.asarray(evaluator.unit_costs.of / evaluator.unit_costs.units)
