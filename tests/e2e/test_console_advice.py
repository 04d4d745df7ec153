"""Advice in a real browser: a button compares the methods, and the panel says which to take, then and later."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import visits
from tests.e2e.test_console import settle
from tests.e2e.visits import Visit
from tests.support.patience import patient
from tests.support.samples import trace_upload
from tests.support.servers import Server, held_worker, running_server, wait_for

pytestmark = visits.MARKS
BUDGET, LEAST = 5.5, 0.85


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with a trace without embeddings: a cascade and a policy can learn from it."""
    with running_server(tmp_path_factory.mktemp("advice")) as server:
        server.wait_for_worker()
        assert server.client.put("/v1/datasets/small", files=trace_upload(200)).status_code == 201
        yield server


@pytest.fixture(scope="module")
def advice(server: Server) -> dict[str, Any]:
    """Give the advice that the button asked for; ask for it if no test has pressed it."""
    if server.client.get("/v1/advice/small").status_code == 404:
        body = {"dataset": "small", "budget": BUDGET, "min_accuracy": LEAST}
        job = server.client.post("/v1/advice", json=body).headers["location"]
        wait_for(lambda: server.client.get(job).json()["status"] == "succeeded", 120)
    advice: dict[str, Any] = server.client.get("/v1/advice/small").json()
    return advice


def panel(page: Page) -> Locator:
    return page.get_by_role("region", name="Find the best kind of artifact")


def row_of(page: Page, method: str) -> Locator:
    return panel(page).locator("#advice > .scroll tbody tr").filter(has_text=method)


def test_a_button_compares_the_methods_and_the_panel_says_which_to_take(visit: Visit, server: Server) -> None:
    page = visit.page
    page.goto("/datasets/small")
    expect(page.get_by_label("Budget", exact=True)).to_have_value("")
    page.get_by_label("Budget", exact=True).fill(str(BUDGET))
    page.get_by_label("Lowest accuracy (%)").fill("85")
    with held_worker(server):  # else the comparison may be over before anybody looks
        page.get_by_role("button", name="Compare the kinds").click()
        expect(panel(page).get_by_role("progressbar")).to_be_visible()
        expect(panel(page).get_by_role("button", name="Cancel the comparison")).to_be_visible()
        expect(page.get_by_role("button", name="Compare the kinds")).to_be_disabled()
    expect(panel(page).locator(".summary")).to_be_visible(timeout=patient(120_000))
    advice = server.client.get("/v1/advice/small").json()
    assert (advice["budget"], advice["deadline"], advice["min_accuracy"]) == (BUDGET, None, LEAST)
    for _ in range(2):  # then, and on a later visit
        settle(page)
        expect(panel(page).locator(".summary")).to_have_text(advice["summary"])
        expect(panel(page).get_by_role("progressbar")).to_have_count(0)
        expect(page.get_by_role("button", name="Compare the kinds")).to_be_enabled()
        expect(page.get_by_label("Lowest accuracy (%)")).to_have_value("85")
        page.reload()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("Lowest accuracy (%)", "150", "at most 100"),
        ("Budget", "-1", "at least 0"),
        ("Deadline", "1e300", "at most"),
    ],
)
def test_a_wrong_limit_is_said_at_its_field(visit: Visit, field: str, value: str, said: str) -> None:
    visit.page.goto("/datasets/small")
    settle(visit.page)
    visit.page.get_by_label(field, exact=True).fill(value)
    visit.page.get_by_role("button", name="Compare the kinds").click()
    expect(visit.page.get_by_label(field, exact=True)).to_have_attribute("aria-invalid", "true")
    expect(panel(visit.page).locator(".fault").filter(has_text=said)).to_have_count(1)
    visit.complaints[:] = [line for line in visit.complaints if "422" not in line]


def test_a_method_is_built_with_the_settings_that_were_compared(
    visit: Visit, server: Server, advice: dict[str, Any]
) -> None:
    visit.page.goto("/datasets/small")
    settle(visit.page)
    row_of(visit.page, "cascade").get_by_role("button", name="Build", exact=True).click()
    expect(visit.page.get_by_role("link", name="Show version 1 of small")).to_be_visible(timeout=patient(60_000))
    cascade = next(one for one in advice["kinds"] if one["kind"] == "cascade")
    built = server.client.get("/v1/artifacts/cascade/small").json()
    assert cascade["params"].items() <= built["params"].items()
