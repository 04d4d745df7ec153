"""Steps that the tests of the store share: datasets, plans and builds made the way the application makes them."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.building.run_build import fit
from app.processes.clock import current_timestamp
from app.store import codec
from app.store.builds import validate_build_request
from app.store.repositories import Repositories
from app.store.uploads import parse_spec
from models import ArtifactRecord, BuildRequest, Dataset, dataset_from_columns
from models.stored_dataset import DatasetInfo
from solvers import no_progress
from solvers.cascade import CascadePlan
from tests.support.samples import FEATURES_SPEC, MIXED_SPEC, TRACE_SPEC, mixed_columns, trace_columns


def trace(rows: int = 60, seed: int = 0) -> Dataset:
    columns = {name: np.array(cells) for name, cells in trace_columns(rows, seed).items()}
    return dataset_from_columns(parse_spec(json.dumps(TRACE_SPEC)), columns)


def features(rows: int = 6) -> Dataset:
    columns: dict[str, NDArray[Any]] = {name: np.arange(rows) / 7 for name in ("glucose", "t1", "t2", "s1")}
    columns |= {"outcome": np.arange(rows) % 2, "pixels": np.arange(rows) + 1}
    return dataset_from_columns(parse_spec(json.dumps(FEATURES_SPEC)), columns)


def mixed() -> Dataset:
    return dataset_from_columns(parse_spec(json.dumps(MIXED_SPEC)), mixed_columns())


def put_trace(repos: Repositories, name: str = "trace", seed: int = 0) -> DatasetInfo:
    return repos.datasets.put(name, trace(seed=seed), created_at=current_timestamp())[0]


def request(name: str = "plan", dataset: str = "trace", **changes: Any) -> BuildRequest:
    return BuildRequest(**{"kind": "cascade", "name": name, "dataset": dataset, **changes})


def built(repos: Repositories, asked: BuildRequest) -> bytes:
    return fit(repos, asked, validate_build_request(asked)[1], no_progress)


PLAN = CascadePlan(
    names=("K1", "K2"),
    thresholds=np.array([0.9, np.nan]),
    execution_times=np.array([1.0, 5.0]),
    worst_case_times=np.array([2.0, 6.0]),
    maximum_durations=np.array([6.0, 8.0]),
    expected_durations=np.array([5.0, 3.5]),
    offsets=np.array([0, 1, 3]),
    members=np.array([1, 0, 1], dtype=np.int32),
    reaching=np.array([1.0, 1.0, 0.5]),
    algorithm="set-states",
    optimal=True,
    unit="ms",
    discarded=(),
    lower_bound=3.5,
)


def artifact(name: str = "plan", seed: int = 0, **changes: Any) -> bytes:
    about = {"kind": "cascade", "name": name, "dataset": "trace", "dataset_sha256": hashlib.sha256(b"").hexdigest()}
    manifest = about | {"params": {}, "seed": seed, "unit": "ms", "summary": {"found": 1}}
    return codec.encode(replace(PLAN), {**manifest, **changes})


def publish(repos: Repositories, name: str = "plan", seed: int = 0) -> ArtifactRecord:
    return repos.artifacts.publish(artifact(name, seed), created_at=current_timestamp())


def keys(repos: Repositories, pattern: str = "*") -> list[str]:
    names: list[bytes] = repos.store.client.keys(pattern)  # type: ignore[assignment]
    return sorted(name.decode() for name in names)
