"""Fixtures: a real store, a real server, each with a folder of its own."""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from app.settings import Settings
from app.store.client import Store
from app.store.embedded import EmbeddedRedis
from app.store.repositories import Repositories, open_repositories
from tests.support import kinds
from tests.support.samples import trace_upload
from tests.support.servers import Server, running_server, wait_for

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "numba"))
"""Kernels are compiled once for all processes of a run, servers and workers among them, and kept for the next."""
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
"""The test processes have all cores: small builds train where they are. Tests of training in processes ask for more."""
settings.register_profile("shared", deadline=None)  # machines are shared: an example may take any time
settings.register_profile("quick", settings.get_profile("shared"), max_examples=40)
settings.load_profile("shared")

LIMIT = 2_000_000
"""Bytes of a body that the server with all kinds takes."""
COSTS = ("unit", "server", "browser", "chaos", "docs")
"""Markers of which every test has exactly one; see pyproject.toml."""
COST_OF_FOLDER = {"e2e": "server", "attack": "server", "faults": "chaos", "containers": "chaos", "deploy": "docs"}
SERVER_FIXTURES = {"server", "all_kinds"}
BROWSER_FIXTURES = {"browser", "visit"}
LONGEST_FIRST = """
    readme console console_words batches runs clock openapi examples reliability refit_error guarantees learned items
    frontier losses_by_kind builds worker publish off_policy cost_regression assignment_limits growth archives
    constrained query_costs knapsack console_advice console_lists drift cluster jit crossings running add_a_kind index
    shutdown bytes store_away
"""
"""Modules that take longest begin first, so that no process is left waiting for them at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while modules are read, and none in what was read ever after: it stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def cost_of(item: pytest.Item) -> str:
    """Return the cost marker of a test: its own, else that of its fixtures or its folder."""
    for name in COSTS:
        if item.get_closest_marker(name):
            return name
    fixtures = set(getattr(item, "fixturenames", ()))
    if fixtures & BROWSER_FIXTURES:
        return "browser"
    folder = COST_OF_FOLDER.get(item.path.relative_to(Path(__file__).parent).parts[0], "unit")
    return "server" if folder == "unit" and fixtures & SERVER_FIXTURES else folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its cost, before tests are selected by marker, and put the longest modules first."""
    for item in items:
        item.add_marker(cost_of(item))
    names = {f"test_{name}": place for place, name in enumerate(LONGEST_FIRST.split())}
    items.sort(key=lambda item: names.get(item.path.stem, len(names)))


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PARSIMONY_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _built_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the processes of one run build the kinds' artifacts once for all."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        kinds.SHARED[:] = [tmp_path_factory.getbasetemp().parent]


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def store(redis: EmbeddedRedis) -> Iterator[Store]:
    store = Store(redis.url)
    store.client.flushdb()
    yield store
    store.close()


@pytest.fixture
def repos(redis: EmbeddedRedis, store: Store, tmp_path: Path) -> Iterator[Repositories]:
    with open_repositories(Settings(redis_url=redis.url, data_dir=tmp_path), client_name="test") as repos:
        yield repos


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with an embedded store, a worker beside it, and a cascade called ``trace``: one for each process."""
    with running_server(tmp_path_factory.mktemp("server")) as server:
        upload(server)
        yield server


@pytest.fixture(scope="session")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with a small artifact of each kind, all called ``plan``: one for each process."""
    with kinds.server_with_all_kinds(tmp_path_factory.mktemp("kinds"), max_body_bytes=LIMIT) as server:
        yield server


def upload(server: Server, name: str = "trace") -> None:
    """Store the sample trace, build a cascade from it, and wait until it answers."""
    assert server.client.put(f"/v1/datasets/{name}", files=trace_upload()).status_code == 201
    body = {"kind": "cascade", "name": name, "dataset": name, "params": {"target_precision": 0.9}}
    build = server.client.post("/v1/builds", json=body).json()
    with server.client.stream("GET", f"/v1/builds/{build['id']}/events") as events:
        last = [line for line in events.iter_lines() if line.startswith("data: ")][-1]
    assert '"succeeded"' in last, last
    wait_for(lambda: server.client.get(f"/v1/cascades/{name}/decision").status_code == 200, 10)
