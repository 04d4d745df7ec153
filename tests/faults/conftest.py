"""Fixtures: a store that a test may do anything to, and a proxy before it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stores import Proxy, StoreProcess, running_store


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    """Run a store for the tests of a module to do their worst to, and to heal again."""
    with running_store(tmp_path_factory.mktemp("doomed") / "data") as store:
        yield store


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[StoreProcess]:
    with running_store(tmp_path / "doomed") as store:
        yield store


@pytest.fixture
def proxy(fresh: StoreProcess) -> Iterator[Proxy]:
    proxy = Proxy(fresh.port)
    yield proxy
    proxy.close()
