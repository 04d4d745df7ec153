"""What the tests in a browser share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e import visits
from tests.e2e.visits import Visit
from tests.support.model_process import ModelServer, running_models
from tests.support.servers import Server


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with running_models() as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with visits.browser() as running:
        yield running


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    """Open a tab on the module's server; in the end nothing was complained of."""
    with visits.visit(browser, server.url) as visit:
        yield visit
        assert (visit.outside, visit.complaints) == ([], [])
