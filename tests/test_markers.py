"""Each test has one cost, so that what `make test` leaves out is left out on purpose."""

import pytest

from tests.conftest import BROWSER_FIXTURES, COSTS, SERVER_FIXTURES


def test_every_collected_test_has_exactly_one_cost(request: pytest.FixtureRequest) -> None:
    costs = {
        item.nodeid: {mark.name for mark in item.iter_markers() if mark.name in COSTS} for item in request.session.items
    }
    assert {name: found for name, found in costs.items() if len(found) != 1} == {}


def test_no_unit_test_uses_a_server_or_a_browser(request: pytest.FixtureRequest) -> None:
    expensive = SERVER_FIXTURES | BROWSER_FIXTURES
    units = [item for item in request.session.items if item.get_closest_marker("unit")]
    assert [item.nodeid for item in units if expensive & set(getattr(item, "fixturenames", ()))] == []
