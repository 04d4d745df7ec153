"""A small artifact of each subject, built through a server in seconds."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.samples import FEATURES_SPEC, MIXED_SPEC, embedded_upload, feature_columns, mixed_columns, to_csv
from tests.servers import Server, running_server, wait_for

BUILDS: dict[str, tuple[str, dict[str, Any]]] = {
    "cascade": ("trace", {"target_precision": 0.9}),
    "portfolio": ("trace", {"curve_points": 3, "samples": {"count": 10, "size": 50}}),
    "index": ("features", {"folds": 3}),
    "policy": ("trace", {"points": 3, "trees": 5, "depth": 2}),
    "pipeline": ("mixed", {"confidence_threshold": 0.7}),
}
"""For each subject, the dataset and the parameters of its artifact."""


@contextmanager
def server_with_all_subjects(folder: Path, **settings: object) -> Iterator[Server]:
    """Run a server with an artifact of each, all called ``plan``; its client sends the key ``k``, which may build."""
    with running_server(folder, api_keys="k:build", **settings) as server:
        server.client.headers["authorization"] = "Bearer k"
        upload_all(server)
        build_all(server)
        yield server


def upload_all(server: Server) -> None:
    """Store the datasets that the subjects learn from: ``trace``, ``features`` and ``mixed``."""
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
    """Build an artifact of each subject, all of one name, and wait until they answer."""
    for solver in BUILDS:
        if name != "plan":
            _build(server, solver, name)
            continue
        with _alone(solver):
            if solver not in _BUILT:
                _BUILT[solver] = _found(solver)
            if _BUILT[solver]:
                headers = {"content-type": "application/octet-stream"}
                reply = server.client.post("/v1/artifacts/import", content=_BUILT[solver], headers=headers)
                assert reply.status_code == 201, reply.text
            else:
                _build(server, solver, name)
                _BUILT[solver] = server.client.get(f"/v1/artifacts/{solver}/plan/versions/1/export").content
                _leave(solver, _BUILT[solver])
    wait_for(lambda: _answering(server, name) == BUILDS.keys(), 5)


def _build(server: Server, solver: str, name: str) -> None:
    dataset, params = BUILDS[solver]
    body = {"solver": solver, "name": name, "dataset": dataset, "params": params}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 60)
    assert server.client.get(path).json()["status"] == "succeeded"


@contextmanager
def _alone(solver: str) -> Iterator[None]:
    """Let one process of the run build a subject's artifact; the others wait for it."""
    if not SHARED:
        yield
        return
    with (SHARED[0] / f"{solver}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _found(solver: str) -> bytes:
    """Give what another process has built; nothing if there is nothing yet."""
    file = SHARED[0] / f"{solver}.parsimony" if SHARED else None
    return file.read_bytes() if file and file.exists() else b""


def _leave(solver: str, data: bytes) -> None:
    if SHARED:
        (SHARED[0] / f"{solver}.parsimony").write_bytes(data)


def _answering(server: Server, name: str) -> set[str]:
    reply = server.client.get("/v1/decisions", params={"name": name})
    return {one["artifact"]["solver"] for one in reply.json()["items"]} if reply.status_code == 200 else set()


def _upload(spec: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    return {"spec": (None, json.dumps(spec)), "table": ("table.csv", to_csv(columns), "text/csv")}
