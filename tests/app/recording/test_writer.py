"""Recordings on disk: what is acknowledged survives a crash, segments are bounded, and what is deleted is gone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from app.observability.metrics import Metrics
from app.recording import segments, writer
from app.recording.log_file import LogFile
from app.recording.report import count_rows
from app.recording.row_lines import make_posted_lines, make_truth_lines
from app.recording.segments import ROWS, compact_recording, iterate_tables, list_files, measure_bytes
from app.recording.writer import RecordingWriter
from app.store.recordings import StoredRecording
from models.errors import StoreRefused, UnknownRecording
from models.recording import RecordedRow, RecordingSpec, Truth
from tests.support.servers import wait_for

ARTIFACT = {"kind": "cascade", "name": "digits"}
WRITER = """
import sys
from pathlib import Path
from tests.app.recording.test_writer import recording, row_lines
from app.observability.metrics import Metrics
from app.recording.writer import RecordingWriter
writer = RecordingWriter(Path(sys.argv[1]), Metrics())
writer.update_recordings([recording()], ())
for number in range(100_000):
    writer.append_lines(recording(), "rows", row_lines(number)).result(10)
    print(number, flush=True)
"""


def recording(**fields: Any) -> StoredRecording:
    spec = RecordingSpec.model_validate({"artifact": ARTIFACT, **fields})
    return StoredRecording("digits", "id", "2026-01-01T00:00:00.000Z", "ms", spec)


def row(number: int, **fields: Any) -> RecordedRow:
    calls = [{"classifier": "K1", "label": "a", "cost": 1.0, "propensity": 1.0}]
    return RecordedRow.model_validate({"id": f"item-{number}", "calls": calls, **fields})


def row_lines(number: int, count: int = 1, **fields: Any) -> list[bytes]:
    rows = [row(number * count + place, **fields) for place in range(count)]
    return make_posted_lines(rows, recording().spec)


def ids_in(folder: Path) -> list[str]:
    return [one for table in iterate_tables(folder / "rows", ROWS) for one in table["id"].to_pylist()]


def test_acknowledged_rows_survive_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(50):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    acknowledged = 50 + len(process.stdout.readlines())
    process.wait()
    process.stdout.close()
    found = ids_in(tmp_path / "id")
    assert found[:acknowledged] == [f"item-{number}" for number in range(acknowledged)]
    assert len(found) <= acknowledged + 1
    compact_recording(tmp_path / "id", 2**30, 1e6)  # as the next process does
    assert [path.suffix for path in list_files(tmp_path / "id" / "rows")] == [".parquet"]
    assert ids_in(tmp_path / "id") == found


def test_a_torn_line_and_a_log_beside_its_segment_do_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    log = LogFile(folder)
    log.append_lines(row_lines(0, 3))
    with log.path.open("ab") as file:
        file.write(b'{"id": "torn"')
    assert ids_in(tmp_path) == ["item-0", "item-1", "item-2"]
    assert not segments.convert_log(log.path, ROWS)  # it has a writer
    copy = log.path.read_bytes()
    log.close()
    assert segments.convert_log(log.path, ROWS)
    log.path.write_bytes(copy)  # a crash between the segment and the removal of its log
    assert ids_in(tmp_path) == ["item-0", "item-1", "item-2"]
    compact_recording(tmp_path, 2**30, 1e6)
    assert ids_in(tmp_path) == ["item-0", "item-1", "item-2"]


def test_rows_are_kept_without_what_is_not_to_be_kept(tmp_path: Path) -> None:
    posted = row(1, item={"text": "t", "user": {"name": "n"}, "turns": [{"user": "u", "said": 1}]}, embedding=[0.5, 2])
    kept = RecordingSpec.model_validate({"artifact": ARTIFACT, "keeps_items": True, "drops": ["user"]})
    for spec, item in ((recording().spec, None), (kept, {"text": "t", "turns": [{"said": 1}]})):
        (line,) = make_posted_lines([posted], spec)
        stored = json.loads(line)
        assert (stored["item"] and json.loads(stored["item"])) == item
        assert b"user" not in line
        assert stored["embedding"] == "AAAAPwAAAEA="


@pytest.mark.slow
def test_segments_are_bounded_in_bytes_and_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 20_000)
    monkeypatch.setattr(writer, "GROUP_COMMIT_S", 0.01)
    stored = recording(max_bytes=2**20)
    folder = tmp_path / "id"
    recorder = RecordingWriter(tmp_path, Metrics())
    recorder.update_recordings([stored], ())
    for number in range(200):
        noise = [{"classifier": os.urandom(80).hex(), "cost": 1.0} for _ in range(2)]
        lines = make_posted_lines([row(number * 50 + at, calls=noise) for at in range(50)], stored.spec)
        recorder.append_lines(stored, "rows", lines).result(10)
    recorder.close()
    compact_recording(folder, 2**20, 1e6)
    assert 2**19 < measure_bytes(folder) <= 2**20
    left = ids_in(folder)
    assert (left[-1], "item-0" in left) == ("item-9999", False)  # the oldest go first
    old = list_files(folder / "rows")[0]
    os.utime(old, (time.time() - 3600, time.time() - 3600))
    compact_recording(folder, 2**30, 1800)
    assert old not in list_files(folder / "rows")
    assert ids_in(folder)[-1] == "item-9999"


def test_rows_of_runs_are_on_disk_within_a_second_and_deleted_with_their_recording(tmp_path: Path) -> None:
    recorder = RecordingWriter(tmp_path, Metrics())
    stored = recording()
    recorder.update_recordings([stored], ())
    (line,) = row_lines(7)
    recorder.add_row(stored, lambda: line)
    recorder.add_row(stored, lambda: 1 / 0)  # type: ignore[arg-type, return-value]  # a run that cannot be written
    recorder.add_row(stored, lambda: line)
    wait_for(lambda: ids_in(tmp_path / "id") == ["item-7", "item-7"], 2)
    recorder.update_recordings([stored], {"id"})  # not yet, as long as it is there
    recorder.append_lines(stored, "rows", [line]).result(10)
    assert len(ids_in(tmp_path / "id")) == 3
    recorder.update_recordings([], {"id"})
    wait_for(lambda: not (tmp_path / "id").exists(), 5)
    with pytest.raises(UnknownRecording):
        recorder.append_lines(stored, "rows", [line]).result(10)
    recorder.close()


def test_rows_that_cannot_be_written_are_not_acknowledged(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    recorder = RecordingWriter(blocked, Metrics())
    with pytest.raises(StoreRefused):
        recorder.append_lines(recording(), "rows", row_lines(1)).result(10)
    recorder.close()


def test_lost_rows_of_runs_are_counted_by_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING", 5)
    metrics, (line,) = Metrics(), row_lines(1)
    blocked = tmp_path / "file"
    blocked.write_text("")
    recorder = RecordingWriter(blocked, metrics)
    refused = recorder.append_lines(recording(), "rows", row_lines(2))  # its caller has the error: it is not lost
    for _ in range(7):
        recorder.add_row(recording(), lambda: line)
    with pytest.raises(StoreRefused):
        refused.result(10)
    recorder.close()
    kept = RecordingWriter(tmp_path / "folder", metrics)
    kept.add_row(recording(), lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    kept.add_row(recording(), lambda: line)
    kept.close()
    assert ids_in(tmp_path / "folder" / "id") == ["item-1"]
    (metric,) = metrics.recording_rows_lost.collect()
    samples = {each.labels["reason"]: each.value for each in metric.samples if each.name.endswith("_total")}
    assert samples["encoding"] == 1
    assert samples["overload"] >= 1
    assert samples["overload"] + samples["disk"] == 7


def test_counts_join_rows_with_truths(tmp_path: Path) -> None:
    stored, recorder = recording(), RecordingWriter(tmp_path, Metrics())
    explored = {"classifier": "K2", "label": "b", "cost": 9.0, "propensity": 0.1, "is_explored": True}
    rows = [row(1, time="2026-01-01T00:00:00Z"), row(2), row(3, calls=[explored])]
    recorder.append_lines(stored, "rows", make_posted_lines(rows, stored.spec)).result(10)
    truths = [Truth(id="item-1", truth="a"), Truth(id="item-1", truth="b"), Truth(id="item-9", quality={"K1": 0.5})]
    recorder.append_lines(stored, "truths", make_truth_lines(truths)).result(10)
    recorder.close()
    for _ in range(2):
        counts = count_rows(tmp_path / "id", None)
        assert (counts.rows, counts.explored, counts.with_truth) == (3, 1, 1)
        assert (counts.oldest, abs(counts.newest - time.time()) < 100) == (1_767_225_600.0, True)
        assert count_rows(tmp_path / "id", "K2").with_truth == 2
        assert count_rows(tmp_path / "id", "K1").with_truth == 2
        compact_recording(tmp_path / "id", 2**30, 1e6)  # the same of segments
    empty = count_rows(tmp_path / "none", None)
    assert (empty.rows, empty.with_truth) == (0, 0)
