"""Tuning of sigma, λ, and samples on validation rows (OCCAM, Section 4.2).

Samples are tuned as in Appendices A.2, A.3, and A.7. sigma is the standard deviation of the estimator's error on
validation items, so a constant bias does not count. λ is the element of ``LAMBDAS`` with the highest validation
accuracy over a range of budgets. Ties go to the smallest.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s, Singles
from models.portfolio import PortfolioOptions
from solvers.portfolio.baselines import make_assignment_router
from solvers.portfolio.neighbors.samples import draw_samples, iterate_sample_sizes
from solvers.portfolio.routing_outcome import LabeledItems, RoutingOutcome
from solvers.portfolio.success_estimator import EmbeddingScaling, NeighborEstimator

LAMBDAS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)
BUDGETS = 9
"""Number of compared budgets between the cheapest and the most expensive classifier."""
GAP = 1e-3
"""Optimality gap of assignments during tuning: much less than the sampling error."""


@dataclass(frozen=True, slots=True, eq=False)
class TuningData:
    """Rows for tuning.

    Attributes:
        items: (r, d), scaled embeddings of build rows.
        success: (r, m), probability that each classifier is correct on build rows.
        vectors: (n, d), scaled embeddings of validation rows.
        known: outcomes of validation rows.
    """

    items: Singles
    success: Singles
    vectors: Singles
    known: LabeledItems


@dataclass(frozen=True, slots=True)
class SampleTrial:
    """Validation results of one number and size of samples.

    Attributes:
        count, size: number of samples, and items of each.
        distance: mean distance to the nearest neighbors.
        errors: root mean square error of each classifier's estimates.
        accuracy: validation accuracy of routing.
    """

    count: int
    size: int
    distance: float
    errors: tuple[float, ...]
    accuracy: float


@dataclass(frozen=True, slots=True, eq=False)
class TuningResult:
    """Tuned hyperparameters.

    Attributes:
        samples: (K, s).
        trials: all samples that were tried.
        sigmas: (m,).
        regularization: λ.
        lambdas: validation accuracy of each λ.
        estimates: (n, m), of validation items.
    """

    samples: Int32s
    trials: tuple[SampleTrial, ...]
    sigmas: Floats
    regularization: float
    lambdas: dict[float, float]
    estimates: Floats

    @property
    def penalties(self) -> Floats:
        """λ times sigma, (m,): the amount subtracted from each classifier's estimates."""
        return self.regularization * self.sigmas


def tune(
    examples: TuningData, options: PortfolioOptions, rng: np.random.Generator, report: Callable[[str], None]
) -> TuningResult:
    """Choose samples, sigma, and λ.

    ``report`` receives the progress.
    """
    samples, trials, estimates = choose_samples(examples, options, rng, report)
    known = examples.known
    report("choosing the regularization")
    sigmas = compute_sigmas(estimates, known.right)
    reached = {lam: measure_accuracy(estimates - lam * sigmas, known) for lam in LAMBDAS}
    best = max(LAMBDAS, key=lambda lam: (reached[lam], -lam))
    given = options.regularization
    return TuningResult(samples, trials, sigmas, best if given == "auto" else given, reached, estimates)


def compute_sigmas(estimates: Floats, success: Floats) -> Floats:
    """Return the standard deviation of each classifier's error, (m,), from estimates and outcomes, (n, m).

    >>> compute_sigmas(np.array([[0.5], [0.5]]), np.array([[1.0], [0.0]])).tolist()
    [0.5]
    """
    return np.asarray((estimates - success).std(axis=0))


def measure_accuracy(values: Floats, labeled: LabeledItems) -> float:
    """Return the mean routing accuracy by values, (n, m), over ``BUDGETS`` budgets."""
    low, high = float(labeled.means.min()), float(labeled.means.max())
    choose = make_assignment_router(values, labeled.means, GAP)
    reached = []
    for budget in np.linspace(low, high, BUDGETS + 2)[1:-1].tolist():
        reached.append(RoutingOutcome.from_choice(choose(budget * len(values)), labeled, embeds=False).accuracy)
    return float(np.mean(reached))


def choose_samples(
    examples: TuningData, options: PortfolioOptions, rng: np.random.Generator, report: Callable[[str], None]
) -> tuple[Int32s, tuple[SampleTrial, ...], Floats]:
    """Return the samples, all trials, and the validation estimates.

    With ``auto``, the samples with the highest validation accuracy are chosen; ties go to the fewest items. Smaller
    samples are prefixes of larger ones.
    """
    items, vectors, known = examples.items, examples.vectors, examples.known
    trials: list[SampleTrial] = []
    best: tuple[tuple[float, int], Int32s, Floats] | None = None
    for size, counts in iterate_sample_sizes(options, len(items)):
        report(f"samples of {size} items")
        samples = draw_samples(rng, len(items), max(counts), size, options.sampling)
        estimator = NeighborEstimator.from_items(
            EmbeddingScaling.without_scaling(items.shape[1]), items, examples.success, samples
        )
        indices = estimator.find_nearest(vectors)
        for count in counts:
            estimates = estimator.average_success(indices[:, :count])
            trial = SampleTrial(
                count,
                size,
                _mean_distance(items, vectors, indices[:, :count]),
                tuple(np.sqrt(((estimates - known.right) ** 2).mean(axis=0)).tolist()),
                measure_accuracy(estimates, known),
            )
            trials.append(trial)
            rank = (trial.accuracy, -count * size)
            if options.samples != "auto":
                rank = (0.0, count * size)  # the requested ones are the largest
            if best is None or rank > best[0]:
                best = rank, samples[:count], estimates
    assert best is not None  # iterate_sample_sizes yields at least one size
    return best[1], tuple(trials), best[2]


def _mean_distance(items: Singles, vectors: Singles, indices: Int32s) -> float:
    """Return the mean distance from each vector to its neighbors."""
    each = [np.linalg.norm(items[column] - vectors, np.inf, axis=1).mean() for column in indices.T]
    return float(np.mean(each))
