"""Fixtures of the tests of the composed house; run.sh starts it, and nothing here is collected without it."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.containers.house import PROXIED, House
from tests.support.servers import wait_for
from tests.support.services import upload_and_build

COMPOSE = os.environ.get("COMPOSED_HOUSE", "").split()
"""The words that come before compose's own commands; none where no house was started."""

if not COMPOSE:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    """Give the house that runs, ready, with one cascade in it, ``trace``."""
    house = House(COMPOSE, os.environ["COMPOSE_PROJECT_NAME"])
    house.wait_until_ready()
    upload_and_build(house, "trace")
    wait_for(lambda: house.client.get("/v1/cascades/trace/decision").status_code == 200, 5)
    yield house
    house.client.close()


@pytest.fixture(scope="session")
def proxied(house: House) -> Iterator[House]:
    """Give the same house as it is reached through the proxy, with two servers behind it."""
    house.compose("up", "--detach", "--no-recreate", "more-servers", "proxy")
    behind = House(COMPOSE, house.project, PROXIED)
    behind.wait_until_ready()
    wait_for(lambda: house.is_well("more-servers"), 60)
    yield behind
    behind.client.close()


@pytest.fixture(scope="session")
def services(house: House) -> dict[str, dict[str, Any]]:
    return house.services()
