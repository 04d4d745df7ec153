"""The profile `dask`: builds are trained by several workers, and one that is lost in mid-training costs time only."""

import json
from collections.abc import Iterator

import pytest

from tests.containers.house import House, docker
from tests.containers.load import nothing_lost, unshaken
from tests.support.samples import FEATURES_SPEC, feature_columns, table_upload, to_csv
from tests.support.servers import wait_for

DASK = ("--profile", "dask")
SCHEDULER = "tcp://dask-scheduler:8786"
AT_WORK = f"""
from distributed import Client
with Client("{SCHEDULER}", timeout=30) as client:
    workers = client.scheduler_info()["workers"].values()
    print(sum(map(len, client.processing().values())), *(each["host"] for each in workers))
"""
FOREST = {"learner": "sklearn.ensemble.RandomForestClassifier", "learner_params": {"n_estimators": 400}, "folds": 5}


@pytest.fixture(scope="module")
def trained_by_dask(house: House) -> Iterator[House]:
    house.compose(*DASK, "up", "--detach", "dask-scheduler", "dask-worker", DASK_WORKERS="2")
    try:
        wait_for(lambda: house.is_well("dask-scheduler"), 60)
        wait_for(lambda: len(set(at_work(house)[1])) == 2, 60, lambda: str(at_work(house)))
        house.compose("up", "--detach", "--no-deps", "worker", PARSIMONY_DASK_SCHEDULER=SCHEDULER)
        parts = table_upload(to_csv(feature_columns()))
        parts["spec"] = (None, json.dumps(FEATURES_SPEC))
        assert house.client.put("/v1/datasets/table", files=parts).status_code in (200, 201)
        yield house
    finally:
        house.compose("up", "--detach", "--no-deps", "worker")
        house.compose(*DASK, "rm", "--stop", "--force", "dask-scheduler", "dask-worker")


def at_work(house: House) -> tuple[int, list[str]]:
    """Give how many pieces of training are being done, and the addresses of the workers' processes."""
    pieces, *hosts = house.run_in("dask-scheduler", "python", "-c", AT_WORK).split()
    return int(pieces), hosts


def start(house: House, name: str, **params: object) -> str:
    body = {"kind": "index", "name": name, "dataset": "table", "params": params}
    return str(house.client.post("/v1/builds", json=body).headers["location"])


def ended(house: House, path: str) -> dict[str, str]:
    wait_for(lambda: house.client.get(path).json()["status"] not in ("queued", "running"), 240)
    return dict(house.client.get(path).json())


def test_a_build_is_trained_on_the_dask_profile(trained_by_dask: House) -> None:
    path = start(trained_by_dask, "by-dask")
    assert ended(trained_by_dask, path)["status"] == "succeeded", trained_by_dask.client.get(path).text


def test_a_dask_worker_that_is_lost_in_the_middle_of_training_costs_time_only(trained_by_dask: House) -> None:
    house = trained_by_dask
    lost, _ = house.containers("dask-worker")
    with nothing_lost(house), unshaken(house):
        path = start(house, "by-one-dask-worker", **FOREST)
        wait_for(lambda: at_work(house)[0] > 0, 60)
        docker("kill", lost)
        assert house.client.get(path).json()["status"] == "running"
        build = ended(house, path)
        assert build["status"] == "succeeded", build
    assert docker("inspect", "--format", "{{.State.Running}}", lost) == "false"
