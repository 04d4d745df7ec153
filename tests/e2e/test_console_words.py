"""What the console says, read as a person does: words and short numbers, on every page, also on a telephone."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from app.store import codec
from models import TraceSpec, dataset_from_columns
from tests.e2e import visits
from tests.e2e.test_console import KEY, PAGES, settle, start_build, walked
from tests.e2e.visits import Visit
from tests.support.replays import built
from tests.support.samples import to_csv, trace_upload
from tests.support.servers import Server, wait_for

pytestmark = visits.MARKS
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}}
CUT_OFF = """() => {
    const hides = (one) => getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1;
    const boxes = [...document.querySelectorAll("main *:not(input, textarea, select, pre)")]
        .filter((one) => !(one instanceof SVGElement) && one.checkVisibility() && hides(one))
        .map((one) => `${one.tagName} ${one.className} ${one.getAttribute("aria-label")}`);
    const texts = [...document.querySelectorAll(".js-plotly-plot")].flatMap((plot) => {
        const { left, right, top, bottom } = plot.getBoundingClientRect();
        const beyond = (one) =>
            one.left < left - 1 || one.right > right + 1 || one.top < top - 1 || one.bottom > bottom + 1;
        return [...plot.querySelectorAll("svg text")]
            .filter((one) => one.textContent.trim() && beyond(one.getBoundingClientRect()))
            .map((one) => one.textContent);
    });
    return [...boxes, ...texts];
}"""
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.fixture
def visit(browser: Browser, all_kinds: Server) -> Iterator[Visit]:
    with visits.visit(browser, all_kinds.url, KEY) as tab:
        yield tab


@pytest.fixture
def feedback(all_kinds: Server) -> Iterator[Server]:
    """Tell the server of outcomes of a policy, three quarters of them right, until the test is over."""
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


def still(page: Page) -> None:

    def unchanged() -> bool:
        settle(page)
        before = page.inner_text("body")
        page.wait_for_timeout(250)
        return page.inner_text("body") == before

    wait_for(unchanged, 20, "the page does not come to rest")


def test_on_a_telephone_nothing_is_cut_off_and_no_page_scrolls_sideways(
    browser: Browser, feedback: Server, ended_build: str, advised: str
) -> None:
    with visits.visit(browser, feedback.url, KEY, **PHONE) as visit:
        for path in (*PAGES, f"/builds/{ended_build}", advised):
            visit.page.goto(path)
            still(visit.page)
            assert visit.page.evaluate(CUT_OFF) == [], path
            visit.page.evaluate(OPEN_ALL)
            still(visit.page)
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_a_policy_opens_at_the_trade_off_that_its_worth_is_about(visit: Visit, all_kinds: Server) -> None:
    points = [one["decision"] for one in all_kinds.client.get("/v1/policies/plan/curve").json()["points"]]
    savings = all_kinds.client.get("/v1/artifacts/policy/plan").json()["savings"]
    usual = min(points, key=lambda one: abs(one["cost"] - savings["cost"]))
    visit.page.goto("/artifacts/policy/plan")
    still(visit.page)
    budget = float(visit.page.get_by_label("What an item may cost on average (ms)", exact=True).input_value())
    assert usual["cost_bound"] <= budget <= usual["cost_bound"] * 1.00001
    rows = visit.page.get_by_role("region", name="Choose a budget").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text(f"λ = {usual['tradeoff']:.4}")


def test_a_walk_keeps_a_hard_budget_and_a_deadline(visit: Visit, all_kinds: Server) -> None:
    """Both are told in words, asked for in the command line, and refused as the service refuses them."""
    visit.page.goto("/artifacts/policy/plan#max_item_cost=2&deadline=1.5&budget=")
    still(visit.page)
    walk = visit.page.get_by_role("region", name="Walk one item through")
    expect(walk).to_contain_text("with a hard budget of 2 ms and a deadline of 1.5 ms")
    expect(walk).to_contain_text('"max_item_cost":2,"deadline":1.5')
    visit.page.get_by_label("What no item may cost more than, for the walk below (ms)", exact=True).fill("0.5")
    expect(walk).to_contain_text("Class")
    expect(walk).to_contain_text("Spent: 0 ms.")
    visit.page.get_by_label("How long acquiring may take at most, for the walk below (ms)", exact=True).fill("0.01")
    expect(walk.get_by_role("alert")).to_contain_text("the fastest sensor")


MISSING = {
    "/nowhere": "There is nothing at /nowhere.",
    "/datasets/nosuch": "nosuch",
    "/datasets/NO": "There is nothing at /datasets/NO.",
    "/builds/nosuch": "nosuch",
    "/artifacts/cascade/nosuch": "There is no cascade artifact called",
    "/artifacts/wizard/plan": "There is no kind called",
}
"""Addresses of nothing, and what is said of them."""


@pytest.mark.parametrize("path", MISSING)
def test_what_is_not_there_has_a_page_for_people_and_a_problem_for_programs(server: Server, path: str) -> None:
    page = server.client.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    for accept in ("*/*", "application/json"):
        problem = server.client.get(path, headers={"accept": accept})
        assert problem.headers["content-type"] == "application/problem+json"
        assert problem.status_code == (422 if path == "/datasets/NO" else 404)
    assert server.client.get("/artifacts/cascade/trace", headers={"accept": "text/html"}).status_code == 200


def test_a_page_tells_nobody_without_a_key_what_there_is(all_kinds: Server) -> None:
    pages = [
        all_kinds.client.get(f"/datasets/{name}", headers={"accept": "text/html", "authorization": ""})
        for name in ("trace", "nosuch")
    ]
    assert pages[0].status_code == pages[1].status_code == 200
    assert pages[0].text.replace("trace", "nosuch") == pages[1].text


def test_a_policy_of_judged_answers_is_walked_to_the_one_to_take(visit: Visit, all_kinds: Server) -> None:
    rng = np.random.default_rng(0)
    sure = rng.random(200).round(2)
    columns = {"small": (rng.random(200) < sure).astype(int), "large": np.ones(200, dtype=int), "sure": sure}
    classifiers: list[dict[str, Any]] = [
        {"name": "small", "correct": "small", "cost": 1.0, "confidence": "sure"},
        {"name": "large", "correct": "large", "cost": 9.0},
    ]
    spec = {"kind": "trace", "unit": "USD", "classifiers": classifiers}
    dataset = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    loaded = built("policy", dataset, trees=16, depth=2)
    lists = {name: column.tolist() for name, column in columns.items()}
    about = {"kind": "policy", "name": "judged", "dataset": "judged", "dataset_sha256": "", "seed": 0}
    data = codec.encode(loaded.plan, {**about, "params": {}, "unit": "USD", "summary": loaded.record.summary})
    files: dict[str, Any] = {"spec": (None, json.dumps(spec)), "table": ("table.csv", to_csv(lists), "text/csv")}
    assert all_kinds.client.put("/v1/datasets/judged", files=files).status_code == 201
    headers = {"content-type": "application/octet-stream"}
    assert all_kinds.client.post("/v1/artifacts/import", content=data, headers=headers).status_code == 201
    wait_for(lambda: all_kinds.client.get("/v1/policies/judged/curve").status_code == 200, 10)
    lines = walked(visit.page, "policy", "judged")
    expect(visit.page.get_by_label("What no item may cost more than, for the walk below (USD)")).to_be_visible()
    expect(visit.page.get_by_text("How long acquiring may take at most")).to_have_count(0)
    assert lines[0] == "large: answered, for 9 USD"
    said = r"Take the answer of large: [\d.]+\s?% right, or good, as expected\. Spent: 9 USD\."
    assert re.fullmatch(said, lines[-1]), lines
    assert visit.complaints == []
    assert all_kinds.client.delete("/v1/artifacts/policy/judged").is_success
    assert all_kinds.client.delete("/v1/datasets/judged").is_success
