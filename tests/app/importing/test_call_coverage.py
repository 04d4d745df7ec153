"""Coverage of recordings: shares of rows that classifiers answered, by label, length of the prompt, and hour."""

from pathlib import Path
from typing import Any

import pytest

from app.importing import call_coverage
from app.importing.call_coverage import measure_coverage
from app.observability.metrics import Metrics
from app.recording.row_lines import make_posted_lines, make_truth_lines
from app.recording.segments import compact_recording
from app.recording.writer import RecordingWriter
from app.store.recordings import StoredRecording
from models.recording import Grouping, RecordedRow, RecordingSpec, Truth


def write(folder: Path, rows: list[dict[str, Any]], truths: dict[str, str]) -> Path:
    spec = RecordingSpec(unit="ms", keeps_items=True)
    stored = StoredRecording("log", "id", "2026-01-01T00:00:00.000Z", "ms", spec)
    writer = RecordingWriter(folder, Metrics())
    lines = make_posted_lines([RecordedRow.model_validate(row) for row in rows], spec)
    writer.append_lines(stored, "rows", lines).result(10)
    known = make_truth_lines([Truth(id=item, truth=label) for item, label in truths.items()])
    writer.append_lines(stored, "truths", known).result(10)
    writer.close()
    return folder / "id"


def row(number: int, **fields: Any) -> dict[str, Any]:
    """Return a row whose fast classifier answered, and the strong one in every second row; every fifth call fails."""
    fast = {"classifier": "fast", "label": "a", "cost": 1.0, "error": "failed" if number % 5 == 0 else None}
    strong = [{"classifier": "strong", "label": "ab"[number % 4 // 2], "cost": 9.0}] if number % 2 == 0 else []
    return {"id": str(number), "calls": [fast, *strong], **fields}


def shares(folder: Path, by: Grouping, reference: str | None = None) -> dict[str | None, tuple[int, float, float]]:
    """Return for each group the number of rows, and the shares of both classifiers."""
    found = measure_coverage(folder, by, reference)
    assert found.classifiers == ("fast", "strong")
    return {one.group: (one.rows, one.answered["fast"], one.answered["strong"]) for one in found.groups}


def test_rows_are_grouped_by_label_of_truths_and_of_the_reference(tmp_path: Path) -> None:
    folder = write(tmp_path, [row(number) for number in range(20)], {"0": "b", "1": "b", "3": "a"})
    assert shares(folder, "label") == {
        "a": (1, 1.0, 0.0),
        "b": (2, 0.5, 0.5),
        None: (17, 14 / 17, 9 / 17),
    }
    of_reference = shares(folder, "label", "strong")
    assert {group: one[0] for group, one in of_reference.items()} == {"a": 5, "b": 7, None: 8}
    assert of_reference[None][2] == 0.0


def test_rows_are_grouped_by_hour(tmp_path: Path) -> None:
    rows = [row(number, time=f"2026-01-0{1 + number % 3}T{7 + number % 2:02}:30:00Z") for number in range(12)]
    assert shares(write(tmp_path, rows, {}), "hour") == {"07": (6, 4 / 6, 1.0), "08": (6, 5 / 6, 0.0)}


def test_rows_are_grouped_by_quarters_of_the_lengths_of_prompts(tmp_path: Path) -> None:
    chats = [{"messages": [{"role": "user", "content": "x" * (1 + number)}]} for number in range(40)]
    rows = [row(number, item=chats[number] if number % 2 else "x" * (1 + number)) for number in range(40)]
    found = shares(write(tmp_path, [*rows, row(40)], {}), "length")
    counts = {group: one[0] for group, one in found.items()}
    assert counts == {"1-10": 10, "11-20": 10, "21-30": 10, "31-40": 10, None: 1}
    assert found["1-10"] == (10, 0.8, 0.5)


def test_prompts_of_one_length_are_one_group(tmp_path: Path) -> None:
    rows = [row(number, item="same") for number in range(8)]
    assert {group: one[0] for group, one in shares(write(tmp_path, rows, {}), "length").items()} == {"4-4": 8}


@pytest.mark.parametrize("is_segment", [False, True])
def test_only_the_newest_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_segment: bool) -> None:
    monkeypatch.setattr(call_coverage, "MAX_ROWS", 6)
    for part in (0, 10):
        rows = [row(part + number, time="2026-01-01T09:00:00Z" if part else None) for number in range(10)]
        folder = write(tmp_path, rows, {})
        if is_segment:
            compact_recording(folder, 2**30, 1e6)
    assert shares(folder, "hour") == {"09": (6, 5 / 6, 0.5)}  # rows 14 to 19


def test_a_recording_without_rows_has_no_groups(tmp_path: Path) -> None:
    for by in ("label", "length", "hour"):
        found = measure_coverage(tmp_path / "none", by, None)
        assert (found.rows, found.classifiers, found.groups) == (0, (), ())
