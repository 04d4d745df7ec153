"""Every kind builds from a weighted sample what it promises of all traffic."""

from typing import Any

import numpy as np
import pytest

from models import FeaturesSpec, TraceSpec, apply_weights, dataset_from_columns
from tests.support.replays import QUERIES, REPLAYS, World, built

PARAMS: dict[str, dict[str, Any]] = {
    "cascade": {"target_precision": 0.8},
    "portfolio": {"samples": "auto"},
    "index": {},
    "policy": {"points": 8, "trees": 24, "folds": 4},
    "pipeline": {},
}
ROWS, UNSEEN, KEPT = 8000, 20_000, 8


def sampled(kind: str, seed: int, rows: int, weights: str | None) -> Any:
    """Draw rows, and keep one in eight of those with the correct answer of ``fast``, or of the first class."""
    world = World.of(seed, rows)
    plain = world.dataset(kind, measured=True)
    is_trace = not isinstance(plain.spec, FeaturesSpec)
    frequent = world.correct[:, 0] if is_trace else plain.labels == 0
    is_kept = ~frequent | (np.arange(rows) % KEPT == 0)
    columns = world.trace if is_trace else world.features
    kept = {name: column[is_kept] for name, column in columns.items()}
    kept["heft"] = np.where(frequent, float(KEPT), 1.0)[is_kept]
    spec = {**plain.spec.model_dump(), "weights": weights}
    if is_trace:
        return dataset_from_columns(TraceSpec.model_validate(spec), kept, world.embeddings[is_kept])
    return dataset_from_columns(FeaturesSpec.model_validate(spec), kept)


def misses(kind: str, weights: str | None) -> list[float]:
    """Return how far outcomes of unseen traffic are from promises, in half-widths of the promised intervals."""
    loaded = built(kind, apply_weights(sampled(kind, 1, ROWS, weights)), **PARAMS[kind])
    unseen = World.of(7, UNSEEN)
    outcomes = [each for query in QUERIES[kind] for each in REPLAYS[kind](loaded, unseen, query)]
    return [abs(one.true - one.said) / max(one.interval[1] - one.interval[0], 1e-9) * 2 for one in outcomes]


@pytest.mark.parametrize("kind", PARAMS)
@pytest.mark.slow
def test_what_a_weighted_sample_promises_comes_true_in_all_traffic(kind: str) -> None:
    assert max(misses(kind, "heft")) < 2
    assert max(misses(kind, None)) > 5
