"""The nearest items, against a brute-force search that numpy does in one expression."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from models.arrays import Int64s, Singles
from models.errors import InvalidRequest
from solvers.jit import python_kernel
from solvers.portfolio import neighbors
from solvers.portfolio.neighbors import NeighborSearch
from solvers.portfolio.neighbors.item_blocks import ItemBlocks, pad_coordinates

KERNEL = "solvers.portfolio.neighbors.kernel"


def brute(samples: Singles, queries: Singles) -> Int64s:
    """Compute all distances, one query at a time; argmin gives the first of equals."""
    with np.errstate(over="ignore"):
        return np.stack([np.abs(samples - query).max(axis=2).argmin(axis=1) for query in queries])


class SampleSearch:
    """A search over disjoint samples (K, s, d), which returns places in the samples: (n, K)."""

    def __init__(self, samples: NDArray[np.floating]) -> None:
        count, self.size, dims = samples.shape
        numbers = np.arange(count * self.size, dtype=np.int32).reshape(count, self.size)
        self.index = NeighborSearch(samples.reshape(-1, dims), numbers)

    def search(self, queries: ArrayLike) -> NDArray[np.int32]:
        return np.asarray(self.index.find_nearest(queries) % self.size)


def agree(samples: NDArray[np.floating], queries: NDArray[np.floating]) -> None:
    """Compare with brute force, all queries at once and the first one alone."""
    stored, asked = samples.astype(np.float32), queries.astype(np.float32)
    search = SampleSearch(stored).search
    expected = brute(stored, asked)
    np.testing.assert_array_equal(search(asked), expected)
    np.testing.assert_array_equal(search(asked[:1]), expected[:1])


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=-1, keepdims=True))


def draw(kind: str, rng: np.random.Generator, count: int, dims: int) -> NDArray[np.float64]:
    """Draw items of one kind."""
    normal = rng.standard_normal((count, dims))
    match kind:
        case "normal":
            return normal
        case "softmax":
            return softmax(4 * normal / np.exp(rng.uniform(-5, 3, (count, 1))))
        case "grid":
            return rng.integers(-2, 3, (count, dims)).astype(float)
        case "bits":
            return rng.integers(0, 2, (count, dims)).astype(float)
        case "constant columns":
            normal[:, ::2] = 0.3
            return normal
        case "duplicates":
            return normal[rng.integers(0, max(count // 5, 1), count)]
        case "far from zero":
            return 1000 + rng.random((count, dims))
        case "huge":
            return 2.5e38 * np.tanh(normal)
        case "small":
            return 1e-38 * normal
        case "of squares too small":
            return 3e-23 * normal
        case "outlier":
            normal[rng.integers(count), rng.integers(dims)] = 1e30
            return normal
        case "scales":
            return normal * 10.0 ** rng.integers(-12, 12, (count, 1))
        case "columns of all scales":
            return normal * np.logspace(-20, 20, dims)
    raise AssertionError(kind)


KINDS = (
    "normal", "softmax", "grid", "bits", "constant columns", "duplicates", "far from zero", "huge", "small",
    "of squares too small", "outlier", "scales", "columns of all scales",
)  # fmt: skip
SHAPES = (
    (1, 1, 1, 1),
    (3, 1, 5, 4),
    (1, 40, 1, 9),
    (2, 33, 2, 20),
    (4, 150, 7, 12),
    (2, 300, 70, 30),
    (3, 90, 300, 25),
)
"""Samples, items, dimensions, queries."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_nearest_items_are_those_of_brute_force(kind: str) -> None:
    for seed, (count, size, dims, asked) in enumerate(SHAPES):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        items = draw(kind, rng, count * size + asked, dims)
        samples, queries = items[asked:].reshape(count, size, dims), items[:asked]
        agree(samples, queries)
        agree(samples, samples[:, 0])  # items themselves
        agree(samples, queries * 1.25)  # beyond the samples' range


def test_queries_of_another_kind_than_the_samples() -> None:
    rng = np.random.default_rng(7)
    for kind in KINDS:
        samples = draw(kind, rng, 200, 20).reshape(2, 100, 20)
        for other in KINDS:
            agree(samples, draw(other, rng, 8, 20))


@pytest.mark.parametrize("size", [3, 5, 40, 300, 700])
def test_of_equal_items_the_first_is_found(size: int) -> None:
    samples = np.full((2, size, 3), 5.0, np.float32)
    samples[0, size // 2 :] = 1.0
    samples[1, -1] = 1.0
    assert SampleSearch(samples).search(np.zeros((20, 3))).tolist() == [[size // 2, size - 1]] * 20


def test_equal_after_rounding_is_equal() -> None:
    """1 + 2^-25 less 0 is 1 in float32, where the samples are."""
    samples = np.array([[[-(2.0**-25)], [0.0]]])
    assert SampleSearch(samples).search(np.array([[1.0]])).tolist() == [[0]]


@given(
    st.integers(1, 3), st.integers(1, 70), st.integers(1, 140), st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 2.0, 1e-3, 1e30]),
)  # fmt: skip
@settings(max_examples=150)
def test_small_whole_numbers_in_all_shapes(count: int, size: int, dims: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    levels = int(rng.integers(1, 6))
    items = rng.integers(0, levels + 1, (count * size + 5, dims)) * scale
    agree(items[5:].reshape(count, size, dims), items[:5])


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
                min_size=2, max_size=9))  # fmt: skip
@settings(max_examples=150)
def test_any_floats(items: list[list[float]]) -> None:
    array = np.array(items, np.float32)
    agree(array[None, 1:], array[:1])


