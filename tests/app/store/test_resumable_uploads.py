"""What an upload holds after errors is a prefix of what was sent."""

import asyncio
import time
from collections.abc import AsyncIterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from app.routes.uploads import _receive_bytes
from app.store.resumable_uploads import ResumableUploads, UploadWriter

SENT = b"".join(number.to_bytes(4, "big") for number in range(2**20))


class SlowFile(FileIO):
    """A file on a slow disk."""

    def write(self, data: Any) -> int:
        time.sleep(0.05)
        return int(super().write(bytes(data)[:700_000]))


class Sending:
    """A request whose body arrives in chunks, then nothing more."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    async def stream(self) -> AsyncIterator[bytes]:
        for start in range(0, len(SENT), 100_000):
            yield SENT[start : start + 100_000]
        await asyncio.sleep(60)


@pytest.mark.parametrize("after_s", [0.01, 0.07, 0.12, 0.2, 0.3, 1.0])
def test_a_cancelled_part_is_written_once(tmp_path: Path, after_s: float) -> None:
    uploads = ResumableUploads(tmp_path, 10**9)
    state = uploads.create_upload(len(SENT))
    path = tmp_path / state.id / "data"

    async def receive() -> None:
        with SlowFile(path, "ab") as file:
            await asyncio.wait_for(_receive_bytes(Sending(), UploadWriter(file, state)), after_s)  # type: ignore[arg-type]

    with pytest.raises(TimeoutError):
        asyncio.run(receive())
    received = path.read_bytes()
    assert SENT.startswith(received)
    assert uploads.get(state.id).offset == len(received) > 0


def test_a_full_disk_ends_a_part_with_an_error(tmp_path: Path) -> None:
    state = ResumableUploads(tmp_path, 10**9).create_upload(10)
    with FileIO("/dev/full", "ab") as full, pytest.raises(OSError, match="No space"):
        UploadWriter(full, state).write(b"0123456789")


def test_what_an_ended_check_left_behind_is_deleted(tmp_path: Path) -> None:
    uploads = ResumableUploads(tmp_path, 10**9)
    state = uploads.create_upload(0)
    scratch = tmp_path / state.id / "scratch"
    scratch.mkdir()
    (scratch / "table.csv").write_bytes(b"x")
    uploads.clear_scratch(state.id)
    assert not scratch.exists()
    assert uploads.get(state.id).length == 0
