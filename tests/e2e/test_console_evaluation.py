"""Evaluation of an artifact in the console: the figures and the reliability table are those of the API."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from playwright.sync_api import Browser, expect

from tests.e2e import visits
from tests.e2e.visits import Visit
from tests.support.kinds import server_with_all_kinds
from tests.support.samples import trace_columns
from tests.support.servers import Server

pytestmark = visits.MARKS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_with_all_kinds(tmp_path_factory.mktemp("console")) as server:
        yield server


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    with visits.visit(browser, server.url, "k") as tab:
        yield tab


def unseen_items(rows: int) -> list[dict[str, Any]]:
    """Return unseen rows of the trace as complete items."""
    columns = trace_columns(rows, seed=9)
    return [
        {
            "values": {
                "fast.label": str(columns["fast_says"][row]),
                "fast.confidence": columns["fast_confidence"][row],
                "middle.label": str(columns["middle_says"][row]),
                "middle.confidence": columns["middle_confidence"][row],
                "strong.label": str(columns["strong_says"][row]),
                "strong.cost": columns["strong_ms"][row],
            },
            "truth": str(columns["truth"][row]),
        }
        for row in range(rows)
    ]


def write_files(items: list[dict[str, Any]], folder: Path) -> list[Path]:
    flat = [{**one["values"], "truth": one["truth"]} for one in items]
    paths = [folder / "items.csv", folder / "items.parquet"]
    with paths[0].open("w", newline="") as file:
        table = csv.DictWriter(file, list(flat[0]), quoting=csv.QUOTE_NONNUMERIC)
        table.writeheader()
        table.writerows(flat)
    pa.parquet.write_table(pa.Table.from_pylist(flat), paths[1])
    return paths


def test_unseen_rows_show_their_figures_and_reliability(visit: Visit, server: Server, tmp_path: Path) -> None:
    items = unseen_items(300)
    visit.page.goto("/artifacts/cascade/plan#evaluate")
    panel = visit.page.get_by_role("tabpanel", name="Evaluate")
    for path in write_files(items, tmp_path):
        with visit.page.expect_request(lambda request: "/evaluate" in request.url) as sent:
            panel.get_by_label("Complete items").set_input_files(path)
            panel.get_by_role("button", name="Evaluate").click()
        body = sent.value.post_data_json if path.suffix == ".csv" else None
        limits = {name: value for name, value in (body or {}).items() if name != "items"}
        if body is None:
            parts = (part.split("=") for part in sent.value.url.split("?")[1].split("&"))
            limits = {name: float(value) for name, value in parts}
        reply = server.client.post("/v1/cascades/plan/evaluate", json={**limits, "items": items}).json()
        rows = panel.get_by_role("table", name="Reliability").locator("tbody tr")
        bins = reply["summary"]["reliability"]
        expect(rows).to_have_count(len(bins))
        for at, one in enumerate(bins):
            shown = [cell.replace("\u00a0", " ") for cell in rows.nth(at).locator("td").all_inner_texts()]
            low, high = one["accuracy_interval"]
            shares = [f"{100 * share:.1f} %" for share in (one["confidence"], one["accuracy"], low, high)]
            assert shown == [str(one["items"]), *shares]
        accuracy = f"{100 * reply['summary']['accuracy']:.1f}"
        expect(panel.locator(".facts")).to_contain_text(accuracy)
        visit.page.reload()


def test_a_file_without_the_columns_shows_the_error(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("truth\nyes\n")
    visit.page.goto("/artifacts/cascade/plan#evaluate")
    panel = visit.page.get_by_role("tabpanel", name="Evaluate")
    panel.get_by_label("Complete items").set_input_files(path)
    panel.get_by_role("button", name="Evaluate").click()
    expect(panel.get_by_role("alert")).to_contain_text("items.0.values.fast.confidence")
