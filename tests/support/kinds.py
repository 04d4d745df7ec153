"""A small artifact of each kind, built through a server in seconds."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models import Dataset, FeaturesSpec, TraceSpec, Value, dataset_from_columns
from models.cascade import CascadeOptions, CascadeQuery
from models.index import IndexOptions, IndexQuery
from models.pipeline import PipelineOptions, PipelineQuery
from models.policy import Answer, PolicyOptions, PolicyQuery
from models.portfolio import PortfolioOptions, RouteQuery, Samples
from tests.support.samples import (
    FEATURES_SPEC,
    MIXED_SPEC,
    TRACE_SPEC,
    embedded_upload,
    feature_columns,
    mixed_columns,
    to_csv,
    trace_columns,
    trace_embeddings,
)
from tests.support.servers import Server, running_server, wait_for


@dataclass(frozen=True)
class Sample:
    """A small problem for a kind, and all that the tests of every kind ask about it.

    dataset: ``trace``, ``features`` or ``mixed``. feasible, infeasible: queries that can be answered, and some that
    cannot. judged_rows: on how many rows the build judges what it expects. inputs: a plain question for its first
    look-up.
    """

    dataset: str
    options: Value
    feasible: tuple[Value, ...]
    infeasible: tuple[Value, ...]
    judged_rows: int
    inputs: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        return self.options.model_dump(mode="json", exclude_unset=True)


def _route(confidences: tuple[float, float], budget: float | str) -> RouteQuery:
    return RouteQuery(query=confidences, budget=budget)


SAMPLES: dict[str, Sample] = {
    "cascade": Sample(
        "trace",
        CascadeOptions(target_precision=0.9, deadlines=(12.0, 1.0)),
        (CascadeQuery(), CascadeQuery(deadline=12.0), CascadeQuery(deadline=1e9)),
        (CascadeQuery(deadline=0.5),),
        judged_rows=400,
        inputs={"deadline": 13},
    ),
    "portfolio": Sample(
        "trace",
        PortfolioOptions(curve_points=3, samples=Samples(count=10, size=50)),
        (_route((0.9, 0.9), "50%"), _route((0.4, 0.4), 3.0), _route((0.4, 0.9), 1e9)),
        (_route((0.9, 0.9), 0.5), _route((0.9, 0.9), "1%")),
        judged_rows=100,
        inputs={"query": [0.9, 0.4], "budget": "60%"},
    ),
    "index": Sample(
        "features",
        IndexOptions(folds=2),
        (IndexQuery(size=64.0, budget=0.0), IndexQuery(size=64.0, budget=4.0), IndexQuery(size=9.0, budget=1e9)),
        (),
        judged_rows=200,
        inputs={"size": 64, "budget": 5},
    ),
    "policy": Sample(
        "trace",
        PolicyOptions(points=3, trees=5, depth=2),
        (
            PolicyQuery(),
            PolicyQuery(budget=5.0, item="a"),
            PolicyQuery(tradeoff=0.01, acquired={"fast": ("cat", 0.9)}),
            PolicyQuery(
                acquired={"fast": Answer(label="cat", confidence=0.9), "middle": ("dog", 0.5), "strong": "dog"}
            ),
        ),
        (),
        judged_rows=400,
        inputs={"budget": 3.0},
    ),
    "pipeline": Sample(
        "mixed",
        PipelineOptions(confidence_threshold=0.7),
        (PipelineQuery(), PipelineQuery(budget=5.0), PipelineQuery(min_coverage=0.5, min_accuracy=0.5)),
        (PipelineQuery(budget=0.1), PipelineQuery(min_coverage=1.0, min_accuracy=1.0)),
        judged_rows=76,
        inputs={"budget": 4.5},
    ),
}
"""One for each kind: a new one adds its own here, and all that is tested of every kind is tested of it."""


def dataset(name: str) -> Dataset:
    if name == "mixed":
        return dataset_from_columns(FeaturesSpec.model_validate(MIXED_SPEC), mixed_columns())
    if name == "features":
        columns = {each: np.array(cells) for each, cells in feature_columns().items()}
        return dataset_from_columns(FeaturesSpec.model_validate(FEATURES_SPEC), columns)
    cells = trace_columns()
    arrays = {each: np.array(column) for each, column in cells.items()}
    return dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), arrays, trace_embeddings(cells))


@contextmanager
def server_with_all_kinds(folder: Path, **settings: Any) -> Iterator[Server]:
    """Run a server with an artifact of each, all called ``plan``; its client sends the key ``k``, which may build."""
    with running_server(folder, api_keys="k:build", **settings) as server:
        server.client.headers["authorization"] = "Bearer k"
        upload_all(server)
        build_all(server)
        yield server


def upload_all(server: Server) -> None:
    """Store the datasets that the kinds learn from: ``trace``, ``features`` and ``mixed``."""
    mixed = {
        name: ["" if cell is None or cell != cell else cell for cell in column.tolist()]
        for name, column in mixed_columns().items()
    }
    uploads: dict[str, dict[str, Any]] = {
        "trace": embedded_upload(),
        "features": _upload(FEATURES_SPEC, feature_columns()),
        "mixed": _upload(MIXED_SPEC, mixed),
    }
    for name, files in uploads.items():
        reply = server.client.put(f"/v1/datasets/{name}", files=files)
        assert reply.status_code == 201, reply.text


_BUILT: dict[str, bytes] = {}
"""What this process of the tests has built already: another server imports it, which takes no time."""
SHARED: list[Path] = []
"""The folder in which the processes of one run leave what they built for each other, if there are several."""


def build_all(server: Server, name: str = "plan") -> None:
    """Build an artifact of each kind, all of one name, and wait until they answer."""
    for kind in SAMPLES:
        if name != "plan":
            _build(server, kind, name)
            continue
        with _alone(kind):
            if kind not in _BUILT:
                _BUILT[kind] = _found(kind)
            if _BUILT[kind]:
                headers = {"content-type": "application/octet-stream"}
                reply = server.client.post("/v1/artifacts/import", content=_BUILT[kind], headers=headers)
                assert reply.status_code == 201, reply.text
            else:
                _build(server, kind, name)
                _BUILT[kind] = server.client.get(f"/v1/artifacts/{kind}/plan/versions/1/export").content
                _leave(kind, _BUILT[kind])
    wait_for(lambda: _answering(server, name) == SAMPLES.keys(), 5)


def _build(server: Server, kind: str, name: str) -> None:
    sample = SAMPLES[kind]
    body = {"kind": kind, "name": name, "dataset": sample.dataset, "params": sample.params}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 60)
    assert server.client.get(path).json()["status"] == "succeeded"


@contextmanager
def _alone(kind: str) -> Iterator[None]:
    """Let one process of the run build a kind's artifact; the others wait for it."""
    if not SHARED:
        yield
        return
    with (SHARED[0] / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _found(kind: str) -> bytes:
    """Give what another process has built; nothing if there is nothing yet."""
    file = SHARED[0] / f"{kind}.parsimony" if SHARED else None
    return file.read_bytes() if file and file.exists() else b""


def _leave(kind: str, data: bytes) -> None:
    if SHARED:
        (SHARED[0] / f"{kind}.parsimony").write_bytes(data)


def _answering(server: Server, name: str) -> set[str]:
    reply = server.client.get("/v1/decisions", params={"name": name})
    return {one["artifact"]["kind"] for one in reply.json()["items"]} if reply.status_code == 200 else set()


def _upload(spec: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    return {"spec": (None, json.dumps(spec)), "table": ("table.csv", to_csv(columns), "text/csv")}
