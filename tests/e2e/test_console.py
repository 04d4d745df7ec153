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
from tests.solvers.setup.tables import patients_columns, patients_spec
from tests.support.kinds import server_with_all_kinds
from tests.support.patience import patient
from tests.support.samples import TRACE_SPEC, to_csv, trace_columns
from tests.support.servers import Server, running_server, start_server, wait_for

pytestmark = visits.MARKS
KEY = "k"
KINDS = ("cascade", "index", "portfolio", "pipeline", "policy")
PAGES = [
    "/",
    "/datasets",
    "/datasets/trace",
    "/datasets/features",
    "/builds",
    "/batches",
    "/endpoints",
    "/recordings",
    "/spend",
]
PAGES += [f"/artifacts/{kind}/plan" for kind in KINDS]
LOOKS = {"narrow-dark": (390, "dark"), "wide-light": (1280, "light")}
SCREENSHOTS = os.environ.get("SCREENSHOTS")
"""A folder for pictures of all pages, for people to look at."""
SERIOUS = ("serious", "critical")
DRAWN = """(() => {
    const charts = [...document.querySelectorAll(".chart")];
    const ready = charts.length > 0 || !location.pathname.startsWith("/artifacts/");
    return ready && charts.every((one) => one.querySelector(".plot svg"));
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
        page.locator("#artifacts").get_by_role("link", name="Store a dataset").click()
        page.get_by_label("Name", exact=True).fill("mine")
        page.get_by_label("Table", exact=True).set_input_files(table)
        expect(page.locator("#preview table")).to_be_visible()
        page.get_by_label("Spec", exact=True).fill(json.dumps(TRACE_SPEC))
        page.get_by_role("button", name="Store", exact=True).click()
        expect(page.locator("#stored [data-rows]")).to_have_attribute("data-rows", "400")
        page.locator("#stored").get_by_role("link", name="build from it").click()
        expect(page.get_by_label("Dataset", exact=True)).to_have_value("mine")
        page.get_by_label("Name of the artifact").fill("first")
        page.get_by_text("Parameters", exact=False).click()
        page.get_by_label("target precision").fill("0.9")
        page.get_by_role("button", name="Build", exact=True).click()
        page.get_by_role("link", name="Show version 1 of first").click(timeout=patient(60_000))
        expect(page.get_by_role("heading", name="Cascade first")).to_be_visible()
        settle(page)
        steps = server.client.get("/v1/cascades/first/deadlines").json()["items"]
        assert steps[-1]["cascade"] != steps[0]["cascade"]
        page.get_by_label("budget", exact=True).fill("")
        page.get_by_label("deadline", exact=True).fill(str(steps[0]["deadline_from"]))
        page.get_by_role("button", name="Decide").click()
        expect(page.locator(".answer")).to_contain_text(" → ".join(steps[0]["cascade"]))
        page.locator(".answer").get_by_role("button", name="Copy curl").click()
        command = page.evaluate("navigator.clipboard.readText()")
        reply = json.loads(subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout)
        assert (reply["cascade"], reply["deadline"]) == (steps[0]["cascade"], steps[0]["deadline_from"])
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
    page.get_by_role("button", name="Store", exact=True).click()
    expect(page.locator(f"#{field}-fault")).to_contain_text(said)
    expect(page.locator(f"#{field}")).to_have_attribute("aria-invalid", "true")
    assert [text for text in page.locator(".fault").all_inner_texts() if text] == [
        page.locator(f"#{field}-fault").inner_text()
    ]


def test_a_form_is_made_for_every_subject(visit: Visit, server: Server) -> None:
    schemas = server.client.get("/openapi.json").json()["components"]["schemas"]
    visit.page.goto("/builds")
    for kind in KINDS:
        visit.page.get_by_label("Kind", exact=True).select_option(kind)
        wanted = list(schemas[f"{kind.capitalize()}Options"]["properties"])
        expect(visit.page.locator("#options .field")).to_have_count(len(wanted))
        ids = visit.page.locator("#options .field :is(input, select)").evaluate_all("found => found.map(one => one.id)")
        assert ids == [f"params-{name}" for name in wanted]


def test_the_key_is_asked_once_and_kept_for_the_tab_only(browser: Browser, server: Server) -> None:
    with visits.visit(browser, server.url) as visit:
        page = visit.page
        page.goto("/")
        page.get_by_label("Key", exact=True).fill("ключ")
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("#key-fault")).to_contain_text("ASCII")
        page.get_by_label("Key", exact=True).fill("wrong")
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("#key-fault")).not_to_contain_text("ASCII")
        expect(page.locator("#key-fault")).not_to_be_empty()
        page.get_by_label("Key", exact=True).fill(KEY)
        page.get_by_role("button", name="Use this key").click()
        page.get_by_role("link", name="cascade plan").click()
        settle(page)
        expect(page.locator("#key")).to_be_hidden()
        page.locator("#chart").get_by_text("Numbers").click()
        expect(page.locator("#chart .copyable pre")).to_contain_text("$PARSIMONY_KEY")
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
            expect(visit.page.locator("#list .empty")).to_be_visible()
            first.stop()
            expect(visit.page.locator("#away")).to_be_visible(timeout=patient(20_000))
            second = start_server(tmp_path, port=first.port)
            try:
                second.wait_until_ready()
                expect(visit.page.locator("#away")).to_be_hidden(timeout=patient(20_000))
                expect(visit.page.locator("#list .empty")).to_be_visible()
                assert visit.page.locator(".error").count() == 0
            finally:
                second.stop()
    finally:
        first.stop()


def test_a_build_is_cancelled_and_a_failed_one_says_why(visit: Visit, server: Server) -> None:
    forest = {"learner": "sklearn.ensemble.RandomForestClassifier", "learner_params": {"n_estimators": 3000}}
    visit.page.goto(f"/builds/{start_build(server, 'index', forest, 'features')}")
    visit.page.get_by_role("button", name="Cancel this build").click()
    expect(visit.page.locator("#facts")).to_contain_text("cancelled")
    broken = start_build(server, "index", {"learner_params": {"C": -1.0}}, "features")
    visit.page.goto(f"/builds/{broken}")
    expect(visit.page.locator("#facts")).to_contain_text("failed", timeout=patient(30_000))
    expect(visit.page.get_by_role("alert")).to_contain_text("'C'")


def test_a_batch_is_assigned_and_downloaded(visit: Visit, server: Server, tmp_path: Path) -> None:
    queries = np.random.default_rng(0).random((50, 2)).astype(np.float32)
    np.save(tmp_path / "queries.npy", queries)
    np.savetxt(tmp_path / "queries.csv", queries, delimiter=",", header="x,y", comments="")
    downloaded = []
    visit.page.goto("/artifacts/portfolio/plan#batch")
    settle(visit.page)
    panel = visit.page.get_by_role("tabpanel", name="Assign a batch")
    for name in ("queries.npy", "queries.csv"):
        panel.get_by_label("Items").set_input_files(tmp_path / name)
        panel.get_by_role("button", name="Assign").click()
        expect(panel.locator("[data-items]")).to_have_attribute("data-items", "50")
        with visit.page.expect_download() as download:
            panel.get_by_role("button", name="Download the assignments").click()
        with open(download.value.path(), newline="") as file:
            downloaded.append([row["classifier"] for row in csv.DictReader(file)])
        visit.page.reload()
        settle(visit.page)
    limits = {"queries": queries.tolist(), "budget": "50%"}
    assignments = server.client.post("/v1/portfolios/plan/assignments", json=limits).json()["assignments"]
    assert downloaded == [assignments, assignments]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_begins_with_the_savings_that_the_api_reports(visit: Visit, server: Server, kind: str) -> None:
    record = server.client.get(f"/v1/artifacts/{kind}/plan").json()
    savings = record["savings"]
    today = savings["today"]
    visit.page.goto(f"/artifacts/{kind}/plan")
    settle(visit.page)
    for key, figures in (("today", today), ("artifact", savings)):
        block = visit.page.locator(f"[data-figures={key}]")
        assert number_in(block.locator("[data-cost]"), "data-cost") == figures["cost"]
        assert number_in(block.locator("[data-accuracy]"), "data-accuracy") == figures["accuracy"]
        shown = float(re.sub("[^0-9.]", "", block.locator("strong").inner_text()))
        assert shown == pytest.approx(1000 * figures["cost"], rel=1e-3)
        assert f"{figures['accuracy']:.1%}".rstrip("%") in block.inner_text()
    difference = visit.page.locator("#money .difference")
    assert number_in(difference, "data-saved") == today["saved"]
    interval = [float(bound) for bound in (difference.get_attribute("data-interval") or "").split()]
    assert interval == today["saved_interval"]
    expect(visit.page.locator("#money .flag")).to_have_text(savings["verdict"])
    is_time = record["unit"] in ("ms", "min")
    assert ("cost" in visit.page.locator("#money").inner_text()) != is_time
    assert ("cost" in visit.page.locator("#point").inner_text().lower()) != is_time
    assert visit.complaints == []


def number_in(place: Locator, attribute: str) -> float:
    return float(place.get_attribute(attribute) or "nan")


def test_the_operating_point_is_moved_by_keys_and_by_the_pointer(visit: Visit, server: Server) -> None:
    points = server.client.get("/v1/policies/plan/curve").json()["points"]
    costs = {one["limits"]["budget"]: one["expected"]["cost"] for one in points}
    page = visit.page
    page.goto("/artifacts/policy/plan")
    settle(page)
    handle = page.get_by_role("slider", name="Operating point")
    last = int(handle.get_attribute("aria-valuemax") or 0)
    assert last > 0

    def check_point() -> str:
        """Compare the figures with those of the setting in the API, and the form with the setting."""
        setting = page.locator("#point pre").inner_text()
        assert number_in(page.locator("#point [data-cost]"), "data-cost") == costs[json.loads(setting)["budget"]]
        assert float(page.locator("#decide-budget").input_value()) == json.loads(setting)["budget"]
        return setting

    handle.focus()
    settings = set()
    for key, place in (("Home", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("End", last), ("ArrowUp", last)):
        page.keyboard.press(key)
        expect(handle).to_have_attribute("aria-valuenow", str(place))
        settings.add(check_point())
    assert len(settings) == min(3, last + 1)
    box = handle.bounding_box()
    plot = page.locator("#chart .plot").bounding_box()
    assert box is not None
    assert plot is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(plot["x"], plot["y"] + plot["height"], steps=5)
    page.mouse.up()
    expect(handle).to_have_attribute("aria-valuenow", "0")
    assert check_point() in settings
    assert visit.complaints == []


def test_tabs_are_changed_with_the_keyboard_and_kept_in_the_address(visit: Visit) -> None:
    page = visit.page
    page.goto("/artifacts/cascade/plan")
    settle(page)
    tabs = page.get_by_role("tab")
    tabs.first.focus()
    page.keyboard.press("End")
    expect(tabs.last).to_be_focused()
    expect(tabs.last).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_have_count(1)
    expect(page.get_by_role("tabpanel", name="Versions").locator("tbody tr")).to_have_count(1)
    page.reload()
    settle(page)
    expect(page.get_by_role("tab", name="Versions")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Versions").focus()
    page.keyboard.press("ArrowRight")
    expect(tabs.first).to_have_attribute("aria-selected", "true")
    assert visit.complaints == []


def test_what_is_empty_is_hidden(visit: Visit, server: Server) -> None:
    assert server.client.get("/health/ready").json()["problems"] == []
    visit.page.goto("/")
    settle(visit.page)
    for name in ("alerts", "endpoints", "builds"):
        expect(visit.page.locator(f"#{name}")).to_be_hidden()
    visit.page.goto("/artifacts/cascade/plan")
    settle(visit.page)
    expect(visit.page.get_by_role("tab", name="Feedback")).to_have_count(0)
    assert visit.page.locator("main section:visible").evaluate_all("all => all.every((one) => one.innerText.trim())")


def test_the_overview_adds_up_the_best_savings_of_each_dataset_per_unit(visit: Visit, server: Server) -> None:
    record = server.client.get("/v1/artifacts/cascade/plan").json()
    cases = [
        ("USD", "a", "significant", 4.0, 1.0),
        ("USD", "a", "significant", 4.0, 2.0),  # saves less than the other one on its dataset
        ("USD", "b", "significant", 3.0, 2.5),
        ("USD", "c", "worse", 9.0, 1.0),
        ("USD", "d", "significant", 1.0, 5.0),  # more accurate, and more expensive
        ("ms", "e", "significant", 10.0, 4.0),
    ]
    items = []
    for unit, dataset, verdict, today, now in cases:
        savings = {**record["savings"], "verdict": verdict, "cost": now}
        savings["today"] = {**savings["today"], "cost": today, "saved": 1 - now / today}
        items.append({**record, "unit": unit, "dataset": dataset, "savings": savings, "drift": []})
    items[-1]["drift"] = ["accuracy"]
    listed = json.dumps({"items": items, "next": None, "total": len(items)})
    visit.page.route("**/v1/artifacts?*", lambda route: route.fulfill(body=listed, content_type="application/json"))
    visit.page.goto("/")
    settle(visit.page)
    expect(visit.page.locator("#alerts li")).to_have_count(1)
    expect(visit.page.locator("#alerts li")).to_contain_text("accuracy")
    expect(visit.page.locator("#artifacts tbody tr")).to_have_count(len(cases))
    boxes = visit.page.locator("#totals [data-unit]").all()
    shown = {
        box.get_attribute("data-unit"): (number_in(box, "data-today"), number_in(box, "data-now")) for box in boxes
    }
    assert shown == {"USD": (7.0, 3.5), "ms": (10.0, 4.0)}


def test_a_decision_that_requests_values_is_continued_with_them(visit: Visit) -> None:
    page = visit.page
    page.goto("/artifacts/pipeline/plan")
    settle(page)
    acquired = page.locator("#decide-acquired")
    expect(acquired).to_be_visible()
    decide = page.get_by_role("button", name="Decide", exact=True)
    decide.click()
    expect(acquired).not_to_have_value("")
    requested = json.loads(acquired.input_value())
    values = {"age": 70, "blood": [9.0, 0.0], "ward": "a"}
    assert requested.keys() <= values.keys()
    acquired.fill(json.dumps({name: values[name] for name in requested}))
    decide.click()
    expect(page.locator(".answer")).to_contain_text(re.compile("class|acquire"))
    assert page.locator(".fault").all_inner_texts() == [""] * page.locator(".fault").count()
    assert visit.complaints == []


def test_a_page_can_be_used_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit.page
    page.goto("/artifacts/cascade/plan")
    settle(page)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("slider", name="Operating point")).to_be_focused()


def test_a_feature_table_shows_the_set_up_work_that_its_features_share(visit: Visit, server: Server) -> None:
    files: dict[str, Any] = {
        "spec": (None, json.dumps(patients_spec())),
        "table": ("table.csv", to_csv(patients_columns(60)), "text/csv"),
    }
    assert server.client.put("/v1/datasets/patients", files=files).status_code == 201
    visit.page.goto("/datasets/patients")
    row = visit.page.locator("#profile tr", has_text="draw blood")
    expect(row).to_contain_text("hemoglobin, glucose, sodium")
    expect(row).to_contain_text("10")


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
    visit.page.get_by_text("Spec", exact=True).click()
    for name in HOSTILE:
        expect(visit.page.locator("#spec pre")).to_contain_text(json.dumps(name))
    assert set(HOSTILE) <= set(visit.page.locator(".chart td").all_text_contents())
    assert visit.page.locator("svg a").count() == 0
    assert (dialogs, visit.outside, visit.complaints) == ([], [], [])
