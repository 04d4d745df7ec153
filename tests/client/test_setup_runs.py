"""Runs of artifacts whose features share set-up work, on a server: by the service, and with the caller's functions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from httpx import Response

from parsimony import Parsimony
from tests.e2e.test_errors import is_problem
from tests.solvers.setup.tables import OWN, SETUP, cost_of, patients_columns, patients_spec
from tests.support.samples import to_csv
from tests.support.servers import Server, running_server

pytestmark = [pytest.mark.server, pytest.mark.smoke]
PARAMS: dict[str, dict[str, Any]] = {
    "index": {"folds": 2},
    "pipeline": {"max_stages": 4},
    "policy": {"points": 6, "folds": 2, "trees": 8},
}
LIMITS: dict[str, dict[str, Any]] = {"index": {"budget": 15.0}, "pipeline": {}, "policy": {"tradeoff": 0.002}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("setup")) as running:
        assert upload(running, patients_spec()).status_code == 201
        with Parsimony(running.url) as client:
            for kind, params in PARAMS.items():
                client.build(kind, "patients", "patients", params=params)
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Parsimony]:
    with Parsimony(server.url) as connected:
        yield connected


def upload(server: Server, spec: Mapping[str, Any], rows: int = 400) -> Response:
    table = ("table.csv", to_csv({name: list(cells) for name, cells in patients_columns(rows).items()}), "text/csv")
    files: dict[str, Any] = {"spec": (None, json.dumps(spec)), "table": table}
    return server.client.put("/v1/datasets/patients", files=files)


@pytest.mark.parametrize("kind", PARAMS)
def test_runs_and_evaluations_cost_what_the_called_features_do(client: Parsimony, kind: str) -> None:
    artifact, columns = getattr(client, kind)("patients"), patients_columns(12, 4)
    functions = {name: lambda item, name=name: item[name] for name in OWN}
    costs = []
    for row in range(12):
        item = {name: float(columns[name][row]) for name in OWN}
        result = artifact.run(item, functions, **LIMITS[kind])
        assert result.cost == pytest.approx(cost_of(result.called))
        costs.append(result.cost)
    assert max(costs) > 9


def test_the_dataset_its_profile_and_the_summaries_show_the_groups(server: Server, client: Parsimony) -> None:
    names, shown, profile = list(SETUP), dict(client.show_dataset("patients")), dict(client.show_profile("patients"))
    spec: Any = shown["spec"]
    assert [group["name"] for group in spec["setup"]] == names
    groups: Any = profile["setup"]
    assert {one["name"]: (one["cost"], tuple(one["features"])) for one in groups} == SETUP
    for kind in PARAMS:
        record = server.client.get(f"/v1/artifacts/{kind}/patients").json()
        assert [one["name"] for one in record["summary"]["setup"]] == names


REFUSED = [
    ({"features": ["sugar"]}, "spec", "'blood' has unknown feature 'sugar'"),
    ({"name": "glucose"}, "spec", "got 'glucose'"),
    ({"cost": -3}, "spec.setup.0.cost", "-3"),
]


@pytest.mark.parametrize(("fields", "place", "words"), REFUSED)
def test_wrong_groups_are_refused_at_their_field(
    server: Server, fields: dict[str, Any], place: str, words: str
) -> None:
    group = {"name": "blood", "cost": 10, "features": ["glucose"], **fields}
    reply = upload(server, patients_spec(setup=[group]))
    problem = is_problem(reply, 422, "invalid-request")
    assert ".".join(map(str, problem["errors"][0]["loc"])).startswith(place)
    assert words in problem["errors"][0]["msg"]
