"""What several modules share: models, a server of chats, and a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e import visits
from tests.e2e.chats import register, running_chats
from tests.e2e.visits import Visit
from tests.support.llm_server import LlmServer, running_llms
from tests.support.model_process import ModelServer, running_models
from tests.support.servers import Server


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with running_models() as server:
        yield server


@pytest.fixture(scope="session")
def llms() -> Iterator[LlmServer]:
    with running_llms() as server:
        yield server


@pytest.fixture(scope="session")
def chat_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_chats(tmp_path_factory.mktemp("chats")) as server:
        yield server


@pytest.fixture
def fresh_chats(chat_server: Server, llms: LlmServer) -> Server:
    """Give the server of chats with faults switched off and endpoints registered anew, so that no circuit is open."""
    llms.switch()
    register(chat_server, llms)
    return chat_server


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
