"""A small artifact of each subject, built through a server in seconds."""

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


def build_all(server: Server, name: str = "plan") -> None:
    """Build an artifact of each subject, all of one name, and wait until they answer."""
    for solver, (dataset, params) in BUILDS.items():
        if name == "plan" and solver in _BUILT:
            headers = {"content-type": "application/octet-stream"}
            reply = server.client.post("/v1/artifacts/import", content=_BUILT[solver], headers=headers)
            assert reply.status_code == 201, reply.text
            continue
        body = {"solver": solver, "name": name, "dataset": dataset, "params": params}
        path = server.client.post("/v1/builds", json=body).headers["location"]
        wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 60)  # noqa: B023
        assert server.client.get(path).json()["status"] == "succeeded"
        if name == "plan":
            _BUILT[solver] = server.client.get(f"/v1/artifacts/{solver}/plan/versions/1/export").content
    wait_for(lambda: _answering(server, name) == BUILDS.keys(), 5)


def _answering(server: Server, name: str) -> set[str]:
    reply = server.client.get("/v1/decisions", params={"name": name})
    return {one["artifact"]["solver"] for one in reply.json()["items"]} if reply.status_code == 200 else set()


def _upload(spec: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    return {"spec": (None, json.dumps(spec)), "table": ("table.csv", to_csv(columns), "text/csv")}
