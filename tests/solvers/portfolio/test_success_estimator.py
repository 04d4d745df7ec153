"""The estimator: against its definition, and the paper's lemmas on a problem whose truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import InvalidRequest
from models.portfolio import PortfolioOptions, Samples
from solvers.portfolio.neighbors.samples import draw_samples, iterate_sample_sizes
from solvers.portfolio.success_estimator import EmbeddingScaling, NeighborEstimator
from solvers.portfolio.tuning import compute_sigmas


@pytest.mark.parametrize("sampling", ["iid", "disjoint"])
def test_an_estimate_is_the_mean_success_of_the_nearest_items(sampling: str) -> None:
    rng = np.random.default_rng(0)
    items, success = rng.random((60, 5)).astype(np.float32), rng.random((60, 3)).astype(np.float32)
    samples = draw_samples(rng, 60, 4, 15, sampling)  # type: ignore[arg-type]
    estimator = NeighborEstimator.from_items(EmbeddingScaling.without_scaling(5), items, success, samples)
    queries = rng.random((20, 5)).astype(np.float32)
    for query, estimates in zip(queries, estimator.estimate(queries), strict=True):
        nearest = [row[np.argmin(np.linalg.norm(items[row] - query, np.inf, axis=1))] for row in samples]
        assert estimates == pytest.approx(success[nearest].astype(float).mean(axis=0), abs=1e-12)


def test_embeddings_are_scaled_by_the_items_and_queries_like_them() -> None:
    rng = np.random.default_rng(1)
    items = (rng.random((50, 3)) * [1.0, 1000.0, 1e-6] + [5.0, -300.0, 2.0]).astype(np.float32)
    scaling = EmbeddingScaling.from_vectors(items)
    scaled = scaling.apply(items)
    assert scaled.min(axis=0).tolist() == [0.0, 0.0, 0.0]
    assert scaled.max(axis=0).tolist() == [1.0, 1.0, 1.0]
    outside = scaling.apply(items[:1] + 2000.0)
    assert outside.min() > 1  # not clipped
    constant = EmbeddingScaling.from_vectors(np.ones((4, 2), np.float32))
    assert constant.apply(np.full((1, 2), 3.0)).tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 2)), np.zeros((1, 3, 1))])
def test_queries_of_another_shape_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidRequest, match=r"queries: must have shape n x 3, got "):
        EmbeddingScaling.from_vectors(np.eye(3, dtype=np.float32)).apply(bad)


def test_queries_that_are_not_finite_after_scaling_are_refused() -> None:
    items = np.array([[0.0, 0.0], [1e-30, 1.0]], dtype=np.float32)
    for bad in ([[0.0, np.nan]], [[np.inf, 0.0]], [[1e30, 0.0]]):
        with pytest.raises(InvalidRequest, match="row 1, column"):
            EmbeddingScaling.from_vectors(items).apply(np.array(bad))


def lipschitz(points: np.ndarray) -> np.ndarray:
    """Give how likely a made-up classifier is right at points of the unit square: a function with a bounded slope."""
    return np.asarray(0.5 + 0.45 * np.sin(4 * points[:, 0]) * np.cos(3 * points[:, 1]))


def repeated(count: int, size: int, times: int = 300) -> np.ndarray:
    """Estimate at one query many times, each with fresh items and 0/1 outcomes: (times,)."""
    query, estimates = np.array([[0.4, 0.7]], dtype=np.float32), []
    for seed in range(times):
        rng = np.random.default_rng([count, size, seed])
        items = rng.random((count * size, 2)).astype(np.float32)
        success = (rng.random(len(items)) < lipschitz(items)).astype(np.float32)[:, None]
        samples = np.arange(count * size, dtype=np.int32).reshape(count, size)
        estimates.append(
            NeighborEstimator.from_items(EmbeddingScaling.without_scaling(2), items, success, samples).estimate(query)[
                0, 0
            ]
        )
    return np.array(estimates)


@pytest.mark.slow
def test_the_bias_vanishes_as_samples_grow() -> None:
    """Lemma 4.5: with 2,000 items a sample the mean of many estimates is the truth; with 2 it is off."""
    truth = float(lipschitz(np.array([[0.4, 0.7]]))[0])
    small, large = (abs(repeated(5, size).mean() - truth) for size in (2, 2000))
    standard_error = 0.5 / np.sqrt(5 * 300)
    assert large < 4 * standard_error
    assert small > 2 * large


@pytest.mark.slow
def test_the_variance_falls_as_one_over_the_number_of_samples() -> None:
    """Lemma 4.6, with the mended exponent: 16 samples have a sixteenth of the variance of one, not a quarter."""
    one, sixteen = (float(repeated(count, 200, 600).var()) for count in (1, 16))
    assert 10 < one / sixteen < 25


def test_sigma_is_the_deviation_of_the_error_and_not_its_bias() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random((1000, 2))
    estimates = truth + rng.normal([0.3, 0.0], [0.1, 0.2], (1000, 2))
    assert compute_sigmas(estimates, truth) == pytest.approx([0.1, 0.2], rel=0.1)


@settings(max_examples=60)
@given(
    st.integers(1, 12), st.integers(1, 20), st.integers(1, 200), st.sampled_from(["iid", "disjoint"]), st.integers(0, 9)
)
def test_samples_hold_no_item_twice_and_seeds_reproduce(
    count: int, size: int, items: int, sampling: str, seed: int
) -> None:
    if size > items or (sampling == "disjoint" and count * size > items):
        with pytest.raises(InvalidRequest, match=rf"at most {items}\b"):
            draw_samples(np.random.default_rng(seed), items, count, size, sampling)  # type: ignore[arg-type]
        return
    one, two = (draw_samples(np.random.default_rng(seed), items, count, size, sampling) for _ in range(2))  # type: ignore[arg-type]
    assert np.array_equal(one, two)
    assert one.shape == (count, size)
    assert all(len(set(row)) == size for row in one.tolist())
    assert 0 <= one.min() <= one.max() < items
    if sampling == "disjoint":
        assert len(set(one.ravel().tolist())) == count * size


@given(st.integers(1, 20_000), st.integers(1, 100_000), st.sampled_from(["iid", "disjoint"]))
def test_samples_that_are_tried_stay_under_the_cap(items: int, cap: int, sampling: str) -> None:
    options = PortfolioOptions(max_items=cap, sampling=sampling)  # type: ignore[arg-type]
    tried = list(iterate_sample_sizes(options, items))
    assert tried
    for size, counts in tried:
        assert counts
        assert size <= items
        assert all(count * size <= cap for count in counts)
        assert sampling == "iid" or all(count * size <= items for count in counts)
    sizes = [size for size, _ in tried]
    assert sizes == sorted(set(sizes))


def test_samples_that_are_asked_for_are_the_last_ones_tried() -> None:
    options = PortfolioOptions(samples=Samples(count=7, size=120))
    assert list(iterate_sample_sizes(options, 1000)) == [(25, (7,)), (50, (7,)), (100, (7,)), (120, (7,))]
