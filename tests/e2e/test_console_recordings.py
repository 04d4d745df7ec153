"""Recordings in a real browser: counts, a dataset, and deletion."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.e2e import visits
from tests.e2e.visits import Visit
from tests.support.kinds import build_all, upload_all
from tests.support.servers import Server, running_server

pytestmark = visits.MARKS
ROWS = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("recordings")) as server:
        upload_all(server)
        build_all(server)
        yield server


def record(server: Server) -> None:
    spec = {"artifact": {"kind": "cascade", "name": "plan"}}
    server.client.put("/v1/recordings/traffic", json=spec).raise_for_status()
    calls = [
        {"classifier": name, "label": "cat", "confidence": 0.9, "cost": cost, "propensity": 1.0}
        for name, cost in (("fast", 1.0), ("strong", 10.0))
    ]
    rows = [{"id": str(k), "explore": 0.0, "calls": calls} for k in range(ROWS)]
    truths = [{"id": str(k), "truth": "cat" if k % 2 else "dog"} for k in range(ROWS)]
    server.client.post("/v1/recordings/traffic/rows", json={"items": rows}).raise_for_status()
    server.client.post("/v1/recordings/traffic/truths", json={"items": truths}).raise_for_status()


def test_rows_become_a_dataset_and_a_recording_is_deleted(visit: Visit, server: Server) -> None:
    record(server)
    page = visit.page
    page.goto("/recordings")
    expect(page.get_by_role("link", name="cascade plan")).to_be_visible()
    page.get_by_role("button", name="Show rows").click()
    report = page.locator("#report")
    expect(report.get_by_role("heading", name="Recording traffic")).to_be_visible()
    expect(report.get_by_text(str(ROWS), exact=True).first).to_be_visible()
    violations = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert violations == []
    table = report.get_by_role("table")
    expect(table.get_by_role("columnheader", name="strong")).to_be_visible()
    expect(table.get_by_role("cell", name="100.0")).to_have_count(2)  # both classifiers, in the hour of the rows
    report.get_by_label("Group rows by").select_option("label")
    expect(table.get_by_role("cell", name="dog")).to_be_visible()
    expect(table.get_by_role("cell", name="100.0")).to_have_count(4)
    shade = "one => getComputedStyle(one).backgroundColor"
    assert table.locator(".shaded").first.evaluate(shade) != "rgba(0, 0, 0, 0)"
    report.get_by_label("Group rows by").select_option("length")  # items are not kept
    expect(table.get_by_role("cell", name="unknown")).to_be_visible()
    report.get_by_label("Name of the dataset").fill("november")
    report.get_by_role("button", name="Make a dataset").click()
    expect(report.get_by_role("link", name="november")).to_be_visible()
    assert server.client.get("/v1/datasets/november").json()["rows"] == ROWS
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("traffic")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No recordings yet")).to_be_visible()
    assert server.client.get("/v1/recordings/traffic").status_code == 404
