"""The portfolio beside its peers: ``python -m tests.bench.portfolio``.

1. ``--neighbours``: the nearest item of each sample, against scikit-learn, SciPy and faiss.
2. ``--programme``: assignments within a budget, against HiGHS on the whole programme (by far the longest part).
3. ``--request``: a whole batch, from embeddings to assignment, against the reference path: scikit-learn's search with
   p = infinity sample by sample, and SciPy's ``milp`` on the whole sparse programme; with peak memory.
4. ``--table``: the layout of the paper's Table 2, on digits: accuracy drops at 10, 20 and 40 % less cost.
5. ``--constraints``: batches within several limits, against HiGHS on the whole programme; a million queries; what is
   saved on traces of language models.

Without a flag all five.
"""

import argparse
import statistics
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from app.demo.images import SEED, load_split, probabilities, train_all
from models import Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Singles
from models.portfolio import PortfolioOptions
from solvers import Run
from solvers.portfolio import PortfolioPlan, fit
from solvers.portfolio.knapsack import assign
from solvers.portfolio.success_estimator import Estimator, Scaling
from tests.bench import _portfolio_constraints as constraints
from tests.bench import _portfolio_neighbours as neighbours
from tests.bench import _portfolio_programme as programme
from tests.bench.cascade import shown, table, timed
from tests.oracles.portfolio import highs

REQUESTS = ((100, 40, 500), (1_000, 40, 500))
"""Queries, samples and items of a sample in whole requests; the reference path would take minutes for more."""
OURS_ALONE = (10_000, 40, 1_000)
"""A request that only we answer."""
DIMENSIONS, CLASSIFIERS = 200, 7
COSTS = np.array([0.15, 0.22, 0.29, 0.52, 0.53, 0.98, 1.0])
"""The normalised costs of the paper's Table 1."""
SHARE = 0.6
"""The budget of a request, as a share of the dearest classifier's cost."""
REDUCTIONS = (0.1, 0.2, 0.4)
DRAWS = 3


def made(queries: int, count: int, size: int) -> tuple[Singles, Singles, Singles, NDArray[np.int32]]:
    """Draw a problem: queries, items, success of the classifiers on these, samples of distinct items."""
    rng = np.random.default_rng(0)
    vectors = neighbours.softmax(rng, queries + count * size, DIMENSIONS)
    strength = np.linspace(0.6, 0.9, CLASSIFIERS)
    items = vectors[queries:]
    ease = items.max(axis=1, keepdims=True) - 0.5
    success = (rng.random((len(items), CLASSIFIERS)) < np.clip(strength + 0.3 * ease, 0, 1)).astype(np.float32)
    return vectors[:queries], items, success, np.arange(len(items), dtype=np.int32).reshape(count, size)


def ours(estimator: Estimator, queries: Singles) -> Callable[[], object]:
    """Answer a request as the service does."""
    return lambda: assign(estimator.estimate(queries), COSTS, SHARE * len(queries))


def reference(items: Singles, success: Singles, samples: NDArray[np.int32], queries: Singles) -> Callable[[], object]:
    """Answer it by scikit-learn and SciPy."""
    from sklearn.neighbors import NearestNeighbors

    searches = [NearestNeighbors(n_neighbors=1, metric="chebyshev", n_jobs=2).fit(items[row]) for row in samples]

    def answer() -> object:
        places = [row[search.kneighbors(queries)[1][:, 0]] for row, search in zip(samples, searches, strict=True)]
        estimates = np.mean([success[column].astype(np.float64) for column in places], axis=0)
        return highs(estimates, COSTS, SHARE * len(queries))

    return answer


def measure_requests() -> Iterator[Table | str]:
    """Time whole requests, and their peak memory as tracemalloc sees it."""
    report = table(
        f"A whole request: {DIMENSIONS} dimensions, {CLASSIFIERS} classifiers, budget {SHARE:g} of the dearest",
        "queries", "samples", "ours", "reference", "times", "MB", "MB, reference",
    )  # fmt: skip
    for queries, count, size in (*REQUESTS, OURS_ALONE):
        vectors, items, success, samples = made(queries, count, size)
        estimator = Estimator.of(Scaling.none(DIMENSIONS), items, success, samples, "linf")
        estimator.neighbours.warm()
        mine, theirs = ours(estimator, vectors), reference(items, success, samples, vectors)
        seconds, peak = _median(mine), _peak(mine)
        if (queries, count, size) == OURS_ALONE:
            report.add_row(f"{queries:,}", f"{count} x {size}", shown(seconds), "-", "-", f"{peak:.0f}", "-")
            continue
        other = timed(theirs)[0]
        cells = (shown(seconds), shown(other), f"{other / seconds:.0f}", f"{peak:.0f}", f"{_peak(theirs):.0f}")
        report.add_row(f"{queries:,}", f"{count} x {size}", *cells)
    yield report


