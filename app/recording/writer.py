"""Writer of recordings: a thread that groups rows and syncs each group once."""

import logging
import shutil
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.observability.metrics import Metrics
from app.processes.clock import SECONDS_PER_DAY
from app.recording.log_file import LogFile
from app.recording.segments import compact_recording
from app.store.recordings import StoredRecording
from models.errors import StoreRefused, UnknownRecording
from models.recording import RecordingSpec

logger = logging.getLogger("parsimony.recordings")
Stream = Literal["rows", "truths"]
GROUP_COMMIT_S = 0.5
"""Longest time that a row of a run waits for its group."""
COMPACTION_INTERVAL_S = 60.0
SEGMENT_BYTES = 16 * 2**20
"""Bytes after which a log becomes a segment, unless the recording's bounds are small."""
MAX_WAITING = 50_000
"""Rows that wait for the disk; further rows of runs are dropped, and logged."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Lines to append, made in the thread, and the future that waits for them."""

    recording: StoredRecording
    stream: Stream
    make_lines: Callable[[], Sequence[bytes]]
    done: "Future[None] | None"


class RecordingWriter:
    """Appends rows and truths to the logs of recordings, one log per process and stream.

    The thread starts with the first recording.

    Args:
        root: folder of all recordings.
        metrics: counts lost rows of runs.
    """

    def __init__(self, root: Path, metrics: Metrics) -> None:
        self.root = root
        self._lost = metrics.recording_rows_lost
        self._waiting: deque[_Entry] = deque()
        self._wake = threading.Event()
        self._logs: dict[tuple[str, Stream], LogFile] = {}
        self._specs: dict[str, RecordingSpec] = {}
        self._doomed: frozenset[str] = frozenset()
        self._dropped, self._is_stopping = 0, False
        self._tidy_due = 0.0
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def folder_of(self, recording_id: str) -> Path:
        """Return the folder of a recording's files."""
        return self.root / recording_id

    def update_recordings(self, recordings: Sequence[StoredRecording], deleted: Collection[str]) -> None:
        """Set the recordings to keep within bounds, and the ids of deleted recordings.

        The files of deleted recordings are deleted.
        """
        specs = {one.id: one.spec for one in recordings}
        doomed = frozenset(deleted) - specs.keys()
        if specs != self._specs or doomed != self._doomed:
            self._specs, self._doomed, self._tidy_due = specs, doomed, 0.0
            self._start()
            self._wake.set()

    def add_row(self, recording: StoredRecording, make_line: Callable[[], bytes]) -> None:
        """Write a row in the background within a second; drop it if too many are pending."""
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            self._lost.labels("overload").inc()
            return
        self._waiting.append(_Entry(recording, "rows", lambda: (make_line(),), None))
        if self._thread is None:
            self._start()

    def append_lines(self, recording: StoredRecording, stream: Stream, lines: Sequence[bytes]) -> "Future[None]":
        """Write lines; the future completes when they are on disk.

        It raises StoreRefused if the disk is full.
        """
        done: Future[None] = Future()
        self._waiting.append(_Entry(recording, stream, lambda: lines, done))
        self._start()
        self._wake.set()
        return done

    def close(self) -> None:
        """Write the pending lines, and end the thread."""
        self._is_stopping = True
        self._wake.set()
        with self._starting:
            if self._thread is not None:
                self._thread.join(timeout=10.0)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            is_last = self._is_stopping
            self._wake.wait(0.0 if is_last else GROUP_COMMIT_S)
            self._wake.clear()
            try:
                self._write_group()
                if time.monotonic() >= self._tidy_due and not is_last:
                    self._tidy_due = time.monotonic() + COMPACTION_INTERVAL_S
                    self._tidy()
            except Exception:  # later rows must be written all the same
                logger.exception("recording failed")
            if is_last:
                break
        for log in self._logs.values():
            log.close()

    def _write_group(self) -> None:
        groups: dict[tuple[str, Stream], list[_Entry]] = defaultdict(list)
        for _ in range(len(self._waiting)):
            entry = self._waiting.popleft()
            groups[entry.recording.id, entry.stream].append(entry)
        for (recording_id, stream), entries in groups.items():
            self._append_group(recording_id, stream, entries)
        if self._dropped:
            logger.error("recorded rows dropped count=%d", self._dropped)
            self._dropped = 0

    def _append_group(self, recording_id: str, stream: Stream, entries: Sequence[_Entry]) -> None:
        error: Exception | None = None
        try:
            if recording_id in self._doomed:
                raise UnknownRecording(f"recording {entries[0].recording.name!r} not found")
            lines = [line for entry in entries for line in self._make_lines(entry)]
            self._log_of(recording_id, stream, entries[-1].recording.spec).append_lines(lines)
        except UnknownRecording as deleted:
            error = deleted
        except OSError as failed:
            logger.error("recorded rows not written count=%d error=%s", len(entries), failed)
            self._lost.labels("disk").inc(sum(entry.done is None for entry in entries))
            error = StoreRefused(f"rows cannot be written to {self.root}: {failed.strerror}; free disk space and retry")
            self._close_log(recording_id, stream)
        for entry in entries:
            if entry.done is not None:
                entry.done.set_result(None) if error is None else entry.done.set_exception(error)

    def _make_lines(self, entry: _Entry) -> Sequence[bytes]:
        """Return the lines of an entry; none for a run that cannot be written as a row."""
        try:
            return entry.make_lines()
        except Exception:
            logger.exception("run not recorded recording=%s", entry.recording.name)
            self._lost.labels("encoding").inc()
            return ()

    def _log_of(self, recording_id: str, stream: Stream, spec: RecordingSpec) -> LogFile:
        """Return the open log; a log that is too large or too old is closed first."""
        log = self._logs.get((recording_id, stream))
        if log is not None and self._is_full(log, spec):
            self._close_log(recording_id, stream)
            self._tidy_due = 0.0
            log = None
        if log is None:
            log = self._logs[recording_id, stream] = LogFile(self.folder_of(recording_id) / stream)
        return log

    def _is_full(self, log: LogFile, spec: RecordingSpec) -> bool:
        max_age_s = min(SECONDS_PER_DAY, spec.max_age_days * SECONDS_PER_DAY / 8)
        return log.size >= min(SEGMENT_BYTES, spec.max_bytes / 8) or time.monotonic() - log.opened_at > max_age_s

    def _close_log(self, recording_id: str, stream: Stream) -> None:
        log = self._logs.pop((recording_id, stream), None)
        if log is not None:
            log.close()

    def _tidy(self) -> None:
        """Close old logs, keep recordings within their bounds, and delete the files of deleted ones."""
        for (recording_id, stream), log in list(self._logs.items()):
            spec = self._specs.get(recording_id)
            if recording_id in self._doomed or (spec is not None and self._is_full(log, spec)):
                self._close_log(recording_id, stream)
        for recording_id, spec in self._specs.items():
            compact_recording(self.folder_of(recording_id), spec.max_bytes, spec.max_age_days * SECONDS_PER_DAY)
        for recording_id in self._doomed:
            shutil.rmtree(self.folder_of(recording_id), ignore_errors=True)
