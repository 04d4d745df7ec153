"""The console in a real browser: every page opens, and what a person does there does what it says."""

import csv
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e import visits
from tests.e2e.visits import Visit
from tests.support.kinds import server_with_all_kinds
from tests.support.patience import patient
from tests.support.samples import TRACE_SPEC, to_csv, trace_columns
from tests.support.servers import Server, running_server, start_server, wait_for

pytestmark = visits.MARKS
KEY = "k"
KINDS = ("cascade", "index", "portfolio", "pipeline", "policy")
PAGES = ["/", "/datasets", "/datasets/trace", "/datasets/features", "/builds", "/batches", "/compare", "/endpoints"]
PAGES += [f"/artifacts/{kind}/plan" for kind in KINDS]
LOOKS = {"narrow-dark": (360, "dark"), "wide-light": (1600, "light")}
SCREENSHOTS = os.environ.get("SCREENSHOTS")
"""A folder for pictures of all pages, for people to look at."""
SERIOUS = ("serious", "critical")
DRAWN = """(() => {
    const figures = [...document.querySelectorAll(".figure")];
    const begun = figures.length > 0 || !location.pathname.startsWith("/artifacts/");
    return begun && figures.every((one) => one.querySelector(".js-plotly-plot .main-svg"));
})()"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_with_all_kinds(tmp_path_factory.mktemp("console")) as server:
        server.wait_for_worker()  # else the overview says that builds wait for it
        yield server


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    with visits.visit(browser, server.url, KEY) as tab:
        yield tab


def settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    wait_for(lambda: page.evaluate(DRAWN), 20, "some chart was not drawn")  # by hand: the pages forbid eval


def start_build(server: Server, kind: str, params: dict[str, Any], dataset: str = "trace") -> str:
    body = {"kind": kind, "name": "later", "dataset": dataset, "params": params}
    build_id: str = server.client.post("/v1/builds", json=body).json()["id"]
    return build_id


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_opens_with_no_complaint_and_no_outside_request(browser: Browser, server: Server, look: str) -> None:
    width, scheme = LOOKS[look]
    axe = Axe()
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    build = start_build(server, "cascade", {})
    with visits.visit(browser, server.url, KEY, **options) as visit:
        for path in (*PAGES, f"/builds/{build}"):
            visit.page.goto(path)
            settle(visit.page)
            name = path.strip("/").replace("/", "-").replace(build, "one") or "overview"
            if SCREENSHOTS:
                visit.page.screenshot(path=Path(SCREENSHOTS) / f"{name}-{look}.png", full_page=True)
            assert (visit.outside, visit.complaints) == ([], []), path
            assert visit.page.locator(".error").count() == 0, (path, visit.page.locator(".error").all_inner_texts())
            assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
            violations = [one for one in axe.run(visit.page).response["violations"] if one["impact"] in SERIOUS]
            assert not violations, (
                path,
                [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in violations],
            )


def test_a_new_user_uploads_builds_watches_asks_and_runs_the_curl(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = tmp_path / "trace.csv"
    table.write_bytes(to_csv(trace_columns()))
    with running_server(tmp_path_factory.mktemp("new")) as server, visits.visit(browser, server.url) as visit:
        page = visit.page
        page.goto("/")
        expect(page.get_by_text("Nothing is built yet")).to_be_visible()
        page.get_by_role("link", name="Store a dataset").click()
        page.get_by_label("Name", exact=True).fill("mine")
        page.get_by_label("Table", exact=True).set_input_files(table)
        expect(page.get_by_text("the first rows of trace.csv")).to_be_visible()
        page.get_by_label("Spec", exact=True).fill(json.dumps(TRACE_SPEC))
        page.get_by_role("button", name="Store it").click()
        expect(page.get_by_text("Stored: 400 rows.")).to_be_visible()
        page.locator("#stored").get_by_role("link", name="build from it").click()
        expect(page.get_by_label("Dataset", exact=True)).to_have_value("mine")
        page.get_by_label("Name of the artifact").fill("first")
        page.get_by_text("Parameters (each has a default)").click()
        page.get_by_label("target precision").fill("0.9")
        page.get_by_role("button", name="Build", exact=True).click()
        expect(page.get_by_role("status").get_by_text("It succeeded.")).to_be_visible(timeout=patient(60_000))
        page.get_by_role("link", name="See version 1 of first").click()
        expect(page.get_by_role("heading", name="Cascade first")).to_be_visible()
        settle(page)
        answer = page.locator(".answer")
        steps = server.client.get("/v1/cascades/first/deadlines").json()["items"]
        expect(answer.locator("strong")).to_have_text(steps[-1]["cascade"])
        assert steps[-1]["cascade"] != steps[0]["cascade"]
        page.get_by_role("slider", name="Deadline").press("Home")
        expect(page.locator(".card .copyable pre").first).to_contain_text("deadline=")
        wait_for(lambda: answer.locator("strong").all_inner_texts() == steps[0]["cascade"], 10)
        page.get_by_role("button", name="Copy curl").first.click()
        command = page.evaluate("navigator.clipboard.readText()")
        assert command == page.locator(".card .copyable pre").first.inner_text()
        reply = json.loads(subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout)
        assert [step["classifier"] for step in reply["steps"]] == answer.locator("strong").all_inner_texts()
        assert steps[0]["deadline_from"] <= reply["deadline"] < steps[1]["deadline_from"]
        page.get_by_role("slider", name="Deadline").press("End")
        page.get_by_label("Deadline (ms)", exact=True).fill("")
        most = server.client.get("/v1/cascades/first/curve").json()["points"][-1]["decision"]
        page.get_by_role("slider", name="Most that an item may cost").press("End")
        wait_for(lambda: answer.locator("strong").all_inner_texts() == most["cascade"], 10)
        assert (visit.outside, visit.complaints) == ([], [])


@pytest.mark.parametrize(
    ("name", "table", "spec", "field", "said"),
    [
        ("Mine!", "truth,a\nx,x\n", "{}", "name", "lower-case"),
        ("mine", "", None, "table", "missing"),
        ("mine", "truth,fast_says\nx,x\n", "{oops", "spec", "JSON"),
        ("mine", "truth,fast_says\nx,x\n", '{"kind": "trace", "label": "truth", "unit": "ms"}', "spec", "classifiers"),
        ("mine", "other,more\n1,2\n", json.dumps(TRACE_SPEC), "table", "column"),
    ],
)
def test_a_wrong_upload_shows_its_error_at_the_field(
    visit: Visit, tmp_path: Path, name: str, table: str, spec: str | None, field: str, said: str
) -> None:
    page = visit.page
    page.goto("/datasets")
    page.get_by_label("Name", exact=True).fill(name)
    if table:
        path = tmp_path / "table.csv"
        path.write_text(table)
        page.get_by_label("Table", exact=True).set_input_files(path)
        expect(page.get_by_label("Spec", exact=True)).not_to_have_value("")  # the draft, which comes by itself
    if spec is not None:
        page.get_by_label("Spec", exact=True).fill(spec)
    page.get_by_role("button", name="Store it").click()
    expect(page.locator(f"#{field}-fault")).to_contain_text(said)
    expect(page.locator(f"#{field}")).to_have_attribute("aria-invalid", "true")
    assert [text for text in page.locator(".fault").all_inner_texts() if text] == [
        page.locator(f"#{field}-fault").inner_text()
    ]


def test_a_form_is_made_for_every_subject(visit: Visit, server: Server) -> None:
    schemas = server.client.get("/openapi.json").json()["components"]["schemas"]
    visit.page.goto("/builds")
    for kind in KINDS:
        visit.page.get_by_label("What to build").select_option(kind)
        wanted = list(schemas[f"{kind.capitalize()}Options"]["properties"])
        expect(visit.page.locator("#options .field")).to_have_count(len(wanted))
        ids = visit.page.locator("#options .field :is(input, select)").evaluate_all("found => found.map(one => one.id)")
        assert ids == [f"params-{name}" for name in wanted]


def test_the_key_is_asked_once_and_kept_for_the_tab_only(browser: Browser, server: Server) -> None:
    with visits.visit(browser, server.url) as visit:
        page = visit.page
        page.goto("/")
        page.get_by_label("Key", exact=True).fill("ключ")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_text("only characters of plain ASCII")).to_be_visible()
        page.get_by_label("Key", exact=True).fill("wrong")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_text("does not know this key")).to_be_visible()
        page.get_by_label("Key", exact=True).fill(KEY)
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("link", name="plan").first).to_be_visible()
        page.get_by_role("link", name="plan").first.click()
        settle(page)
        expect(page.locator("#key")).to_be_hidden()
        expect(page.locator(".copyable pre").first).to_contain_text("$PARSIMONY_KEY")
        assert page.evaluate("[Object.keys(localStorage).length, document.cookie]") == [0, ""]
    with visits.visit(browser, server.url) as visit:
        visit.page.goto("/")
        expect(visit.page.get_by_role("dialog")).to_be_visible()


def test_a_page_recovers_when_the_service_restarts_under_it(browser: Browser, tmp_path: Path) -> None:
    first = start_server(tmp_path)
    try:
        first.wait_until_ready()
        with visits.visit(browser, first.url) as visit:
            visit.page.goto("/builds")
            expect(visit.page.get_by_text("No build is remembered")).to_be_visible()
            first.stop()
            expect(visit.page.get_by_text("The service does not answer")).to_be_visible(timeout=patient(20_000))
            second = start_server(tmp_path, port=first.port)
            try:
                second.wait_until_ready()
                expect(visit.page.get_by_text("The service does not answer")).to_be_hidden(timeout=patient(20_000))
                expect(visit.page.get_by_text("No build is remembered")).to_be_visible()
                assert visit.page.locator(".error").count() == 0
            finally:
                second.stop()
    finally:
        first.stop()


def test_a_build_is_cancelled_and_a_failed_one_says_why(visit: Visit, server: Server) -> None:
    forest = {"learner": "sklearn.ensemble.RandomForestClassifier", "learner_params": {"n_estimators": 3000}}
    visit.page.goto(f"/builds/{start_build(server, 'index', forest, 'features')}")
    visit.page.get_by_role("button", name="Cancel this build").click()
    expect(visit.page.get_by_text("It was cancelled.")).to_be_visible()
    broken = start_build(server, "index", {"learner_params": {"C": -1.0}}, "features")
    visit.page.goto(f"/builds/{broken}")
    expect(visit.page.get_by_text("It failed.")).to_be_visible(timeout=patient(30_000))
    expect(visit.page.get_by_role("alert")).to_contain_text("'C'")


def test_a_batch_is_assigned_and_downloaded(visit: Visit, server: Server, tmp_path: Path) -> None:
    queries = np.random.default_rng(0).random((50, 2)).astype(np.float32)
    np.save(tmp_path / "queries.npy", queries)
    np.savetxt(tmp_path / "queries.csv", queries, delimiter=",", header="x,y", comments="")
    downloaded = []
    visit.page.goto("/artifacts/portfolio/plan")
    settle(visit.page)
    for name in ("queries.npy", "queries.csv"):
        visit.page.get_by_label("Queries", exact=True).set_input_files(tmp_path / name)
        expect(visit.page.get_by_text("50 queries:")).to_be_visible()
        with visit.page.expect_download() as download:
            visit.page.get_by_role("button", name="Download the assignments").click()
        with open(download.value.path(), newline="") as file:
            downloaded.append([row["classifier"] for row in csv.DictReader(file)])
        visit.page.reload()
        settle(visit.page)
    asked = {"queries": queries.tolist(), "budget": "50%"}
    assignments = server.client.post("/v1/portfolios/plan/assignments", json=asked).json()["assignments"]
    assert downloaded == [assignments, assignments]


def test_capacities_and_a_floor_are_set_by_sliders_and_what_they_cost_is_drawn(
    visit: Visit, server: Server, tmp_path: Path
) -> None:
    queries = np.random.default_rng(0).random((50, 2)).astype(np.float32)
    np.save(tmp_path / "queries.npy", queries)
    visit.page.goto("/artifacts/portfolio/plan")
    settle(visit.page)
    panel = visit.page.get_by_role("region", name="Assign a batch")
    visit.page.get_by_label("Queries", exact=True).set_input_files(tmp_path / "queries.npy")
    expect(panel.get_by_text("50 queries:")).to_be_visible()
    expect(panel.get_by_text("What the limits cost")).to_have_count(0)
    panel.get_by_text("Capacities").click()
    panel.get_by_label("Budget").fill("1")
    panel.get_by_label("At most for strong").fill("0.2")
    expect(panel.get_by_text("Without the capacities:")).to_be_visible()
    asked: dict[str, Any] = {"budget": "100%", "classifiers": {"strong": {"at_most": {"share": 0.2}}}}
    reply = server.client.post("/v1/portfolios/plan/assignments", json={"queries": queries.tolist(), **asked}).json()
    prices = panel.get_by_role("region", name="What the limits cost", exact=True)
    prices.get_by_text("Numbers").click()
    for one in reply["prices"]:
        expect(prices.get_by_role("cell", name=one["limit"], exact=True)).to_be_visible()
    assert reply["usage"]["strong"] == 10
    expect(panel.get_by_role("row", name="strong 10")).to_be_visible()
    expect(prices.locator(".main-svg").first).to_be_visible()
    panel.get_by_label("Floor of accuracy").fill("1")
    expect(panel.get_by_role("alert")).to_contain_text("no assignment keeps")
    panel.get_by_label("Floor of accuracy").fill("0.5")
    expect(prices.get_by_text("ms less").first).to_be_visible()


def walked(page: Page, kind: str, name: str = "plan") -> list[str]:
    page.goto(f"/artifacts/{kind}/{name}")
    settle(page)
    walk = page.get_by_role("region", name="Walk one item through")
    next_button = walk.get_by_role("button", name=re.compile("Tell it|Another item"))
    expect(next_button).to_be_enabled()  # the first question is there: `all` below does not wait for its fields
    while not walk.get_by_role("button", name="Another item").is_visible():
        steps = walk.locator("ol.path li").count()
        for field in walk.locator("form input").all():
            field.fill(_answer(field))
        walk.get_by_role("button", name="Tell it").click()
        expect(walk.locator("ol.path li").nth(steps)).to_be_visible()
        expect(next_button).to_be_enabled()
    return walk.locator("ol.path li").all_inner_texts()


def _answer(field: Locator) -> str:
    label = field.evaluate("one => one.labels[0].textContent")
    return "cat" if "class" in label else "0.98" if "confidence" in label else "0.7"


@pytest.mark.parametrize(("kind", "ends"), [("pipeline", ("Class", "No stage")), ("policy", ("Class",))])
def test_an_item_is_walked_through(visit: Visit, kind: str, ends: tuple[str, ...]) -> None:
    assert walked(visit.page, kind)[-1].startswith(ends)
    assert visit.complaints == []


def test_a_pipeline_that_answers_every_item_leaves_none_to_a_person(visit: Visit, server: Server) -> None:
    """Every item is covered: there is no coverage to draw, to ask for, or to lose."""
    body = {"kind": "pipeline", "name": "always", "dataset": "mixed", "params": {"after_last_stage": "answer"}}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", 60)
    page = visit.page
    try:
        for name, answers in (("always", True), ("plan", False)):
            page.goto(f"/artifacts/pipeline/{name}")
            settle(page)
            stages = page.get_by_role("region", name="Stages", exact=True)
            expect(stages.get_by_text("every item is answered")).to_have_count(int(answers))
            expect(stages.get_by_text("left to a person")).to_have_count(int(not answers))
            expect(page.get_by_role("region", name="Coverage against cost")).to_have_count(int(not answers))
            expect(page.get_by_label("Least coverage", exact=True)).to_have_count(int(not answers))
            last = stages.locator("ol.timeline li").last.inner_text()
            assert last.endswith("; then answer" if answers else "; then answer if sure enough")
        assert visit.complaints == []
    finally:
        assert server.client.delete("/v1/artifacts/pipeline/always").status_code == 204


def test_a_page_can_be_used_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit.page
    page.goto("/artifacts/cascade/plan")
    settle(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    before = page.locator(".answer strong").all_inner_texts()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "range":
            break
    page.keyboard.press("Home")
    wait_for(lambda: page.locator(".answer strong").all_inner_texts() not in (before, []), 10)
    assert page.locator(".answer .error").count() == 0


HOSTILE = ("<img src=x onerror=alert(1)>", '<a href="//x.y">z</a>', "<b>x</b>&lt;%{x}")


def test_hostile_names_are_shown_as_text(visit: Visit, server: Server) -> None:
    columns = trace_columns() | {"fast_says": [HOSTILE[0], *trace_columns()["fast_says"][1:]]}
    classifiers = [{**one, "name": name} for one, name in zip(TRACE_SPEC["classifiers"], HOSTILE, strict=True)]
    spec = {**TRACE_SPEC, "classifiers": classifiers}
    files: dict[str, Any] = {"spec": (None, json.dumps(spec)), "table": ("table.csv", to_csv(columns), "text/csv")}
    assert server.client.put("/v1/datasets/hostile", files=files).status_code == 201
    dialogs: list[str] = []
    visit.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    visit.page.goto("/datasets/hostile")
    settle(visit.page)
    visit.page.get_by_text("The spec").click()
    for name in HOSTILE:
        expect(visit.page.locator("#spec pre")).to_contain_text(json.dumps(name))
    assert set(HOSTILE) <= set(visit.page.locator(".legendtext").all_text_contents())
    assert visit.page.locator("svg a").count() == 0
    assert (dialogs, visit.outside, visit.complaints) == ([], [], [])