def _median(call: Callable[[], object]) -> float:
    return statistics.median(timed(call)[0] for _ in range(5))


def _peak(call: Callable[[], object]) -> float:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak / 2**20)


def digits_trace() -> Trace:
    """Show digits, a quarter of them moved, to the demo's classifiers; the costs are the paper's, cheapest first."""
    split = load_split(np.random.default_rng(SEED))
    classifiers = train_all(split.train, lambda *step: None)
    rng = np.random.default_rng(SEED)
    images = np.concatenate((split.trace[0], split.final[0])).repeat(2, axis=0)
    labels = np.concatenate((split.trace[1], split.final[1])).repeat(2)
    for place in np.flatnonzero(rng.random(len(images)) < 0.25):
        images[place] = np.roll(images[place], rng.integers(-1, 2, 2), axis=(0, 1))
    votes = {k.name: probabilities(k, images) for k in classifiers}
    costs = dict(zip(votes, [0.05, 0.1, 0.15, 0.22, 0.29, 0.52, 0.53, 1.0], strict=True))
    spec = {
        "kind": "trace",
        "label": "digit",
        "unit": "units",
        "classifiers": [{"name": name, "cost": costs[name], "prediction": name} for name in votes],
    }
    columns = {name: vote.argmax(axis=1) for name, vote in votes.items()}
    vectors = votes["gradients-logistic"].astype(np.float32)
    trace = dataset_from_columns(TraceSpec.model_validate(spec), {"digit": labels, **columns}, vectors)
    assert isinstance(trace, Trace)
    return trace


def measure_drops() -> Iterator[Table]:
    """Print accuracy drops against always calling the strongest classifier, in the layout of Table 2."""
    trace = digits_trace()
    options = PortfolioOptions(feature_classifier="gradients-logistic", curve_points=51)
    plans = [fit(trace, options, np.random.default_rng(seed), Run()).plan for seed in range(DRAWS)]
    names = ("single_best", "random", "frugal_mct", "batch", "route")
    report = table(
        f"Accuracy drop in points, mean of {DRAWS} draws ({plans[0].held_out} held-out digits each)",
        "cost reduction", *names,
    )  # fmt: skip
    for reduction in REDUCTIONS:
        drops = np.mean([_drops(plan, reduction, names) for plan in plans], axis=0)
        report.add_row(f"{reduction:.0%}", *(f"{drop:.2f}" for drop in drops))
    yield report


def _drops(plan: PortfolioPlan, reduction: float, names: tuple[str, ...]) -> Floats:
    at = int(np.searchsorted(plan.curve_budgets, (1 - reduction) * plan.dearest * (1 + 1e-9), side="right")) - 1
    strongest = plan.curve_accuracies[plan.methods.index("single_best"), -1]
    reached = [plan.curve_accuracies[plan.methods.index(name), at] for name in names]
    return np.asarray(100 * (strongest - np.array(reached)))


def programmes() -> Iterator[Table | str]:
    """Compare with HiGHS, then measure sizes."""
    yield programme.measure_sizes()
    yield from programme.compare_with_highs()


PARTS: dict[str, Callable[[], Iterator[Table | str] | Iterator[Table]]] = {
    "neighbours": neighbours.report,
    "request": measure_requests,
    "table": measure_drops,
    "constraints": constraints.report,
    "programme": programmes,
}


def main() -> None:
    """Run what was asked for, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in PARTS:
        parser.add_argument(f"--{name}", action="store_true")
    asked = vars(parser.parse_args())
    console = Console()
    for name, report in PARTS.items():
        if asked[name] or not any(asked.values()):
            for shown_part in report():
                console.print(shown_part)


if __name__ == "__main__":
    main()
