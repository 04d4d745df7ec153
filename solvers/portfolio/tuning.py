"""What is chosen on the validation part: sigma and λ (OCCAM, Section 4.2), and the samples (Appendices A.2, A.3, A.7).

sigma is the standard deviation of the estimator's error, from validation items whose truth the estimator has not seen;
a constant error is no matter for the deviation. λ is the one of ``LAMBDAS`` with the highest validation accuracy over a
range of budgets; among equals the least.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s, Singles
from models.portfolio import PortfolioOptions
from solvers.portfolio.baselines import route_by_values
from solvers.portfolio.neighbors.samples import draw_samples, list_shapes
from solvers.portfolio.routing_outcome import KnownItems, RoutingOutcome
from solvers.portfolio.success_estimator import EmbeddingScaling, NeighborEstimator

LAMBDAS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)
BUDGETS = 9
"""Budgets between that of the cheapest and the dearest classifier for all items, at which accuracies are compared."""
GAP = 1e-3
"""While parameters are compared, assignments may be this far from the optimum: much less than rows can tell apart."""


@dataclass(frozen=True, slots=True, eq=False)
class TuningData:
    """What is chosen from. items: (r, d) of the build half and vectors: (n, d) of the validation part, scaled; success:
    (r, m) how likely each classifier is right about the former; known: the truth about the latter."""

    items: Singles
    success: Singles
    vectors: Singles
    known: KnownItems


@dataclass(frozen=True, slots=True)
class SampleTrial:
    """Samples that were tried: how near neighbors are, the error (root mean square) of each classifier's estimates,
    and the validation accuracy of routing by them."""

    count: int
    size: int
    distance: float
    errors: tuple[float, ...]
    accuracy: float


@dataclass(frozen=True, slots=True, eq=False)
class TuningResult:
    """What was chosen. samples: (K, s); trials: all samples that were tried; sigmas: (m,); regularization: λ;
    lambdas: the validation accuracy of each λ that was tried; estimates: (n, m) for the validation items."""

    samples: Int32s
    trials: tuple[SampleTrial, ...]
    sigmas: Floats
    regularization: float
    lambdas: dict[float, float]
    estimates: Floats

    @property
    def penalties(self) -> Floats:
        """What is taken off each classifier's estimates: λ times sigma, (m,)."""
        return self.regularization * self.sigmas


def tune(
    examples: TuningData, options: PortfolioOptions, rng: np.random.Generator, report: Callable[[str], None]
) -> TuningResult:
    """Choose samples, sigma and λ; ``report`` hears what is being tried."""
    samples, trials, estimates = choose_samples(examples, options, rng, report)
    known = examples.known
    report("choosing the regularization")
    sigmas = compute_sigmas(estimates, known.right)
    reached = {lam: measure_accuracy(estimates - lam * sigmas, known) for lam in LAMBDAS}
    best = max(LAMBDAS, key=lambda lam: (reached[lam], -lam))
    given = options.regularization
    return TuningResult(samples, trials, sigmas, best if given == "auto" else given, reached, estimates)


def compute_sigmas(estimates: Floats, success: Floats) -> Floats:
    """Give the standard deviation of each classifier's error: (m,) from (n, m) estimates and truths.

    >>> compute_sigmas(np.array([[0.5], [0.5]]), np.array([[1.0], [0.0]])).tolist()
    [0.5]
    """
    return np.asarray((estimates - success).std(axis=0))


def measure_accuracy(values: Floats, known: KnownItems) -> float:
    """Route items by their values, (n, m), at ``BUDGETS`` budgets, and average the true accuracies."""
    low, high = float(known.means.min()), float(known.means.max())
    choose = route_by_values(values, known.means, GAP)
    reached = []
    for budget in np.linspace(low, high, BUDGETS + 2)[1:-1].tolist():
        reached.append(RoutingOutcome.from_choice(choose(budget * len(values)), known, embeds=False).accuracy)
    return float(np.mean(reached))


def choose_samples(
    examples: TuningData, options: PortfolioOptions, rng: np.random.Generator, report: Callable[[str], None]
) -> tuple[Int32s, tuple[SampleTrial, ...], Floats]:
    """Try samples of growing size, and take those with the highest validation accuracy; among equals the fewest items.

    Samples of several counts are the first ones of the same draw. Returns the samples, all
    trials, and the estimates for the validation items.
    """
    items, vectors, known = examples.items, examples.vectors, examples.known
    trials: list[SampleTrial] = []
    best: tuple[tuple[float, int], Int32s, Floats] | None = None
    for size, counts in list_shapes(options, len(items)):
        report(f"samples of {size} items")
        samples = draw_samples(rng, len(items), max(counts), size, options.sampling)
        estimator = NeighborEstimator.from_items(
            EmbeddingScaling.identity(items.shape[1]), items, examples.success, samples
        )
        places = estimator.find_nearest(vectors)
        for count in counts:
            estimates = estimator.average_success(places[:, :count])
            trial = SampleTrial(
                count,
                size,
                _mean_distance(items, vectors, places[:, :count]),
                tuple(np.sqrt(((estimates - known.right) ** 2).mean(axis=0)).tolist()),
                measure_accuracy(estimates, known),
            )
            trials.append(trial)
            rank = (trial.accuracy, -count * size)
            if options.samples != "auto":
                rank = (0.0, count * size)  # those that were asked for are the largest
            if best is None or rank > best[0]:
                best = rank, samples[:count], estimates
    assert best is not None  # there is always a size
    return best[1], tuple(trials), best[2]


def _mean_distance(items: Singles, vectors: Singles, places: Int32s) -> float:
    """Average the distance from each vector to its neighbors, of one sample after the other."""
    each = [np.linalg.norm(items[column] - vectors, np.inf, axis=1).mean() for column in places.T]
    return float(np.mean(each))
