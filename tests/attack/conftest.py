"""One server with an artifact of every subject, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.servers import Server
from tests.subjects import server_with_all_subjects

LIMIT = 2_000_000


@pytest.fixture(scope="session")
def all_subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with a small artifact of each subject, all called ``plan``."""
    with server_with_all_subjects(tmp_path_factory.mktemp("subjects"), max_body_bytes=LIMIT) as server:
        yield server
