"""Queries like those that were learned from are usual; others are farther than all of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store import codec
from models import Trace, TraceSpec
from models.portfolio import PortfolioOptions, RouteQuery
from solvers import Run
from solvers.portfolio import fit
from solvers.portfolio.novelty import NoveltyScale, nearest_distances, squared
from solvers.portfolio.plan import PortfolioPlan


def drawn(rows: int, seed: int, shift: float = 0.0) -> Any:
    """Draw embeddings of 12 numbers, some world's or another's."""
    return (np.random.default_rng(seed).normal(size=(rows, 12)) + shift).astype(np.float32)


@pytest.mark.parametrize("seed", range(5))
def test_ranks_of_like_queries_are_even_and_of_others_the_highest(seed: int) -> None:
    scale = NoveltyScale.fit(drawn(2000, seed), np.arange(2000), np.random.default_rng(0))
    usual = scale.rank(drawn(4000, 100 + seed))
    assert abs(usual.mean() - 0.5) < 0.04
    assert 0.003 < (usual > 0.99).mean() < 0.03
    assert np.all(scale.rank(drawn(100, 7, shift=10.0)) == 1.0)


def test_repeated_items_do_not_make_others_look_novel() -> None:
    """A row whose item is a reference is at no distance, whatever a new item's is."""
    rows = np.repeat(np.arange(500), 4)
    vectors = drawn(500, 0)[rows]
    named = NoveltyScale.fit(vectors, rows, np.random.default_rng(0))
    fresh = drawn(2000, 1)
    assert (named.rank(fresh) > 0.99).mean() < 0.2
    assert (NoveltyScale.fit(vectors, np.arange(2000), np.random.default_rng(0)).rank(fresh) > 0.99).mean() < 0.2


def test_novelty_is_measured_where_every_item_has_many_rows() -> None:
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(40), 25))
    scale = NoveltyScale.fit(drawn(40, 0)[rows], rows, np.random.default_rng(0))
    assert scale.rank(drawn(2000, 1)).mean() == pytest.approx(0.5, abs=0.15)


def test_a_single_item_gives_no_scale() -> None:
    scale = NoveltyScale.fit(drawn(50, 0), np.zeros(50, dtype=np.int64), np.random.default_rng(0))
    assert scale.references.size == scale.distances.size == 0


def test_later_rows_of_a_trace_in_order_are_as_usual_as_earlier_ones() -> None:
    rng = np.random.default_rng(0)
    vectors = np.concatenate((rng.normal(size=(5000, 8)) * 0.1, rng.normal(size=(5000, 8)) * 3)).astype(np.float32)
    scale = NoveltyScale.fit(vectors, np.arange(10_000), rng)
    assert (scale.rank(rng.normal(size=(5000, 8)) * 3) > 0.99).mean() < 0.1


def test_queries_equal_to_references_are_not_novel() -> None:
    """With ten embeddings in all, each of them is a reference."""
    rng = np.random.default_rng(0)
    vectors = np.eye(10, dtype=np.float32)[rng.integers(10, size=1000)]
    scale = NoveltyScale.fit(vectors, np.arange(1000), rng)
    assert scale.rank(vectors[:10]).tolist() == [0.0] * 10


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 5), st.integers(0, 100))
def test_distances_are_those_of_all_pairs(r: int, n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    references, queries = rng.normal(size=(r, d)).astype(np.float32), rng.normal(size=(n, d))
    every = np.linalg.norm(queries[:, None] - references[None].astype(np.float64), axis=2).min(axis=1)
    assert nearest_distances(*squared(references), queries) == pytest.approx(every)


@pytest.mark.parametrize("estimator", ["auto", "occam"])
def test_decisions_and_batches_report_it_also_from_their_bytes(estimator: str) -> None:
    rng, vectors = np.random.default_rng(0), drawn(400, 0)
    right = (rng.random((400, 2)) < (0.6, 0.9)).astype(float)
    classifiers = [{"name": f"k{j}", "correct": f"c{j}", "cost": 1.0 + j} for j in range(2)]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
    dataset = Trace.from_columns(spec, {f"c{j}": right[:, j] for j in range(2)}, vectors)
    options = PortfolioOptions.model_validate({"estimator": estimator, "curve_points": 3})
    plan = fit(dataset, options, np.random.default_rng(0), Run()).plan
    plan = codec.decode(codec.encode(plan, {}), PortfolioPlan)
    near, far = (
        plan.decide(RouteQuery(query=tuple(row.tolist()), budget="90%")).novelty
        for row in (vectors[0] + 0.01, vectors[0] + 100)
    )
    assert near is not None
    assert near < 0.99
    assert far == 1.0
    share = plan.novel_share(drawn(1000, 5))
    assert share is not None
    assert share < 0.1
    assert plan.novel_share(drawn(1000, 5, shift=50.0)) == 1.0
