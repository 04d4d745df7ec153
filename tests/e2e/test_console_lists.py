"""Long lists and deletions in a real browser: nothing is left out in silence, nothing goes without its name."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.e2e import visits
from tests.e2e.test_lists import publish
from tests.e2e.visits import Visit
from tests.support.samples import trace_upload
from tests.support.servers import Server, running_server, wait_for

pytestmark = visits.MARKS
ARTIFACTS = 130
VERSIONS = 105


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("long")) as server:
        server.wait_for_worker()
        for number in range(ARTIFACTS):
            publish(server, f"plan-{number:03}")
        for number in range(VERSIONS):
            publish(server, "versions", number)
            assert server.client.put(f"/v1/datasets/d-{number:03}", files=trace_upload()).status_code == 201
        assert server.client.put("/v1/datasets/trace", files=trace_upload()).status_code == 201
        wait_for(lambda: server.client.get("/health/ready").json()["artifacts"] == ARTIFACTS + 1, 10)
        yield server


def test_the_overview_shows_the_first_and_more_when_asked_and_finds_names(visit: Visit) -> None:
    page = visit.page
    page.goto("/")
    expect(page.get_by_text(f"20 of {ARTIFACTS + 1} are shown")).to_be_visible()
    assert page.locator("#artifacts tbody tr").count() == 20
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_text(f"120 of {ARTIFACTS + 1} are shown")).to_be_visible()
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#artifacts tbody tr")).to_have_count(ARTIFACTS + 1)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    page.get_by_label("Name starts with").fill("plan-12")
    expect(page.locator("#artifacts tbody tr")).to_have_count(10)
    page.get_by_label("Name starts with").fill("nothing")
    expect(page.locator("#artifacts .empty")).to_be_visible()
    expect(page.locator("#state")).to_contain_text("106")  # datasets
    violations = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert violations == []


def test_a_version_and_an_artifact_are_deleted_once_their_name_is_typed(visit: Visit, server: Server) -> None:
    for seed in (0, 1):
        publish(server, "doomed", seed)
    page, path = visit.page, "/v1/artifacts/cascade/doomed"
    wait_for(lambda: server.client.get("/v1/cascades/doomed/decision").is_success, 5)
    page.goto("/artifacts/cascade/doomed#versions")
    page.get_by_role("button", name="Delete version 2").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Delete version 2").click()
    field = dialog.get_by_label("Type doomed to confirm")
    field.fill("other")
    expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
    field.fill("doomed")
    violations = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert violations == []
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#panel-versions tbody tr")).to_have_count(1)
    assert server.client.get(path).json()["version"] == 1
    page.get_by_role("button", name="Delete the artifact…").click()
    dialog.get_by_label("Type doomed to confirm").fill("doomed")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert server.client.get(path).status_code == 404


def test_a_dataset_is_deleted_once_its_name_is_typed_and_what_was_built_from_it_is_named(
    visit: Visit, server: Server
) -> None:
    page = visit.page
    page.goto("/datasets/d-000")
    page.get_by_role("button", name="Delete the dataset…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).not_to_contain_text("cascade")
    dialog.get_by_role("button", name="Cancel").click()
    page.goto("/datasets/trace")
    page.get_by_role("button", name="Delete the dataset…").click()
    expect(dialog).to_contain_text("cascade plan-000, cascade plan-001")
    expect(dialog).to_contain_text(re.compile(r"and \d+ more\."))
    dialog.get_by_role("button", name="Cancel").click()
    page.goto("/datasets/d-000")
    page.get_by_role("button", name="Delete the dataset…").click()
    dialog.get_by_label("Type d-000 to confirm").fill("d-000")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    assert server.client.get("/v1/datasets/d-000").status_code == 404
    assert server.client.put("/v1/datasets/d-000", files=trace_upload()).status_code == 201


def test_a_refused_deletion_says_why_where_it_was_asked(browser: Browser, server: Server) -> None:
    publish(server, "racing")
    with visits.visit(browser, server.url) as visit:
        page = visit.page
        page.goto("/artifacts/cascade/racing#versions")
        page.get_by_role("button", name="Delete the artifact…").click()
        assert server.client.delete("/v1/artifacts/cascade/racing").status_code == 204
        page.get_by_label("Type racing to confirm").fill("racing")
        page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not found")
