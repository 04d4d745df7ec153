"""How fast the nearest items are found, against what else searches by L-infinity exactly, and in how much memory."""

import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import joblib
import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from models.arrays import Singles
from solvers.portfolio.neighbours import FoldedNeighbours, Metric
from tests.bench.cascade import shown, table, timed

SAMPLES, SIZE, QUERIES = 40, 1_000, 10_000
PEERS_SAMPLES = 2
"""The others search so many of the samples, with all queries; their times are scaled up."""
SINGLES = 300
WANTED, WANTED_FAISS, WANTED_MEMORY = 8.0, 40.0, 3.0
"""How many times faster than the best of scikit-learn and SciPy, and than faiss; memory in samples."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Samples, (K, s, d), and queries, (n, d), of one kind."""

    name: str
    samples: Singles
    queries: Singles

    @classmethod
    def of(cls, name: str, items: Singles) -> "Family":
        """Take the queries from the front of items drawn alike."""
        return cls(name, items[QUERIES:].reshape(SAMPLES, SIZE, -1), items[:QUERIES])


def families() -> Iterator[Family]:
    """Draw softmax vectors and embeddings, one kind after the other."""
    rng = np.random.default_rng(0)
    count = QUERIES + SAMPLES * SIZE
    yield Family.of("softmax, d = 200", softmax(rng, count, 200))
    yield Family.of("200 clusters, d = 512", embeddings(rng, count, 512, 200))
    yield Family.of("one Gaussian, d = 512", embeddings(rng, count, 512, 1))


