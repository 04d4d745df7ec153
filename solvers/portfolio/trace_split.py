"""Build, validation, and holdout split of a trace, with classifiers and embedding costs."""

from dataclasses import dataclass, replace

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s, Singles
from models.portfolio import PortfolioOptions
from solvers.item_splits import split_rows
from solvers.portfolio.baselines import find_dominated
from solvers.portfolio.query_costs import evaluate_costs, list_cost_functions
from solvers.portfolio.routing_outcome import LabeledItems
from solvers.shared_setup import charge_after


@dataclass(frozen=True, slots=True, eq=False)
class TraceSplit:
    """A trace split by the use of its rows.

    Attributes:
        names: the m classifiers in use.
        dominated: by dominated classifier, the name of a classifier that dominates it.
        vectors: (n, d), embeddings.
        items: (n,), equal for rows of one item.
        build, validation, held_out: indices of rows.
        success: (b, m), probability that each classifier is correct, on build rows.
        right: (n, m), 1 where a classifier is correct.
        costs: (n, m).
        accuracies, means: (m,), mean accuracy and cost on build rows.
        feature: index of the feature classifier; None if there is none.
        embedding_costs: (n,), cost of the feature classifier.
        observed, observed_costs: (n, m), as in ``LabeledItems``.
    """

    names: tuple[str, ...]
    dominated: dict[str, str]
    vectors: Singles
    items: Int64s
    build: Int64s
    validation: Int64s
    held_out: Int64s
    success: Floats
    right: Floats
    costs: Floats
    accuracies: Floats
    means: Floats
    feature: int | None
    embedding_costs: Floats
    observed: Floats | None
    observed_costs: Floats | None

    @property
    def mean_embedding_cost(self) -> float:
        """The mean cost of an embedding."""
        return float(self.embedding_costs[self.build].mean())

    def take_rows(self, rows: Int64s, *, embeds: bool) -> LabeledItems:
        """Return some rows.

        Args:
            embeds: whether embeddings are paid for, so that the feature classifier's answers are free.
        """
        costs, means = self.costs[rows], self.means.copy()
        embedding = self.embedding_costs[rows] if embeds else np.zeros(len(rows))
        if embeds and self.feature is not None:
            costs[:, self.feature] = means[self.feature] = 0.0
        mean = self.mean_embedding_cost if embeds else 0.0
        fixed = (costs, embedding, means, mean, self.items[rows])
        known = LabeledItems(self.vectors[rows], self.right[rows], *fixed)
        if self.observed is None or self.observed_costs is None:
            return known
        paid = np.where(np.isnan(self.observed_costs[rows]) | (means > 0), self.observed_costs[rows], 0.0)
        return replace(known, observed=self.observed[rows], observed_costs=paid)


def find_embedder(dataset: Trace, options: PortfolioOptions) -> int | None:
    """Return the index of the classifier that computes the embeddings in the trace.

    Return None if embeddings are free.
    """
    names = [classifier.name for classifier in dataset.spec.classifiers]
    return None if options.feature_classifier is None else names.index(options.feature_classifier)


def take_planned_rows(
    dataset: Trace, table: TraceSplit, rows: Int64s, expected: Floats | None, *, embeds: bool
) -> LabeledItems:
    """Return some rows like ``TraceSplit.take_rows``, with planned costs per row and classifier.

    If costs depend on size, planned costs are computed from the rows' sizes. Otherwise they are ``expected``, (n, m),
    the predictions from embeddings. If ``expected`` is None, they are the means.
    """
    known = table.take_rows(rows, embeds=embeds)
    embedder = None if table.feature is None else table.names[table.feature]
    powers, coefficients = list_cost_functions(dataset, table.names, table.means, embedder)
    own = evaluate_costs(powers, coefficients, dataset.sizes[rows].tolist(), "size") if len(powers) else expected
    if own is None:
        return known
    return replace(known, planned=np.where(known.means == 0, 0.0, own))


def split_trace(dataset: Trace, options: PortfolioOptions, rng: np.random.Generator) -> TraceSplit:
    """Split the rows into build, validation, and holdout rows, and select the classifiers to use."""
    names = [classifier.name for classifier in dataset.spec.classifiers]
    build, validation, held_out = split_rows(dataset.item_codes, [dataset.rows // 2, dataset.rows * 3 // 4], rng)
    success, right = dataset.estimate_likelihoods(options.temperature), dataset.quality
    place = None if options.feature_classifier is None else names.index(options.feature_classifier)
    costs = charge_after(dataset, place)
    accuracies, means = right[build].mean(axis=0), costs[build].mean(axis=0)
    losers = find_dominated(names, accuracies, means)
    used = [i for i, name in enumerate(names) if not (options.pareto_only and name in losers)]
    feature, embedding = None, np.zeros(dataset.rows)
    if place is not None:
        used = sorted({*used, place})  # its answers are free of charge
        feature, embedding = used.index(place), costs[:, place]
    return TraceSplit(
        tuple(names[i] for i in used),
        losers,
        dataset.embeddings,
        dataset.item_codes,
        build,
        validation,
        held_out,
        success[build][:, used],
        right[:, used],
        costs[:, used],
        accuracies[used],
        means[used],
        feature,
        embedding,
        dataset.observed[:, used] if dataset.observed.size else None,
        dataset.observed_costs[:, used] if dataset.observed.size else None,
    )
