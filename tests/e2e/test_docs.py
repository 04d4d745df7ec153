"""The documentation pages in a real browser that can reach nothing but the service."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page, Route, expect, sync_playwright

from tests.servers import Server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"),
]


@dataclass
class Visit:
    """A page, and what it tried and complained about."""

    page: Page
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def visit(server: Server) -> Iterator[Visit]:
    """Open a browser in which every request to anywhere else is noted and blocked."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(base_url=server.url)
        found = Visit(page)

        def only_ours(route: Route) -> None:
            address = route.request.url
            if address.startswith((server.url, "data:", "blob:")):
                route.continue_()
            else:
                found.outside.append(address)
                route.abort()

        page.route("**/*", only_ours)
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("console", lambda line: found.complaints.append(line.text) if line.type == "error" else None)
        yield found
        browser.close()


def test_docs_renders_without_the_internet_and_tries_a_request_out(visit: Visit) -> None:
    page = visit.page
    page.goto("/docs")
    expect(page.get_by_role("heading", name="Parsimony")).to_be_visible()
    operation = page.locator("#operations-cascade-solve_v1_cascades_solve_post")
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
    expect(visit.page.get_by_role("heading", name="Order classifiers at once")).to_be_visible()
    assert (visit.outside, visit.complaints) == ([], [])
