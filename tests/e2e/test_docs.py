"""The documentation pages in a real browser that can reach nothing but the service."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e import visits
from tests.e2e.visits import Visit
from tests.support.servers import Server

pytestmark = visits.MARKS


@pytest.fixture
def visit(server: Server) -> Iterator[Visit]:
    with visits.browser() as browser, visits.visit(browser, server.url) as visit:
        yield visit


def test_docs_renders_without_the_internet_and_tries_a_request_out(visit: Visit) -> None:
    page = visit.page
    page.goto("/docs")
    expect(page.get_by_role("heading", name="Parsimony")).to_be_visible()
    operation = page.locator("#operations-cascade-solve_cascade_v1_cascades_solve_post")
    operation.locator("button.opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    reply = operation.locator(".live-responses-table .response")
    expect(reply.locator(".response-col_status")).to_contain_text("200")
    expect(reply).to_contain_text("expected_duration")
    expect(reply).to_contain_text("12.5")
    assert (visit.outside, visit.complaints) == ([], [])


def test_redoc_renders_without_the_internet(visit: Visit) -> None:
    visit.page.goto("/redoc")
    expect(visit.page.get_by_role("heading", name="Parsimony").first).to_be_visible()
    expect(visit.page.get_by_role("heading", name="Order classifiers without an artifact")).to_be_visible()
    assert (visit.outside, visit.complaints) == ([], [])