def test_the_kernel_interpreted_gives_the_same() -> None:
    """The source that numba compiles, run by Python, where nothing is vectorized or assumed."""
    rng = np.random.default_rng(3)
    items = draw("softmax", rng, 2 * 70 + 6, 66).astype(np.float32)
    samples, queries = items[6:].reshape(2, 70, 66), items[:6]
    numbers = np.arange(140, dtype=np.int32).reshape(2, 70)
    blocks = ItemBlocks.from_samples(samples.reshape(-1, 66), numbers)
    nearest = np.zeros((6, 2), np.int32)
    python_kernel(KERNEL).search_nearest(*blocks, numbers, pad_coordinates(queries), nearest)
    np.testing.assert_array_equal(nearest % 70, brute(samples, queries))


@given(
    st.integers(1, 90), st.integers(1, 5), st.integers(1, 40), st.integers(1, 20), st.integers(0, 2**32 - 1),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=150)
def test_overlapping_samples_give_what_each_sample_gives(
    count: int, samples: int, size: int, dims: int, seed: int, ties: bool
) -> None:
    """The union is searched once; nearest items and means are those of a search per sample, bit by bit."""
    rng = np.random.default_rng(seed)
    items = (rng.integers(0, 3, (count, dims)) if ties else rng.random((count, dims))).astype(np.float32)
    queries = (rng.integers(0, 3, (20, dims)) if ties else 2 * rng.random((20, dims))).astype(np.float32)
    numbers = rng.integers(0, count, (samples, size), dtype=np.int32)  # an item may be in a sample twice
    values = rng.random((count, 3), np.float32)
    expected = numbers[np.arange(samples), brute(items[numbers], queries)]
    index = NeighborSearch(items, numbers)
    np.testing.assert_array_equal(index.find_nearest(queries), expected)
    total = np.zeros((20, 3))
    for column in expected.T:
        total += values[column]
    np.testing.assert_array_equal(index.average_nearest(values, queries), total / samples)


def test_searches_of_several_threads_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(5)
    samples = draw("softmax", rng, 600, 30).astype(np.float32).reshape(3, 200, 30)
    queries = draw("softmax", rng, 400, 30).astype(np.float32)
    expected = brute(samples, queries)
    search = SampleSearch(samples).search
    lengths = [1, 15, 16, 33, 400, 200, 1, 399] * 6
    with ThreadPoolExecutor(8) as pool:
        for length, indices in zip(lengths, pool.map(lambda n: search(queries[:n]), lengths), strict=True):
            np.testing.assert_array_equal(indices, expected[:length])


def test_single_queries_start_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a pool was made")

    search = SampleSearch(np.eye(3)[None]).search
    monkeypatch.setattr(neighbors, "ThreadPoolExecutor", refuse)
    assert search(np.eye(3)[1:2]).tolist() == [[1]]
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    with pytest.raises(AssertionError, match="a pool"):
        search(np.eye(3)[[0] * 50])


def test_more_queries_than_are_coded_at_once() -> None:
    rng = np.random.default_rng(9)
    samples, queries = rng.random((2, 20, 3), np.float32), rng.random((5_000, 3), np.float32)
    np.testing.assert_array_equal(SampleSearch(samples).search(queries), brute(samples, queries))


@pytest.mark.kernel
def test_arrays_of_other_types_and_layouts() -> None:
    """float64, whole numbers, lists, transposed and read-only arrays; the answer is int32."""
    rng = np.random.default_rng(2)
    whole = rng.integers(0, 9, (120, 2))
    numbers = np.asfortranarray(rng.integers(0, 120, (4, 30), dtype=np.int32))
    expected = numbers[np.arange(4), brute(whole[numbers].astype(np.float32), whole[:7].astype(np.float32))]
    indices = NeighborSearch(np.asfortranarray(whole), numbers).find_nearest(whole[:7].tolist())
    np.testing.assert_array_equal(indices, expected)
    assert indices.dtype == np.int32
    fixed, queries = whole.astype(np.float32), whole[:7].astype(np.float32)
    fixed.flags.writeable = queries.flags.writeable = numbers.flags.writeable = False
    index = NeighborSearch(fixed, numbers)
    index.warm_up(fixed)
    np.testing.assert_array_equal(index.find_nearest(queries), expected)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (np.zeros(3), r"items: must have shape \(r, d\), none 0, got \(3,\)"),
        (np.zeros((0, 3)), r"items: .* got \(0, 3\)"),
        (np.zeros((2, 0)), r"items: .* got \(2, 0\)"),
        ([["a", "b"]], "items: must be numbers"),
        ([[1.0, np.nan], [np.inf, 2.0]], r"items: .* 2 of 4 are not, the first at \[0, 1\]"),
        ([[1.0, 1e39]], r"items: .* 1 of 2 are not, the first at \[0, 1\]"),
    ],
)
def test_items_that_are_refused(items: object, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        NeighborSearch(items, np.zeros((1, 1), np.int32))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.zeros(3), r"queries: must have shape \(n, d\), none 0, got \(3,\)"),
        (np.zeros((0, 3)), r"queries: .* got \(0, 3\)"),
        (np.zeros((4, 2)), "queries: must have 3 coordinates, got 2"),
        ([[0.0, 1.0, -np.inf]], r"queries: .* 1 of 3 are not, the first at \[0, 2\]"),
        ([[0.0, 1.0], [1.0]], "queries: must be numbers"),
    ],
)
def test_queries_that_are_refused(queries: object, message: str) -> None:
    index = NeighborSearch(np.zeros((2, 3)), np.array([[0, 1]], np.int32))
    with pytest.raises(InvalidRequest, match=message):
        index.find_nearest(queries)  # type: ignore[arg-type]
