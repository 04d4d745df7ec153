"""The rollout of an artifact in a real browser: its curves, its evidence, and its end by a person."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.e2e import visits
from tests.e2e.test_lists import publish
from tests.e2e.visits import Visit
from tests.support.kinds import build_all, upload_all
from tests.support.servers import Server, running_server, wait_for

pytestmark = visits.MARKS
PLAN = "/v1/artifacts/cascade/plan"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("rollouts")) as server:
        upload_all(server)
        build_all(server)
        build_all(server)
        publish(server, "alone")
        yield server


def begin(server: Server) -> None:
    """Start a canary, and report outcomes of both versions, of which the candidate is a little worse."""
    server.client.put(f"{PLAN}/active", json={"version": 1}).raise_for_status()
    wait_for(lambda: server.client.get("/v1/cascades/plan/decision").json()["artifact"]["version"] == 1, 5)
    rules = {"version": 2, "share": 0.5, "promote": {"max_accuracy_loss": 0.01, "min_saving": 0.1}}
    server.client.put(f"{PLAN}/rollout", json=rules).raise_for_status()
    items = []
    for k in range(300):
        reply = server.client.post("/v1/cascades/plan/decision", json={"deadline": 13, "item": str(k)}).json()
        items.append({"decision": reply["decision"], "correct": k % 5 > 0, "cost": 3.0})
    server.client.post("/v1/feedback", json={"items": items}).raise_for_status()


def test_curves_and_evidence_are_shown(visit: Visit, server: Server) -> None:
    begin(server)
    page = visit.page
    page.goto("/artifacts/cascade/plan#rollout")
    panel = page.locator("#panel-rollout")
    expect(panel.get_by_text("running")).to_be_visible()
    expect(panel.locator(".chart .plot svg")).to_be_visible()
    expect(panel.get_by_role("cell", name="accuracy")).to_be_visible()
    expect(panel.get_by_role("cell", name="started")).to_be_visible()
    violations = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert violations == []


def test_a_person_goes_back_and_forward(visit: Visit, server: Server) -> None:
    begin(server)
    page = visit.page
    page.goto("/artifacts/cascade/plan#rollout")
    page.get_by_role("button", name="Stop the rollout").click()
    expect(page.locator("#panel-rollout").get_by_text("stopped").first).to_be_visible()
    assert server.client.get(f"{PLAN}/rollout").json()["status"] == "stopped"
    begin(server)
    page.reload()
    page.get_by_role("button", name="Promote version 2").click()
    wait_for(lambda: server.client.get(PLAN).json()["version"] == 2, 5)
    assert server.client.get(f"{PLAN}/rollout").json()["status"] == "promoted"


def test_an_artifact_without_a_rollout_has_no_such_tab(visit: Visit) -> None:
    visit.page.goto("/artifacts/cascade/alone")
    expect(visit.page.get_by_role("tab", name="Versions")).to_be_visible()
    for name in ("Rollout", "Automation"):
        assert visit.page.get_by_role("tab", name=name).count() == 0
    assert visit.complaints == []


def test_failed_steps_of_an_automation_are_shown(visit: Visit, server: Server) -> None:
    """The recording that a rebuild learns from has no rows, and the newest version has no reported outcomes yet."""
    build_all(server)
    artifact = {"kind": "index", "name": "plan"}
    server.client.put("/v1/recordings/empty", json={"artifact": {"kind": "cascade", "name": "plan"}}).raise_for_status()
    spec = {"rebuild_on_drift": True, "recording": "empty"}
    server.client.put(f"{PLAN}/automation", json=spec).raise_for_status()
    page = visit.page
    page.goto("/artifacts/cascade/plan#automation")
    panel = page.locator("#panel-automation")
    expect(panel.get_by_text("of recording empty")).to_be_visible()
    assert panel.get_by_role("table").count() == 0
    version = server.client.get(PLAN).json()["version"]
    decision = {"artifact": {"kind": "cascade", "name": "plan", "version": version}, "inputs": {"deadline": 13}}
    server.client.post("/v1/feedback", json={"items": [{**decision, "correct": False}] * 600}).raise_for_status()
    listed = {"kind": "cascade", "name": "plan"}

    def events() -> list[str]:
        (found,) = server.client.get("/v1/automations", params=listed).json()["items"]
        return [one["event"] for one in found["events"]]

    wait_for(lambda: events() == ["failed"], 15, events)
    page.reload()
    expect(panel.get_by_role("cell", name="failed")).to_be_visible()
    expect(panel.get_by_text("empty").last).to_be_visible()
    assert server.client.get("/v1/automations", params=artifact).json()["items"] == []
    assert visit.complaints == []
    violations = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert violations == []
