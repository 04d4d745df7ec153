"""Advice in a real browser: a button compares the methods, and the panel says which to take, then and later."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.e2e import visits
from tests.e2e.test_console import SERIOUS, settle
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
    """Give the panel of a dataset's page."""
    return page.get_by_role("region", name="Which method is mine?")


def row_of(page: Page, method: str) -> Locator:
    """Give the row of a method in the panel's table."""
    return panel(page).locator("#advice > .scroll tbody tr").filter(has_text=method)


def test_a_button_compares_the_methods_and_the_panel_says_which_to_take(visit: Visit, server: Server) -> None:
    page = visit.page
    page.goto("/datasets/small")
    expect(page.get_by_label("Budget (ms)")).to_have_value("")
    page.get_by_label("Budget (ms)").fill(str(BUDGET))
    page.get_by_label("Least accuracy (%)").fill("85")
    with held_worker(server):  # else the comparison may be over before anybody looks
        page.get_by_role("button", name="Compare the methods").click()
        expect(panel(page).get_by_role("progressbar")).to_be_visible()
        expect(panel(page).get_by_role("button", name="Cancel the comparison")).to_be_visible()
        expect(page.get_by_role("button", name="Compare the methods")).to_be_disabled()
    expect(panel(page).locator(".sentence")).to_be_visible(timeout=patient(120_000))
    advice = server.client.get("/v1/advice/small").json()
    assert (advice["budget"], advice["deadline"], advice["min_accuracy"]) == (BUDGET, None, LEAST)
    for _ in range(2):  # then, and on a later visit
        settle(page)
        expect(panel(page).locator(".sentence")).to_have_text(advice["sentence"])
        expect(panel(page).get_by_role("progressbar")).to_have_count(0)
        expect(page.get_by_role("button", name="Compare the methods")).to_be_enabled()
        expect(page.get_by_label("Least accuracy (%)")).to_have_value("85")
        page.reload()


def test_the_panel_shows_every_method_the_limits_and_what_was_left_out(visit: Visit, advice: dict[str, Any]) -> None:
    page = visit.page
    page.goto("/datasets/small")
    settle(page)
    chart = panel(page).get_by_role("region", name="What every method reaches")
    methods = {one["method"] for one in advice["methods"]}
    assert methods == {"cascade", "policy"}
    assert set(chart.locator(".legendtext").all_text_contents()) == methods | {"simple alternatives"}
    names = [one["name"] for one in advice["alternatives"]]
    labels = [text.rstrip("…") for text in chart.locator(".textpoint text").all_text_contents() if text]
    assert all(any(name.startswith(label) for name in names) for label in labels), labels
    assert set(chart.locator(".shape-label text").all_text_contents()) == {"budget 5.5 ms", "at least 85.0 % right"}
    for one in advice["methods"]:
        row = row_of(page, one["method"])
        expect(row).to_contain_text(f"{100 * one['accuracy']:.1f} %")
        expect(row).to_contain_text(one["worth"]["headline"])
    expect(panel(page)).to_contain_text("portfolio: dataset: has no embeddings")
    expect(panel(page)).to_contain_text("All figures are from 50 rows that chose nothing.")
    assert [one for one in Axe().run(page).response["violations"] if one["impact"] in SERIOUS] == []


def test_the_request_is_one_to_run(visit: Visit, server: Server) -> None:
    page = visit.page
    page.goto("/datasets/small")
    settle(page)
    page.get_by_label("Budget (ms)").fill("3")
    page.get_by_label("Deadline (ms)").fill("12.5")
    page.get_by_label("Least accuracy (%)").fill("91.7")
    page.get_by_text("The request").click()
    command = page.locator("#request pre").inner_text()
    with held_worker(server):
        reply = json.loads(subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout)
        asked = {name: reply["params"][name] for name in ("budget", "deadline", "min_accuracy")}
        assert asked == {"budget": 3, "deadline": 12.5, "min_accuracy": 0.917}
        page.reload()  # it is under way: whoever comes meanwhile sees it, and may cancel it
        expect(page.get_by_label("Deadline (ms)")).to_have_value("12.5")
        page.get_by_role("button", name="Cancel the comparison").click()
        expect(panel(page).get_by_role("status")).to_contain_text("It was cancelled.")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("Least accuracy (%)", "150", "must not be above 100"),
        ("Budget (ms)", "-1", "must not be below 0"),
        ("Deadline (ms)", "1e300", "less than or equal"),
    ],
)
def test_a_wrong_limit_is_said_at_its_field(visit: Visit, field: str, value: str, said: str) -> None:
    visit.page.goto("/datasets/small")
    settle(visit.page)
    visit.page.get_by_label(field).fill(value)
    visit.page.get_by_role("button", name="Compare the methods").click()
    expect(visit.page.get_by_label(field)).to_have_attribute("aria-invalid", "true")
    expect(panel(visit.page).locator(".fault").filter(has_text=said)).to_have_count(1)
    visit.complaints[:] = [line for line in visit.complaints if "422" not in line]


def test_a_method_is_built_with_the_settings_that_were_compared(
    visit: Visit, server: Server, advice: dict[str, Any]
) -> None:
    visit.page.goto("/datasets/small")
    settle(visit.page)
    row_of(visit.page, "cascade").get_by_role("button", name="Build it").click()
    expect(visit.page.get_by_role("status").get_by_text("It succeeded.")).to_be_visible(timeout=patient(60_000))
    expect(visit.page.get_by_role("link", name="See version 1 of small")).to_be_visible()
    cascade = next(one for one in advice["methods"] if one["method"] == "cascade")
    built = server.client.get("/v1/artifacts/cascade/small").json()
    assert cascade["params"].items() <= built["params"].items()


def test_advice_among_builds_leads_to_the_page_of_its_dataset(visit: Visit, advice: dict[str, Any]) -> None:
    page = visit.page
    page.goto("/builds")
    row = page.locator("#list tbody tr").filter(has_text="advice").filter(has_text="succeeded").first
    expect(row.get_by_role("link", name="see the advice")).to_have_attribute("href", "/datasets/small")
    row.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Parameters")).to_be_visible()
    assert page.locator("a[href^='/artifacts/']").count() == 0
    page.get_by_role("link", name="See the advice on small").click()
    expect(panel(page).locator(".sentence")).to_have_text(advice["sentence"])