def softmax(rng: np.random.Generator, count: int, classes: int) -> Singles:
    """Draw softmax vectors: classes that are confused in pairs more or less often, temperatures from 0.1 to 10."""
    likeness = rng.standard_normal((classes, 32), np.float32)
    of_class = rng.integers(0, classes, count)
    logits = likeness[of_class] @ likeness.T / 6 + rng.standard_normal((count, classes), np.float32)
    logits[np.arange(count), of_class] += 3
    logits /= np.exp(rng.uniform(np.log(0.1), np.log(10), (count, 1)))
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def embeddings(rng: np.random.Generator, count: int, dims: int, clusters: int) -> Singles:
    """Draw from clusters whose centres lie as far apart as their items, each coordinate scaled to [0, 1]."""
    centres = rng.standard_normal((clusters, dims), np.float32)
    items = centres[rng.integers(0, clusters, count)] + rng.standard_normal((count, dims), np.float32)
    items -= items.min(axis=0)
    return np.asarray(items / items.max(axis=0))


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of wall time and of processor time."""

    wall: float
    cpu: float

    @classmethod
    def by(cls, function: Callable[[], object], scale: float = 1.0) -> "Took":
        cpu = time.process_time()
        wall, _ = timed(function)
        return cls(scale * wall, scale * (time.process_time() - cpu))


def report() -> Iterator[Table | str]:
    """Make all tables, and say how they stand to what is wanted."""
    yield f"Loading and compiling on the first search takes {compiling():.1f} s in a new process.\n"
    for family in families():
        yield from compare(family)


def compiling() -> float:
    """Measure warm() in a process that has not loaded numba."""
    code = (
        "import time, numpy as np; from solvers.portfolio.neighbours import FoldedNeighbours as F; "
        "f = F(np.zeros((1, 9, 9))); t = time.perf_counter(); f.warm(); print(time.perf_counter() - t)"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def compare(family: Family) -> Iterator[Table | str]:
    """Search one family by all means."""
    made = table(
        f"{QUERIES:,} queries, {SAMPLES} samples of {SIZE:,} items: {family.name}\n{joblib.cpu_count()} processors for "
        f"all; from 'faiss' on {PEERS_SAMPLES} samples only, times {SAMPLES // PEERS_SAMPLES}",
        "search", "wall s", "CPU s", "times ours", "in CPU", "one query", "memory",
    )  # fmt: skip
    ours, peak = _ours(family, "linf", made)
    for metric in ("l1", "l2"):
        _ours(family, metric, made)
    took = {name: Took.by(way, SAMPLES / PEERS_SAMPLES) for name, way in peers(family).items()}
    for name, one in took.items():
        made.add_row(
            name,
            f"{one.wall:.1f}",
            f"{one.cpu:.1f}",
            f"{one.wall / ours.wall:.0f}",
            f"{one.cpu / ours.cpu:.0f}",
            "",
            "",
        )
    yield made
    by_faiss = took.pop("faiss L-inf").wall / ours.wall
    faster = min(one.wall for one in took.values()) / ours.wall
    in_cpu = min(one.cpu for one in took.values()) / ours.cpu
    yield (
        f"{family.name}: {faster:.1f} times faster than the best of scikit-learn and SciPy ({_met(faster >= WANTED)}; "
        f"wanted {WANTED:g}; in processor time {in_cpu:.1f}), {by_faiss:.0f} times faster than faiss "
        f"({_met(by_faiss >= WANTED_FAISS)}; {WANTED_FAISS:g}), in {peak:.2f} times the samples' memory "
        f"({_met(peak <= WANTED_MEMORY)}; {WANTED_MEMORY:g}).\n"
    )


def _met(so: bool) -> str:
    return "met" if so else "MISSED"


def _ours(family: Family, metric: Metric, made: Table) -> tuple[Took, float]:
    """Measure our search and add its row: give times, and memory as a multiple of the samples'.

    Memory counts the samples, what the object adds, and the most that a search of all queries takes, its result
    included; compiled code is not in it.
    """
    FoldedNeighbours(family.samples[:, :2], metric).warm()
    tracemalloc.start()
    index = FoldedNeighbours(family.samples, metric)
    neighbours = index.search(family.queries)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if metric == "linf":
        _check(family, neighbours)
    took = Took.by(lambda: index.search(family.queries))
    singles = [timed(partial(index.search, family.queries[i : i + 1]))[0] for i in range(SINGLES)]
    memory, single = 1 + peak / family.samples.nbytes, shown(statistics.median(singles))
    made.add_row(f"ours, {metric}", f"{took.wall:.2f}", f"{took.cpu:.2f}", "", "", single, f"{memory:.2f}")
    return took, memory


def _check(family: Family, neighbours: NDArray[np.int64]) -> None:
    """Compare with brute force for some queries."""
    for i in range(0, QUERIES, QUERIES // 20):
        nearest = np.abs(family.samples - family.queries[i]).max(axis=2).argmin(axis=1)
        if not np.array_equal(neighbours[i], nearest):
            raise AssertionError(f"{family.name}, query {i}: {neighbours[i]} against {nearest}")


def peers(family: Family) -> dict[str, Callable[[], object]]:
    """The other exact searches by L-infinity: each as a call that searches ``PEERS_SAMPLES`` samples."""
    import faiss
    from scipy.spatial.distance import cdist
    from sklearn.neighbors import NearestNeighbors

    samples, queries, processors = family.samples[:PEERS_SAMPLES], family.queries, joblib.cpu_count()
    halves = np.array_split(queries, 8 * processors)

    def by_learner(algorithm: str) -> None:
        for sample in samples:
            fitted = NearestNeighbors(n_neighbors=1, metric="chebyshev", algorithm=algorithm, n_jobs=processors)
            fitted.fit(sample).kneighbors(queries, return_distance=False)

    def by_scipy() -> None:
        with ThreadPoolExecutor(processors) as pool:
            for sample in samples:
                list(pool.map(lambda part, items=sample: cdist(part, items, "chebyshev").argmin(axis=1), halves))

    return {
        "faiss L-inf": lambda: [faiss.knn(queries, sample, 1, metric=faiss.METRIC_Linf) for sample in samples],
        "sklearn kd_tree": lambda: by_learner("kd_tree"),
        "sklearn brute": lambda: by_learner("brute"),
        "SciPy cdist": by_scipy,
    }
