"""The texts of the console, read word by word on every page: no banned words, no cut labels, no time called a cost."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e import visits
from tests.e2e.test_console import KEY, KINDS, PAGES, settle, start_build
from tests.support.samples import trace_upload
from tests.support.servers import Server, wait_for

pytestmark = visits.MARKS
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
BANNED = re.compile(rf"\b({'|'.join(PROJECT['tool']['parsimony']['language']['banned'])})\b", re.IGNORECASE)
NARROW: dict[str, Any] = {"viewport": {"width": 390, "height": 740}}
CUT_OFF = """() => {
    const hides = (one) => getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1;
    const boxes = [...document.querySelectorAll("main *:not(input, textarea, select, pre)")]
        .filter((one) => !(one instanceof SVGElement) && one.checkVisibility() && hides(one))
        .map((one) => `${one.tagName} ${one.className} ${one.getAttribute("aria-label")}`);
    const texts = [...document.querySelectorAll(".plot")].flatMap((plot) => {
        const { left, right, top, bottom } = plot.getBoundingClientRect();
        const beyond = (one) =>
            one.left < left - 1 || one.right > right + 1 || one.top < top - 1 || one.bottom > bottom + 1;
        return [...plot.querySelectorAll("text")]
            .filter((one) => beyond(one.getBoundingClientRect()))
            .map((one) => one.textContent);
    });
    return [...boxes, ...texts];
}"""
OPEN_ALL = """() => {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    document.querySelectorAll("[role=tabpanel]").forEach((one) => { one.hidden = false; });
    document.querySelectorAll("pre, code").forEach((one) => { one.hidden = true; });  // data, not prose
}"""
READ = """() => [...document.querySelectorAll("body, [aria-label], [placeholder], [title]")].map((one) => [
    one === document.body ? one.innerText : "", one.ariaLabel, one.placeholder, one.title,
]).flat().filter(Boolean).join("\\n")"""


@pytest.fixture
def feedback(all_kinds: Server) -> Iterator[Server]:
    """Send outcomes of a policy, three quarters of them correct, until the test is over."""
    decision = all_kinds.client.post("/v1/policies/plan/decision", json={}).json()["decision"]
    items = [{"decision": decision, "correct": place % 4 > 0, "cost": 10 / 3 + place} for place in range(40)]
    assert all_kinds.client.post("/v1/feedback", json={"items": items}).status_code == 200
    yield all_kinds
    assert all_kinds.client.delete("/v1/feedback/policy/plan").status_code == 204


@pytest.fixture
def ended_build(all_kinds: Server) -> Iterator[str]:
    client = all_kinds.client
    assert client.put("/v1/datasets/brief", files=trace_upload()).status_code == 201
    build = start_build(all_kinds, "cascade", {"target_precision": 0.9}, "brief")
    wait_for(lambda: client.get(f"/v1/builds/{build}").json()["status"] == "succeeded", 60)
    wait_for(lambda: client.get("/v1/cascades/later/decision").is_success, 10)
    yield build
    assert client.delete("/v1/artifacts/cascade/later").status_code == 204
    client.delete("/v1/datasets/brief")


@pytest.fixture(scope="module")
def advised(all_kinds: Server) -> Iterator[str]:
    client = all_kinds.client
    assert client.put("/v1/datasets/advised", files=trace_upload(200)).status_code == 201
    body = {"dataset": "advised", "budget": 10 / 3, "deadline": 12.5, "min_accuracy": 0.8}
    job = client.post("/v1/advice", json=body).headers["location"]
    wait_for(lambda: client.get(job).json()["status"] == "succeeded", 120)
    yield "/datasets/advised"
    assert client.delete("/v1/datasets/advised").status_code == 204


def open_everything(page: Page) -> None:
    """Open all details and show all tabs, so that all texts can be read."""
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.locator("[role=tabpanel]:visible > *").first.wait_for()
    page.evaluate(OPEN_ALL)


def test_no_page_has_a_banned_word_or_a_text_that_is_cut_off(
    browser: Browser, feedback: Server, ended_build: str, advised: str
) -> None:
    with visits.visit(browser, feedback.url, KEY, **NARROW) as visit:
        for path in (*PAGES, f"/builds/{ended_build}", advised, "/nowhere"):
            visit.page.goto(path)
            settle(visit.page)
            assert visit.page.evaluate(CUT_OFF) == [], path
            open_everything(visit.page)
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            found = [match.group() for match in BANNED.finditer(visit.page.evaluate(READ))]
            assert found == [], path


def test_a_time_is_not_called_a_cost(browser: Browser, all_kinds: Server) -> None:
    with visits.visit(browser, all_kinds.url, KEY) as visit:
        for kind in KINDS:
            assert all_kinds.client.get(f"/v1/artifacts/{kind}/plan").json()["unit"] in ("ms", "min")
            visit.page.goto(f"/artifacts/{kind}/plan")
            settle(visit.page)
            for part in ("money", "chart", "point", "what"):
                text = visit.page.locator(f"#{part}").inner_text()
                assert re.findall(r"\bcosts?\b", text, re.IGNORECASE) == [], (kind, part)


MISSING = (
    "/nowhere",
    "/datasets/nosuch",
    "/datasets/NO",
    "/builds/nosuch",
    "/artifacts/cascade/nosuch",
    "/artifacts/wizard/plan",
)


@pytest.mark.parametrize("path", MISSING)
def test_a_missing_page_is_html_for_browsers_and_a_problem_for_programs(server: Server, path: str) -> None:
    page = server.client.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    for accept in ("*/*", "application/json"):
        problem = server.client.get(path, headers={"accept": accept})
        assert problem.headers["content-type"] == "application/problem+json"
        assert problem.status_code == (422 if path == "/datasets/NO" else 404)
    assert server.client.get("/artifacts/cascade/trace", headers={"accept": "text/html"}).status_code == 200


def test_a_page_does_not_reveal_names_without_a_key(all_kinds: Server) -> None:
    pages = [
        all_kinds.client.get(f"/datasets/{name}", headers={"accept": "text/html", "authorization": ""})
        for name in ("trace", "nosuch")
    ]
    assert pages[0].status_code == pages[1].status_code == 200
    assert pages[0].text.replace("trace", "nosuch") == pages[1].text
